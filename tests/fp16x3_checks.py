"""What the tests of fp16x3 on the GPU and on the CPU share."""

import math
from collections.abc import Callable, Iterable

import pytest
import torch
from helpers import laid_out, normal, same_bits
from torch import Tensor

import torch_smem_gemm as smem
from torch_smem_gemm.bench.bounds import ULP, bound, least_step

# Both multiply the same split operands in the same order.
VARIANTS = ("fp16x3:wgmma", "fp16x3:mma")
LARGE_M = 70  # more rows than the kernels for a small M take
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


def assert_rows_have_the_bits_of_a_large_m(
    multiply: Callable[..., Tensor], x: Tensor, b: Tensor, bias: Tensor, sizes: Iterable[int]
) -> None:
    """Compare products of so many rows of ``x`` with the rows of the product of all."""
    options = {"bias": bias, "activation": "silu"}
    whole, with_options = multiply(x, b), multiply(x, b, **options)
    for m in sizes:
        first = min(3, len(x) - m)
        rows = x[first : first + m]
        assert same_bits(multiply(rows, b), whole[first : first + m]), m
        assert same_bits(multiply(rows, b, **options), with_options[first : first + m]), m


def check_rows(
    n: int, k: int, data: Callable[[Tensor, Tensor], None], layout: str, ms: tuple, device: str
) -> None:
    """Compare products of few rows with the rows of one that other kernels compute."""
    x, w, bias = (normal(*s, device=device) for s in ((LARGE_M, k), (n, k), (n,)))
    if k > 3:
        data(x, w)
    assert_rows_have_the_bits_of_a_large_m(fp16x3, x, laid_out(w.mT, layout), bias, ms)


def kernels_of(a: Tensor, b: Tensor) -> list[str]:
    """The launches of a product on the CPU."""
    return [launch.kernel for launch in smem.trace("gemm", a, b, kernel="fp16x3").launches]


def plain_columns(x: Tensor, w: Tensor) -> None:
    """Columns without outliers."""


def wide_columns(x: Tensor, w: Tensor) -> None:
    """Columns with many outliers, and rows far from 1."""
    w *= torch.exp(4 * torch.randn_like(w))
    x[3] *= 1e30
    x[5] *= 1e-30


def growing_columns(x: Tensor, w: Tensor) -> None:
    """Columns whose largest element comes late, or early; in some all signs are equal."""
    k = w.shape[1]
    steps = torch.arange(k, device=w.device) * (24.0 / k)
    w[0::3] *= torch.exp2(steps)
    w[1::3] *= torch.exp2(-steps)
    w[::5].abs_()
    w[1::5].abs_().neg_()


def special_columns(x: Tensor, w: Tensor) -> None:
    """Single outliers, rows and columns for the fallback, zeros, the ends of the range."""
    n, k = w.shape
    w[3, k // 3] = 1e-12
    w[20, 0], w[20, k - 1] = 1e-13, 1e-12
    w[n - 1, k - 1] = -1e-11
    w[33] = 0
    w[34, : k // 2] = 0
    w[40] *= 1e-38
    w[41] *= 1e38
    w[50, : k // 2] *= 2.0**-20
    w[7, k // 2], w[17, 1], w[18, k - 1] = math.inf, math.nan, -math.inf
    # Down to the last binade that is represented.
    w[60] = torch.exp2(-torch.randint(0, 29, (k,), device=w.device)) * (1 + torch.rand_like(w[60]))
    x[7, 0] = 1e-14
    x[9, 3] = math.inf


def near_outliers(x: Tensor, w: Tensor) -> None:
    """Columns with one or two elements near the limit of outliers, before and after larger ones.

    Such an element makes a warp read the rest of its column.
    """
    n, k = w.shape
    w.clamp_(-4, 4)
    columns = torch.arange(n, device=w.device)
    for share, how_many in ((2, n), (3, n // 3)):  # every second column has one, some have two
        chosen = columns[::share][:how_many]
        at = torch.randint(0, k, (len(chosen),), device=w.device)
        down = torch.randint(20, 32, (len(chosen),), device=w.device)
        w[chosen, at] = torch.exp2(-down.float()) * (1 + torch.rand(len(chosen), device=w.device))
    chosen = columns[1::7]
    w[chosen, torch.randint(0, k, (len(chosen),), device=w.device)] = 1e3  # sooner or later
    w[columns[::11], k - 1] = 9.0


# Each changes the rows of A, and the columns of B as rows.
every_data = pytest.mark.parametrize(
    "data",
    [plain_columns, wide_columns, growing_columns, special_columns, near_outliers],
    ids=lambda data: data.__name__,
)
