"""Which rows and keys the mode's attention hands to torch's kernels, with a stand-in on the CPU."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from torch_smem_gemm.invariance import attention, attention_sequences
from torch_smem_gemm.invariance.attention_sequences import PART, Keys, Spans

HEADS = {"gqa": (8, 2, 16), "mha": (3, 3, 8)}  # heads, heads of keys, features
LENGTHS = [(1, 5), (1, 700), (1, 2 * PART), (3, 40), (70, 70), (40, 600)]  # queries, keys
LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "cache": lambda x: x.contiguous(),
    "cache with room": lambda x: torch.cat([x, x], 2)[:, :, : x.shape[2]],
    "projection": lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),
    "unaligned": lambda x: torch.cat([x, x], 3)[..., 1 : 1 + x.shape[3]],
}


def attend(
    q: Tensor, keys: Keys, spans: Spans, queries: int, length: int, is_causal: bool, scale: float
) -> tuple[Tensor, Tensor]:
    """Attention of one sequence after the other, as torch's kernels of variable length."""
    assert all(x.dtype == torch.int32 and x.is_contiguous() for x in spans)
    assert len(spans.queries) == len(spans.keys) == len(spans.lengths) + 1
    assert spans.queries[-1] == len(q)
    out, logsumexp = torch.zeros_like(q), torch.full((q.shape[1], len(q)), -math.inf)
    for i, count in enumerate(spans.lengths.tolist()):
        rows = slice(int(spans.queries[i]), int(spans.queries[i + 1]))
        start = int(spans.keys[i])
        asked = q[rows].transpose(0, 1).double()
        assert count <= length
        assert asked.shape[1] <= queries
        k, v = (x[start : start + count].transpose(0, 1).double() for x in (keys.k, keys.v))
        assert k.shape[1] == count
        k, v = (x.repeat_interleave(q.shape[1] // x.shape[0], 0) for x in (k, v))
        scores = asked @ k.mT * scale
        if is_causal:
            sees = torch.ones(scores.shape[1:], dtype=torch.bool).tril(count - asked.shape[1])
            scores = scores.masked_fill(~sees, -math.inf)
        out[rows] = (scores.softmax(-1).nan_to_num() @ v).transpose(0, 1).to(q.dtype)
        logsumexp[:, rows] = scores.logsumexp(-1).float()
    return out, logsumexp


@pytest.fixture(autouse=True)
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernels and the questions that need a GPU; nothing is remembered from another test."""
    for name, replacement in {
        "_flash": attend,
        "_efficient": attend,
        "_has_flash": lambda device: True,
        "_unmasked": {},
        "_indices": {},
    }.items():
        monkeypatch.setattr(attention_sequences, name, replacement)
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda device: 0, raising=False)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)


def inputs(
    batch: int, heads: tuple[int, int, int], lengths: tuple[int, int], layout: str
) -> tuple[Tensor, ...]:
    of_queries, of_keys, features = heads
    q = torch.randn(batch, of_queries, lengths[0], features)
    k, v = (torch.randn(batch, of_keys, lengths[1], features) for _ in range(2))
    return q, LAYOUTS[layout](k), LAYOUTS[layout](v)


def ours(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, causal: bool = False):
    def torchs(*args: object, **options: object) -> Tensor:
        raise AssertionError("left to torch")

    with torch.no_grad():
        return attention.scaled_dot_product_attention(
            torchs, q, k, v, mask, is_causal=causal, enable_gqa=True
        )


def check(result: Tensor, q: Tensor, k: Tensor, v: Tensor, sees: Tensor | None = None) -> None:
    """Compare with attention in float64, where a query that sees nothing has zeros."""
    q, k, v = (x.double() for x in (q, k, v))
    k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (k, v))
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    if sees is not None:
        scores = scores.masked_fill(~sees, -math.inf)
    expected = scores.softmax(-1).nan_to_num() @ v
    tolerance = 1e-5 if result.dtype == torch.float32 else 5e-3
    torch.testing.assert_close(result.double(), expected, rtol=0, atol=tolerance)


@pytest.mark.one_in(5)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=["efficient", "flash"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
@pytest.mark.parametrize("heads", HEADS.values(), ids=HEADS)
def test_every_layout(
    heads: tuple[int, int, int], lengths: tuple[int, int], layout: str, dtype: torch.dtype
) -> None:
    q, k, v = (x.to(dtype) for x in inputs(3, heads, lengths, layout))
    queries, keys = lengths
    check(ours(q, k, v), q, k, v)
    if queries == keys:
        causal = torch.ones(queries, keys, dtype=torch.bool).tril()
        check(ours(q, k, v, causal=True), q, k, v, causal)
    # Padded on the left: rows of the batch begin at other keys, and the last one sees nothing.
    first = torch.tensor([0, keys // 3, keys])
    in_row = (torch.arange(keys) >= first[:, None])[:, None, None]
    mask = in_row & torch.ones(queries, keys, dtype=torch.bool).tril(keys - queries)
    check(ours(q, k, v, mask), q, k, v, mask)


def test_a_decode_whose_cache_grows() -> None:
    """Other lengths, strides and batches between the steps; what is remembered must fit each."""
    torch.manual_seed(0)
    heads = HEADS["gqa"]
    for keys in (PART - 1, PART, PART + 1, PART + 2, PART - 1, 2 * PART + 3):
        for batch in (1, 3):
            for layout in ("cache", "cache with room", "projection"):
                q, k, v = inputs(batch, heads, (1, keys), layout)
                for _ in range(2):  # a layer, and the next
                    check(ours(q, k, v), q, k, v)


def test_layers_share_what_their_sequences_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """A layer makes nothing new, a step only what its length changes."""
    made = []
    for name in ("_indices_of", "_spans_of"):
        real = getattr(attention_sequences, name)
        monkeypatch.setattr(
            attention_sequences,
            name,
            lambda *args, name=name, real=real: [made.append(name), real(*args)][1],
        )
    for keys in (20, 21):
        for _ in range(3):
            ours(*inputs(2, HEADS["gqa"], (1, keys), "cache"))
    assert made == ["_indices_of", "_spans_of", "_spans_of"]


def test_a_captured_graph_has_memory_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    q, k, v = inputs(2, HEADS["gqa"], (1, 20), "cache")
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    check(ours(q, k, v), q, k, v)
    assert not attention_sequences._unmasked
    assert not attention_sequences._indices


def test_a_few_lengths_are_remembered_and_no_more() -> None:
    for keys in range(1, 2 * attention_sequences._REMEMBERED):
        ours(*inputs(1, (1, 1, 8), (1, keys), "cache"))
    assert len(attention_sequences._unmasked) == attention_sequences._REMEMBERED
