"""The kernel that measures the float32 multiply-add rate."""

from collections.abc import Callable

import pytest
import torch

import torch_smem_gemm  # noqa: F401  (registers the op)

pytestmark = pytest.mark.gpu


def expected(rounds: int) -> torch.Tensor:
    """What each of a block's threads ends with: 8 chains of 8 multiply-adds a round."""
    factor = torch.tensor(1.0) / (rounds + 1)
    addend = factor - 1.0
    start = torch.arange(256)[:, None] + torch.arange(8)
    x = start.double()
    for _ in range(8 * rounds):
        x = x * factor.double() + addend.double()
    return x.sum(1)


@pytest.mark.parametrize("rounds", [1, 3, 50])
def test_every_thread_makes_all_its_multiply_adds(rounds: int) -> None:
    out = torch.full((4 * 256,), float("nan"), device="cuda")
    torch.ops.smem._ffma(out, rounds)
    wanted = expected(rounds).repeat(4)
    torch.testing.assert_close(out.cpu().double(), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("make_out", "rounds", "message"),
    [
        (lambda: torch.empty(256, dtype=torch.float64, device="cuda"), 1, "256 of float64"),
        (lambda: torch.empty(255, device="cuda"), 1, "a multiple of 256"),
        (lambda: torch.empty(256, 2, device="cuda")[:, 0], 1, "expected contiguous"),
        (lambda: torch.empty(256, device="cuda"), 0, "rounds is 0, expected 1"),
    ],
)
def test_errors(make_out: Callable[[], torch.Tensor], rounds: int, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        torch.ops.smem._ffma(make_out(), rounds)
