"""The kernels that measure what the GPU's arithmetic reaches when nothing else limits it."""

from collections.abc import Callable

import pytest
import torch

from torch_smem_gemm._kernels import chip

pytestmark = pytest.mark.gpu


def ffma(rounds: int) -> torch.Tensor:
    """What each of a block's threads ends with: 8 chains of 8 multiply-adds a round."""
    factor = torch.tensor(1.0) / (rounds + 1)
    addend = factor - 1.0
    start = torch.arange(256)[:, None] + torch.arange(8)
    x = start.double()
    for _ in range(8 * rounds):
        x = x * factor.double() + addend.double()
    return x.sum(1)


def mma_sync(rounds: int, is_tf32: bool) -> torch.Tensor:
    """What each of a warp's lanes ends with: the sum of its elements of 4 x 8 products."""
    per_register = 1 if is_tf32 else 2
    lane = torch.arange(32)

    def elements(seed: int, index: int) -> torch.Tensor:
        return ((seed * lane + 5 * index) % 7 - 3).double()

    def operand(seed: int, first: int, registers: int, rows: int) -> torch.Tensor:
        """Rows of M or N by K; register r of a lane has rows lane / 4, of A also 8 below."""
        values = torch.empty(rows, 8 * per_register, dtype=torch.float64)
        halves = rows // 8
        for r in range(registers):
            for e in range(per_register):
                row = lane // 4 + r % halves * 8
                k = (r // halves * 4 + lane % 4) * per_register + e
                values[row, k] = elements(seed, (first + r) * per_register + e)
        return values

    total = torch.zeros(16, 8, dtype=torch.float64)
    for i in range(4):
        for j in range(8):
            total += operand(11, 4 * i, 4, 16) @ operand(13, 2 * j, 2, 8).T
    row, col = lane // 4, lane % 4 * 2
    own = total[row, col] + total[row, col + 1] + total[row + 8, col] + total[row + 8, col + 1]
    return rounds * own


@pytest.mark.parametrize("rounds", [1, 3, 50])
def test_every_thread_makes_all_its_multiply_adds(rounds: int) -> None:
    out = torch.full((4 * 256,), float("nan"), device="cuda")
    torch.ops.smem._ffma(out, rounds)
    wanted = ffma(rounds).repeat(4)
    torch.testing.assert_close(out.cpu().double(), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("is_tf32", [False, True])
@pytest.mark.parametrize("rounds", [1, 3, 50])
def test_every_warp_makes_all_its_products(rounds: int, is_tf32: bool) -> None:
    """Exactly: the elements are small integers."""
    if chip("cuda").code_capability < 80:
        pytest.skip("needs a GPU of compute capability 8.0 or newer, and code for it")
    out = torch.full((4 * 256,), float("nan"), device="cuda")
    torch.ops.smem._mma_sync(out, rounds, is_tf32)
    assert torch.equal(out.cpu().double(), mma_sync(rounds, is_tf32).repeat(32))


@pytest.mark.parametrize(
    ("make_out", "rounds", "message"),
    [
        (lambda: torch.empty(256, dtype=torch.float64, device="cuda"), 1, "256 of float64"),
        (lambda: torch.empty(255, device="cuda"), 1, "a multiple of 256"),
        (lambda: torch.empty(256, 2, device="cuda")[:, 0], 1, "expected contiguous"),
        (lambda: torch.empty(256, device="cuda"), 0, "rounds is 0, expected 1"),
    ],
)
@pytest.mark.parametrize("op", ["_ffma", "_mma_sync"])
def test_errors(op: str, make_out: Callable[[], torch.Tensor], rounds: int, message: str) -> None:
    with pytest.raises(RuntimeError, match=f"{op}: .*{message}"):
        getattr(torch.ops.smem, op)(make_out(), rounds)
