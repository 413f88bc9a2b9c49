"""index_add of rows: in the order of the index, the same bits whatever other rows it names."""

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers import FLOATS, same_bits, short
from torch import Tensor

import torch_smem_gemm as smem
from torch_smem_gemm.invariance import scatters

ROOT = Path(__file__).resolve().parent.parent
add_rows = torch.ops.smem._index_add_

every_dtype = pytest.mark.parametrize("dtype", FLOATS[1:], ids=short)


def in_order(x: Tensor, index: Tensor, source: Tensor) -> Tensor:
    """The sum of each row in float32, one addition after the other, rounded once."""
    sums = x.float().cpu()
    for row, values in zip(index.tolist(), source.float().cpu(), strict=True):
        sums[row] += values
    return sums.to(x).view(x.shape)


def operands(
    rows: int, count: int, features: int, dtype: torch.dtype, device: str
) -> tuple[Tensor, Tensor, Tensor]:
    x, source = (torch.randn(n, features).to(dtype) for n in (rows, count))
    # Few of the rows are named often, some never.
    index = (rows * torch.rand(count) ** 3).long()
    return x.to(device), index.to(device), source.to(device)


@every_dtype
@pytest.mark.parametrize(
    ("rows", "count", "features"),
    [(1, 1, 1), (5, 3, 1000), (40, 300, 7), (3, 600, 1025), (300, 257, 2)],
    ids=str,
)
def test_rows_are_added_in_order(
    device: str, dtype: torch.dtype, rows: int, count: int, features: int
) -> None:
    x, index, source = operands(rows, count, features, dtype, device)
    expected = in_order(x, index, source)
    by_order = x.clone()
    add_rows(x, index, source)
    assert same_bits(x, expected)
    add_rows(by_order, *sorted_index(index, source))
    assert same_bits(by_order, expected)


def sorted_index(index: Tensor, source: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    index, order = index.sort(stable=True)
    return index, source, order


def test_empty(device: str) -> None:
    x = torch.randn(3, 4, device=device)
    before = x.clone()
    add_rows(x, torch.empty(0, dtype=torch.int64, device=device), torch.empty(0, 4, device=device))
    assert same_bits(x, before)
    none = torch.empty(3, 0, device=device)
    add_rows(none, torch.zeros(2, dtype=torch.int64, device=device), none[:2])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": torch.zeros(3, 4).double()}, r"x is 3x4 of float64, expected a contiguous matrix"),
        ({"x": torch.zeros(4, 3).t()}, r"x is 3x4 of float32, expected a contiguous matrix"),
        ({"source": torch.zeros(2, 5)}, r"source is 2x5 of float32, expected a contiguous matrix"),
        ({"source": torch.zeros(2, 4).half()}, r"source is 2x4 of float16"),
        ({"index": torch.zeros(2).int()}, r"index is 2 of int32, expected contiguous int64"),
        ({"index": torch.zeros(3).long()}, r"index is 3 of int64, expected contiguous int64, one"),
        ({"order": torch.zeros(3).long()}, r"order is 3 of int64, expected contiguous int64, one"),
        ({"index": torch.tensor([0, 3])}, r"index holds 3, expected 0 to 2"),
        ({"index": torch.tensor([-1, 0])}, r"index holds -1, expected 0 to 2"),
        ({"order": torch.tensor([0, 2])}, r"order holds 2, expected 0 to 1"),
    ],
    ids=str,
)
def test_what_does_not_fit(change: dict[str, Tensor], message: str) -> None:
    arguments: dict[str, Any] = {
        "x": torch.zeros(3, 4),
        "index": torch.tensor([2, 0]),
        "source": torch.zeros(2, 4),
    }
    with pytest.raises(RuntimeError, match=rf"smem\._index_add_: {message}"):
        add_rows(**{**arguments, **change})


# -------------------------------------------------------------------------------- in the mode, GPU


FORMS: dict[str, Any] = {
    "index_add": lambda x, index, source: x.index_add(0, index, source),
    "negative dim": lambda x, index, source: x.index_add(-2, index, source),
    "in place": lambda x, index, source: x.clone().index_add_(0, index, source),
    "out": lambda x, index, source: torch.index_add(x, 0, index, source, out=torch.empty_like(x)),
    "int32": lambda x, index, source: x.index_add(0, index.int(), source),
    "a view": lambda x, index, source: x.index_add(0, index, source.t().contiguous().t()),
    "transposed": lambda x, index, source: x.t().contiguous().t().index_add(0, index, source),
    "3 dimensions": lambda x, index, source: (
        x.view(len(x), 2, -1).index_add(0, index, source.view(len(source), 2, -1)).view_as(x)
    ),
}


@pytest.mark.gpu
@every_dtype
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("count", [1, 9, 300, scatters._MAX_UNSORTED + 1])
def test_forms_in_the_mode(form: Any, dtype: torch.dtype, count: int) -> None:
    x, index, source = operands(70, count, 96, dtype, "cuda")
    before = x.clone()
    with smem.batch_invariant():
        result = form(x, index, source)
    assert same_bits(result, in_order(x, index, source))
    assert same_bits(x, before)


@pytest.mark.gpu
@every_dtype
def test_a_row_alone_and_among_others(dtype: torch.dtype) -> None:
    x, index, source = operands(50, 2 * scatters._MAX_UNSORTED, 128, dtype, "cuda")
    with smem.batch_invariant():
        together = x.index_add(0, index, source)
        for row in (0, 1, 17, 49):
            own = index == row
            alone = x[row : row + 1].index_add(0, torch.zeros_like(index[own]), source[own])
            assert same_bits(alone[0], together[row])


@pytest.mark.gpu
@pytest.mark.parametrize(
    "form",
    [
        lambda x, index, source: x.index_add(1, index, source.t()[: len(x)]),
        lambda x, index, source: x.index_add(0, index, source, alpha=2),
        lambda x, index, source: x.double().index_add(0, index, source.double()),
        lambda x, index, source: x[:, 0].index_add(0, index, source[:, 0]),
        lambda x, index, source: x.clone().t().index_add_(1, index, source.t()).t(),
    ],
    ids=["dim 1", "alpha", "float64", "1 dimension", "transposed, in place"],
)
def test_other_calls_are_torchs(form: Any) -> None:
    x, index, source = operands(64, 64, 64, torch.float32, "cuda")
    with smem.batch_invariant():
        first = form(x, index, source)
        assert same_bits(first, form(x, index, source))
    torch.testing.assert_close(first, form(x, index, source))


@pytest.mark.gpu
def test_errors_are_torchs() -> None:
    x, index, source = operands(8, 4, 16, torch.float32, "cuda")
    with smem.batch_invariant():
        with pytest.raises((RuntimeError, IndexError)):
            x.index_add(0, index, source[:, :3])
        with pytest.raises((RuntimeError, IndexError)):
            x.index_add(5, index, source)
        with pytest.raises(RuntimeError):
            x.index_add(0, index, source.half())
        with pytest.raises(RuntimeError):
            x.index_add(0, index.cpu(), source)
        with pytest.raises(RuntimeError, match="single memory location"):
            x.index_add_(0, index, x[:4])


@pytest.mark.gpu
def test_gradients_and_a_new_thread() -> None:
    x, index, source = operands(8, 12, 16, torch.float32, "cuda")
    results: list[Tensor] = []

    def run() -> None:
        x.requires_grad_()
        source.requires_grad_()
        with smem.batch_invariant():
            result = x.index_add(0, index, source)
            result.backward(torch.arange(128.0, device="cuda").view(8, 16))
        results.append(result.detach())

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert same_bits(results[0], in_order(x.detach(), index, source.detach()))
    grad = torch.arange(128.0, device="cuda").view(8, 16)
    assert x.grad is not None
    assert source.grad is not None
    assert same_bits(x.grad, grad)
    assert same_bits(source.grad, grad[index])


@pytest.mark.gpu
def test_in_a_cuda_graph() -> None:
    x, index, source = operands(8, 12, 16, torch.bfloat16, "cuda")
    with smem.batch_invariant():
        x.index_add(0, index, source)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            result = x.index_add(0, index, source)
    index.copy_(torch.randint(0, 8, (12,)))
    graph.replay()
    assert same_bits(result, in_order(x, index, source))


IN_A_PROCESS = """
import torch, torch_smem_gemm as smem
x = torch.zeros(5, 8, device="cuda")
with smem.batch_invariant():
    print(x.index_add(0, torch.tensor({index}, device="cuda"), torch.ones(2, 8, device="cuda")))
"""


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("index", "status", "text"),
    [("[3, 3]", 0, "[2., 2., 2., 2., 2., 2., 2., 2.]"), ("[1, 5]", 1, "row < problem.rows")],
    ids=["first call", "out of range"],
)
def test_in_a_fresh_process(index: str, status: int, text: str) -> None:
    """An index out of range ends what the process may do with the GPU, as torch's kernels do."""
    done = subprocess.run(
        [sys.executable, "-c", IN_A_PROCESS.format(index=index)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
        capture_output=True,
        text=True,
    )
    assert done.returncode == status, done.stderr
    assert text in done.stdout + done.stderr
    assert status == 0 or "device-side assert" in done.stderr
