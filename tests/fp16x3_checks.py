"""What the tests of fp16x3 on the GPU and on the CPU share."""

import math

import pytest
import torch
from torch import Tensor

import torch_smem_gemm as smem
from torch_smem_gemm.bench.bounds import ULP, bound, least_step

# Both multiply the same split operands in the same order.
VARIANTS = ("fp16x3:wgmma", "fp16x3:mma")
every_variant = pytest.mark.parametrize("kernel", VARIANTS)


def fp16x3(a: Tensor, b: Tensor, kernel: str = "fp16x3", **options: object) -> Tensor:
    """The product by this kernel."""
    return smem.gemm(a, b, kernel=kernel, **options)


def set_extremes(a: Tensor, b: Tensor) -> None:
    """Numbers that are not finite, zeros, and both ends of float32's range."""
    a[0, 0], a[1, 1], a[2, 2], b[5, 7], b[6, 8] = math.inf, -math.inf, math.nan, math.inf, math.nan
    a[10] = 0
    a[11] *= 2.0**-140
    a[12] *= 2.0**120
    b[:, 20] *= 2.0**-120
    b[:, 21] = 0
    b[:, 22] *= 2.0**-60


def special(x: Tensor) -> Tensor:
    """Scaled lines, some with an outlier or two, and numbers that are not finite."""
    rows, cols = x.shape
    x = x * torch.randint(-9, 9, (rows, 1), device=x.device).float().exp2()
    x[rows // 2, cols // 3], x[rows // 3, 0] = math.inf, math.nan
    x[-1, 0], x[0, -1] = 1e-15, 1e-15
    x[1, : cols // 4] = 1e-15
    return x


def assert_within_bound(result: Tensor, a: Tensor, b: Tensor) -> None:
    """What docs/accuracy.md promises, where the exact result is finite."""
    (k, n), exact, expected = b.shape, a.double() @ b.double(), a @ b
    finite = exact.isfinite()
    magnitude = a.double().abs() @ b.double().abs()
    off = (result.double() - exact).abs()[finite]
    limit = bound("fp16x3", n, k) * ULP * magnitude[finite] + least_step(k)
    assert (off <= limit).all()
    assert torch.equal(result.isnan(), expected.isnan())
    assert torch.equal(result.isinf(), expected.isinf())
