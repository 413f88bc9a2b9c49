"""Matrices with various distributions of values, and the error of a product of them."""

from collections.abc import Callable

import torch
from torch import Tensor

from torch_smem_gemm.bench.bounds import ULP

Make = Callable[[int, int, torch.device | str], Tensor]


def _powers_of_ten(*shape: int, device: torch.device | str) -> Tensor:
    return 10.0 ** torch.randint(-15, 16, shape, device=device)


def _cancelling(rows: int, length: int, device: torch.device | str) -> Tensor:
    """Return lines whose second half cancels the first to within 2^-12 of it."""
    half = torch.randn(rows, (length + 1) // 2, device=device)
    second = -half * (1 + 2.0**-12 * torch.randn_like(half))
    return torch.cat([half, second], 1)[:, :length]


def _hilbert(rows: int, length: int, device: torch.device | str) -> Tensor:
    row, col = torch.arange(rows, device=device), torch.arange(length, device=device)
    return 1 / (1.0 + row[:, None] + col)


# float32 matrices of lines of a length: rows of A, or columns of B.
DATA: dict[str, Make] = {
    "normal": lambda m, k, device: torch.randn(m, k, device=device),
    "uniform": lambda m, k, device: torch.rand(m, k, device=device),
    "lognormal": lambda m, k, device: torch.randn(m, k, device=device).exp(),
    "wide": lambda m, k, device: (
        torch.randn(m, k, device=device) * (4 * torch.randn(m, k, device=device)).exp()
    ),
    "scaled lines": lambda m, k, device: (
        torch.randn(m, k, device=device) * _powers_of_ten(m, 1, device=device)
    ),
    "scaled along K": lambda m, k, device: (
        torch.randn(m, k, device=device) * _powers_of_ten(1, k, device=device)
    ),
    "cancelling": _cancelling,
    "Hilbert": _hilbert,
    "signs": lambda m, k, device: torch.randint(0, 2, (m, k), device=device) * 2.0 - 1,
    "half zeros": lambda m, k, device: torch.randn(m, k, device=device).relu(),
}


def errors(result: Tensor, a: Tensor, b: Tensor) -> tuple[float, float]:
    """Return how far ``result`` is from ``a @ b``: by its norm, and the largest of an element.

    The first is a share of the exact product's norm, rows and columns being scaled to length 1, so
    that all of them count alike. The second is in units of 2^-24 of what the magnitudes of an
    element's terms sum to, (|A| |B|).
    """
    a, b = a.double(), b.double()
    exact, magnitude = a @ b, a.abs() @ b.abs()
    off = (result.double() - exact).abs()
    scale = (a.norm(dim=1, keepdim=True) * b.norm(dim=0, keepdim=True)).clamp_min(1e-300)
    largest = (off / magnitude).nan_to_num(0.0).max().item()
    return ((off / scale).norm() / (exact / scale).norm()).item(), largest / ULP
