"""scaled_dot_product_attention in smem.batch_invariant: any batch, any padding, the same bits."""

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from helpers import FLOATS, short
from torch import Tensor

import torch_smem_gemm as smem
from torch_smem_gemm.invariance.attention_mask import ranges_of

# Heads, heads of keys, features.
HEADS = {
    "llama": (8, 2, 128),
    "gpt2": (4, 4, 64),
    "gemma": (4, 1, 256),
    "odd": (3, 3, 20),
    "mla": (2, 2, 192),
}
# Queries, keys.
LENGTHS = [(1, 1), (1, 5), (1, 700), (1, 3000), (16, 16), (130, 130), (64, 1000), (700, 700)]
every_dtype = pytest.mark.parametrize("dtype", FLOATS[1:], ids=short)
every_heads = pytest.mark.parametrize("heads", HEADS.values(), ids=HEADS)
every_length = pytest.mark.parametrize("lengths", LENGTHS, ids=lambda x: f"{x[0]}x{x[1]}")


def same_bits(a: Tensor, b: Tensor) -> bool:
    return a.dtype == b.dtype and torch.equal(*(x.contiguous().view(torch.uint8) for x in (a, b)))


def inputs(
    batch: int, heads: tuple[int, int, int], lengths: tuple[int, int], dtype: torch.dtype
) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator("cuda").manual_seed(lengths[1])
    of_queries, of_keys, features = heads
    shapes = [(of_queries, lengths[0])] + [(of_keys, lengths[1])] * 2
    return tuple(  # type: ignore[return-value]
        torch.randn(batch, *shape, features, device="cuda", generator=generator).to(dtype)
        for shape in shapes
    )


def attention(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> Tensor:
    options.setdefault("enable_gqa", q.shape[-3] != k.shape[-3])
    return F.scaled_dot_product_attention(q, k, v, **options)


def exact(q: Tensor, k: Tensor, v: Tensor, sees: Tensor | None = None) -> Tensor:
    """Attention in float64; a query that sees nothing has zeros."""
    q, k, v = (x.double() for x in (q, k, v))
    k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (k, v))
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    if sees is not None:
        scores = scores.masked_fill(~sees, -math.inf)
    return scores.softmax(-1).nan_to_num() @ v


def check_values(ours: Tensor, expected: Tensor, dtype: torch.dtype) -> None:
    tolerance = 1e-5 if dtype == torch.float32 else 4e-2 if dtype == torch.bfloat16 else 5e-3
    assert ours.dtype == dtype
    assert ours.shape == expected.shape
    assert not ours.isnan().any()
    assert (ours - expected).abs().max() <= tolerance


@pytest.mark.gpu
@every_dtype
@every_heads
@every_length
def test_a_row_has_the_same_bits_in_any_batch(
    dtype: torch.dtype, heads: tuple[int, int, int], lengths: tuple[int, int]
) -> None:
    q, k, v = inputs(32, heads, lengths, dtype)
    options = {"is_causal": lengths[0] == lengths[1]}
    sees = torch.ones(lengths, dtype=torch.bool, device="cuda").tril(lengths[1] - lengths[0])
    with smem.batch_invariant():
        alone = attention(q[:1], k[:1], v[:1], **options)
        for batch in (2, 7, 32):
            together = attention(q[:batch], k[:batch], v[:batch], **options)
            assert same_bits(together[:1], alone)
    check_values(alone, exact(q[:1], k[:1], v[:1], sees if options["is_causal"] else None), dtype)


@pytest.mark.gpu
@every_dtype
@every_heads
@pytest.mark.parametrize("queries", [1, 50])
def test_the_layout_does_not_matter(
    dtype: torch.dtype, heads: tuple[int, int, int], queries: int
) -> None:
    q, k, v = inputs(3, heads, (queries, 700), dtype)
    with smem.batch_invariant():
        plain = attention(q, k, v)
        projected = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v)]
        assert same_bits(attention(*projected), plain)
        cache = [F.pad(x, (0, 0, 0, 13))[:, :, :700] for x in (k, v)]
        assert same_bits(attention(q, *cache), plain)
        of_values = v.mT.contiguous().mT
        assert same_bits(attention(q, k, of_values), plain)
        assert same_bits(attention(q[0], k[0], v[0]), plain[0])
        five = [x.unsqueeze(1) for x in (q, k, v)]
        assert same_bits(attention(*five), plain.unsqueeze(1))


@pytest.mark.gpu
@every_dtype
@pytest.mark.parametrize("keys", [300, 1300])
def test_a_group_of_heads_as_queries(dtype: torch.dtype, keys: int) -> None:
    """transformers passes the heads that share keys as queries if there is a mask."""
    q, k, v = inputs(3, HEADS["llama"], (1, keys), dtype)
    mask = torch.ones(3, 1, 1, keys, dtype=torch.bool, device="cuda")
    with smem.batch_invariant():
        as_heads = attention(q, k, v)
        as_queries = attention(q.view(3, 2, 4, 128), k, v, attn_mask=mask)
    assert same_bits(as_queries.view(q.shape), as_heads)


def causal_mask(queries: int, keys: int, first: list[int], last: list[int]) -> Tensor:
    """(batch, 1, queries, keys): the last query sees the last key of each row's range."""
    key, query = torch.arange(keys), torch.arange(queries)[:, None]
    rows = [
        (key >= a) & (key < b) & (key <= query + keys - queries)
        for a, b in zip(first, last, strict=True)
    ]
    return torch.stack(rows).unsqueeze(1)


@pytest.mark.gpu
@every_dtype
@every_heads
@pytest.mark.parametrize("queries", [1, 40, 200])
@pytest.mark.parametrize("as_float", [False, True], ids=["bool", "float"])
def test_padding_on_the_left(
    dtype: torch.dtype, heads: tuple[int, int, int], queries: int, as_float: bool
) -> None:
    lengths = [200, 199, 60, 1][: 4 if queries == 1 else 2]
    keys = 200 if queries != 1 else 1200
    lengths = lengths if queries != 1 else [1200, 1199, 513, 1]
    q, k, v = inputs(len(lengths), heads, (queries, keys), dtype)
    mask = causal_mask(queries, keys, [keys - n for n in lengths], [keys] * len(lengths)).cuda()
    given = (
        torch.zeros(mask.shape, device="cuda").masked_fill_(~mask, -math.inf) if as_float else mask
    )
    given = given.to(dtype) if as_float else given
    with smem.batch_invariant():
        together = attention(q, k, v, attn_mask=given)
        for row, n in enumerate(lengths):
            real = min(queries, n)
            alone = attention(
                q[row : row + 1, :, queries - real :],
                k[row : row + 1, :, keys - n :],
                v[row : row + 1, :, keys - n :],
                is_causal=real == n,
                **(
                    {}
                    if real == n or queries == 1
                    else {"attn_mask": causal_mask(real, n, [0], [n]).cuda()}
                ),
            )
            assert same_bits(together[row : row + 1, :, queries - real :], alone)
    check_values(together, exact(q, k, v, mask), dtype)


@pytest.mark.gpu
@every_dtype
@every_heads
def test_padding_on_the_right(dtype: torch.dtype, heads: tuple[int, int, int]) -> None:
    lengths = [150, 149, 1, 77]
    q, k, v = inputs(4, heads, (150, 150), dtype)
    key, query = torch.arange(150), torch.arange(150)[:, None]
    mask = torch.stack([(key <= query) & (key < n) for n in lengths]).unsqueeze(1).cuda()
    with smem.batch_invariant():
        together = attention(q, k, v, attn_mask=mask)
        for row, n in enumerate(lengths):
            only = (x[row : row + 1, :, :n] for x in (q, k, v))
            assert same_bits(together[row : row + 1, :, :n], attention(*only, is_causal=True))
    check_values(together, exact(q, k, v, mask), dtype)


@pytest.mark.gpu
@every_dtype
@every_heads
def test_padding_without_causality(dtype: torch.dtype, heads: tuple[int, int, int]) -> None:
    lengths = [90, 89, 1, 40]
    q, k, v = inputs(4, heads, (90, 90), dtype)
    mask = torch.stack([torch.arange(90) < n for n in lengths])[:, None, None].cuda()
    with smem.batch_invariant():
        together = attention(q, k, v, attn_mask=mask)
        for row, n in enumerate(lengths):
            only = (x[row : row + 1, :, :n] for x in (q, k, v))
            assert same_bits(together[row : row + 1, :, :n], attention(*only))
    check_values(together, exact(q, k, v, mask), dtype)


@pytest.mark.gpu
@every_dtype
@every_heads
@pytest.mark.parametrize("queries", [1, 33])
def test_any_other_mask(dtype: torch.dtype, heads: tuple[int, int, int], queries: int) -> None:
    q, k, v = inputs(7, heads, (queries, 101), dtype)
    generator = torch.Generator("cuda").manual_seed(0)
    mask = torch.rand(7, 1, queries, 101, device="cuda", generator=generator) < 0.5
    mask[..., 3] = True
    bias = torch.randn(1, heads[0], queries, 101, device="cuda", generator=generator).to(dtype)
    with smem.batch_invariant():
        for options in (lambda n: {"attn_mask": mask[:n]}, lambda n: {"attn_mask": bias}):
            alone = attention(q[:1], k[:1], v[:1], **options(1))
            assert same_bits(attention(q, k, v, **options(7))[:1], alone)
        check_values(attention(q, k, v, attn_mask=mask), exact(q, k, v, mask), dtype)


@pytest.mark.gpu
@every_dtype
@pytest.mark.parametrize("name", ["llama", "gpt2", "odd"])
@pytest.mark.parametrize("causal", [False, True])
def test_gradients(dtype: torch.dtype, name: str, causal: bool) -> None:
    q, k, v = inputs(7, HEADS[name], (100, 100), dtype)
    grad = torch.cos(q.float()).to(dtype)

    def gradients(batch: int) -> tuple[Tensor, ...]:
        leaves = [x[:batch].detach().requires_grad_() for x in (q, k, v)]
        return torch.autograd.grad(attention(*leaves, is_causal=causal), leaves, grad[:batch])

    with smem.batch_invariant():
        alone = gradients(1)
        for batch in (2, 7):
            for together, one in zip(gradients(batch), alone, strict=True):
                assert same_bits(together[:1], one)
    for ours, torchs in zip(alone, gradients(1), strict=True):
        assert (ours - torchs).abs().max() <= 0.05 * torchs.abs().max()


@pytest.mark.gpu
def test_a_mask_that_changes_in_place() -> None:
    q, k, v = inputs(2, HEADS["gpt2"], (1, 64), torch.bfloat16)
    mask = torch.ones(2, 1, 1, 64, dtype=torch.bool, device="cuda")
    with smem.batch_invariant():
        whole = attention(q, k, v, attn_mask=mask)
        assert same_bits(attention(q, k, v), whole)
        mask[..., 32:] = False
        half = attention(q, k[:, :, :32], v[:, :, :32])
        assert same_bits(attention(q, k, v, attn_mask=mask), half)


@pytest.mark.gpu
@pytest.mark.parametrize("queries", [1, 64])
def test_cuda_graph(queries: int) -> None:
    q, k, v = inputs(3, HEADS["llama"], (queries, 900), torch.bfloat16)
    with smem.batch_invariant():
        eager = attention(q, k, v)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            captured = attention(q, k, v)
        captured.zero_()
        graph.replay()
    assert same_bits(captured, eager)


@pytest.mark.gpu
@pytest.mark.parametrize(("queries", "keys"), [(50, 20), (20, 50)])
def test_causal_queries_and_keys_of_different_numbers(queries: int, keys: int) -> None:
    q, k, v = inputs(3, HEADS["gpt2"], (queries, keys), torch.bfloat16)
    sees = torch.ones(queries, keys, dtype=torch.bool, device="cuda").tril()
    with smem.batch_invariant():
        check_values(attention(q, k, v, is_causal=True), exact(q, k, v, sees), torch.bfloat16)


@pytest.mark.gpu
def test_shapes_that_do_not_fit() -> None:
    q, k, v = inputs(2, HEADS["llama"], (4, 4), torch.bfloat16)
    with smem.batch_invariant(), pytest.raises(RuntimeError, match="enable_gqa"):
        attention(q, k, v, enable_gqa=False)


@pytest.mark.gpu
@every_dtype
@every_heads
@pytest.mark.parametrize("lengths", [(1, 40), (1, 700), (60, 60)], ids=str)
def test_a_row_that_sees_nothing_is_zero(
    dtype: torch.dtype, heads: tuple[int, int, int], lengths: tuple[int, int]
) -> None:
    q, k, v = inputs(3, heads, lengths, dtype)
    mask = torch.ones(3, 1, 1, lengths[1], dtype=torch.bool, device="cuda")
    mask[1] = False
    with smem.batch_invariant():
        check_values(attention(q, k, v, attn_mask=mask), exact(q, k, v, mask), dtype)


# ------------------------------------------------------------------------------- the parts of keys


def parts_of(
    sequences: int, parts: int, group: int, heads: int, features: int, device: str
) -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(parts)
    rows = sequences * parts * group
    lengths = torch.randint(1, 9, (sequences, parts), dtype=torch.int32)
    lengths[0, parts // 2 :] = 0
    return tuple(  # type: ignore[return-value]
        x.to(device)
        for x in (
            torch.randn(rows, heads, features),
            9 * torch.randn(heads, rows),
            lengths.view(-1),
        )
    )


@every_dtype
@pytest.mark.parametrize("shape", [(2, 3, 4, 1, 128), (3, 17, 1, 2, 200), (1, 1, 2, 1, 8)], ids=str)
def test_parts_are_combined(device: str, dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    sequences, parts, group, heads, features = shape
    out, logsumexp, lengths = parts_of(*shape, device)
    out = out.to(dtype)
    combined = torch.ops.smem._combine_parts(out, logsumexp, lengths, parts, group)
    values = out.double().view(sequences, parts, group, heads, features)
    scores = logsumexp.double().mT.reshape(sequences, parts, group, heads, 1)
    is_empty = (lengths == 0).view(sequences, parts, 1, 1, 1)
    weights = scores.masked_fill(is_empty, -math.inf).softmax(1).nan_to_num()
    expected = (weights * values).sum(1).view(-1, heads, features)
    check_values(combined, expected, dtype)


@every_dtype
def test_parts_without_keys_change_nothing(device: str, dtype: torch.dtype) -> None:
    out, logsumexp, lengths = parts_of(2, 3, 2, 1, 64, device)
    out, lengths = out.to(dtype), lengths.view(2, 3).clone()
    lengths[:] = 1
    short = torch.ops.smem._combine_parts(out, logsumexp, lengths.view(-1), 3, 2)
    longer = torch.full((2, 40, 2, 1, 64), math.nan, dtype=dtype, device=device)
    longer[:, :3] = out.view(2, 3, 2, 1, 64)
    scores = torch.full((1, 2, 40, 2), math.nan, device=device)
    scores[:, :, :3] = logsumexp.view(1, 2, 3, 2)
    many = torch.zeros(2, 40, dtype=torch.int32, device=device)
    many[:, :3] = lengths
    args = longer.view(-1, 1, 64), scores.view(1, -1), many.view(-1), 40, 2
    assert same_bits(torch.ops.smem._combine_parts(*args), short)


def test_parts_that_do_not_fit() -> None:
    out, logsumexp, lengths = parts_of(2, 3, 2, 1, 64, "cpu")
    combine = torch.ops.smem._combine_parts
    for parts, group in ((0, 2), (2**32, 2**32)):
        message = rf"smem\._combine_parts: parts is {parts} and group {group}, expected 1"
        with pytest.raises(RuntimeError, match=message):
            combine(out, logsumexp, lengths, parts, group)
    with pytest.raises(
        RuntimeError, match=r"smem\._combine_parts: parts_out is 12x1x64 of float64"
    ):
        combine(out.double(), logsumexp, lengths, 3, 2)
    with pytest.raises(RuntimeError, match=r"smem\._combine_parts: logsumexp is 1x11"):
        combine(out, logsumexp[:, 1:], lengths, 3, 2)
    with pytest.raises(RuntimeError, match=r"smem\._combine_parts: lengths is 6 of int64"):
        combine(out, logsumexp, lengths.long(), 3, 2)


# ----------------------------------------------------------------------------------- what masks say


def test_ranges_of_a_mask() -> None:
    left = ranges_of(causal_mask(6, 6, [0, 2], [6, 6]), 2)
    assert left is not None
    assert left.is_causal
    assert not left.is_padded_right
    assert left.first is not None
    assert left.lengths is not None
    assert (left.first.tolist(), left.lengths.tolist()) == ([0, 2], [6, 4])


def test_ranges_of_a_full_mask() -> None:
    ranges = ranges_of(torch.tensor([True, True, False]).expand(1, 1, 4, 3), 3)
    assert ranges is not None
    assert not ranges.is_causal
    assert ranges.lengths is not None
    assert ranges.lengths.tolist() == [2, 2, 2]


def test_no_ranges() -> None:
    holes = torch.tensor([True, False, True]).expand(1, 1, 4, 3)
    assert ranges_of(holes, 1) is None
    assert ranges_of(torch.ones(6, 6).bool().tril().triu(-2)[None, None], 1) is None
    assert ranges_of(torch.rand(1, 1, 4, 4), 1) is None


def test_a_finite_number_hides_a_key_from_a_query_that_sees_another() -> None:
    lowest = torch.finfo(torch.float32).min
    mask = torch.zeros(1, 1, 3, 4)
    mask[..., 2:] = lowest
    ranges = ranges_of(mask, 1)
    assert ranges is not None
    assert ranges.lengths is not None
    assert ranges.lengths.tolist() == [2]
    assert ranges_of(torch.full((1, 1, 3, 4), lowest), 1) is None
