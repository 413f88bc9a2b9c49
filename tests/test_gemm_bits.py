"""smem.gemm gives the same bits from every kernel, in every run, whatever stands beside a row."""

import math

import pytest
import torch
from gemm_kernels import largest_k, of_the_same_bits
from helpers import (
    ACTIVATIONS,
    FLOATS,
    FLOATS_BUT_TWO_BY_SWEEP,
    GEMMS,
    LAYOUTS,
    TENSOR_CORE_GEMMS,
    laid_out,
    normal,
    same_bits,
    short,
)

import torch_smem_gemm as smem

every_dtype = pytest.mark.parametrize("dtype", FLOATS, ids=short)
some_dtypes = pytest.mark.parametrize("dtype", FLOATS_BUT_TWO_BY_SWEEP, ids=short)
every_kernel = pytest.mark.parametrize("kernel", ["auto", *GEMMS, *TENSOR_CORE_GEMMS])
every_other_kernel = pytest.mark.parametrize("kernel", ["auto", *GEMMS[1:], *TENSOR_CORE_GEMMS[1:]])


@pytest.fixture(autouse=True)
def _not_where_aten_does_the_work(request: pytest.FixtureRequest) -> None:
    params = request.node.callspec.params
    if params.get("kernel") == "auto" and params["device"] == "cpu":
        pytest.skip("auto is ATen on CPU tensors, which promises no bits")


@some_dtypes
@every_other_kernel
def test_every_kernel_gives_the_bits_of_the_first(
    kernel: str, dtype: torch.dtype, device: str
) -> None:
    """All add along K in the same order by fused multiply-adds, and share their epilogue.

    So do those on tensor cores, by instructions of 16 products.
    """
    first_kernel = of_the_same_bits(kernel, dtype, device)[0]
    shapes = [(130, 100, 67), (33, 65, 127), (1, 127, 2)]
    if kernel not in ("auto", "gemv"):  # gemv has an order of its own (test_gemv.py)
        shapes += [(1, 127, 1)]
    for m, k, n in shapes:
        a, b, bias, c = (
            normal(*shape, dtype=dtype, device=device) for shape in ((m, k), (k, n), (n,), (m, n))
        )
        for activation in ACTIVATIONS:
            result, first = (
                smem.gemm(
                    a, b, bias=bias, activation=activation, c=c, alpha=0.7, beta=-1.3, kernel=name
                )
                for name in (kernel, first_kernel)
            )
            assert same_bits(result, first), (m, k, n, activation)


@some_dtypes
@every_other_kernel
@pytest.mark.one_in(2)
def test_every_kernel_gives_the_same_bits_at_long_k(
    kernel: str, dtype: torch.dtype, device: str
) -> None:
    """Long sums are cut where K alone says."""
    for k in (64, 65, 900, 1024, 1025, 2047, 2048, 5000):
        if k <= largest_k(kernel, dtype, device):
            a, b = (normal(*s, dtype=dtype, device=device) for s in ((5, k), (k, 7)))
            first = of_the_same_bits(kernel, dtype, device)[0]
            expected = smem.gemm(a, b, kernel=first)
            assert same_bits(smem.gemm(a, b, kernel=kernel), expected), k


@some_dtypes
@every_kernel
def test_every_layout_gives_the_same_bits(kernel: str, dtype: torch.dtype, device: str) -> None:
    a, b = normal(136, 40, dtype=dtype, device=device), normal(40, 136, dtype=dtype, device=device)
    expected = smem.gemm(a, b, kernel=kernel)
    for layout in LAYOUTS:
        if not layout.startswith("same"):
            other = smem.gemm(laid_out(a, layout), laid_out(b, layout), kernel=kernel)
            assert same_bits(other, expected), layout


@some_dtypes
@every_kernel
def test_a_row_does_not_depend_on_the_others(kernel: str, dtype: torch.dtype, device: str) -> None:
    a, b = normal(150, 70, dtype=dtype, device=device), normal(70, 90, dtype=dtype, device=device)
    whole = smem.gemm(a, b, kernel=kernel)
    for rows in (slice(0, 1), slice(149, 150), slice(3, 20), slice(17, 81), slice(1, 150)):
        part = smem.gemm(a[rows], b, kernel=kernel)
        assert same_bits(part, whole[rows]), rows
    neighbours = a.clone()
    neighbours[:77], neighbours[78:] = math.nan, math.inf
    assert same_bits(smem.gemm(neighbours, b, kernel=kernel)[77], whole[77])


@some_dtypes
@every_kernel
def test_a_column_does_not_depend_on_the_others(
    kernel: str, dtype: torch.dtype, device: str
) -> None:
    a, b = normal(33, 70, dtype=dtype, device=device), normal(70, 150, dtype=dtype, device=device)
    whole = smem.gemm(a, b, kernel=kernel)
    neighbours = b.clone()
    neighbours[:, :70], neighbours[:, 71:] = math.nan, math.inf
    assert same_bits(smem.gemm(a, neighbours, kernel=kernel)[:, 70], whole[:, 70])


@some_dtypes
@every_kernel
def test_a_matrix_does_not_depend_on_its_place_in_the_batch(
    kernel: str, dtype: torch.dtype, device: str
) -> None:
    a = normal(4, 20, 70, dtype=dtype, device=device)
    b = normal(3, 1, 70, 30, dtype=dtype, device=device)
    whole = smem.gemm(a, b, kernel=kernel)  # 3 x 4 products
    for i in range(3):
        for j in range(4):
            assert same_bits(smem.gemm(a[j], b[i, 0], kernel=kernel), whole[i, j]), (i, j)
    shared = smem.gemm(a, b[0, 0], kernel=kernel)  # the batch as further rows
    assert same_bits(shared, whole[0])


@some_dtypes
@every_kernel
def test_run_to_run(kernel: str, dtype: torch.dtype, device: str) -> None:
    a, b = normal(130, 70, dtype=dtype, device=device), normal(70, 65, dtype=dtype, device=device)
    first = smem.gemm(a, b, kernel=kernel)
    for _ in range(5):
        assert same_bits(smem.gemm(a, b, kernel=kernel), first)


@every_dtype
def test_linear_gives_the_bits_of_gemm(dtype: torch.dtype, device: str) -> None:
    if device == "cpu":
        pytest.skip("linear is ATen on CPU tensors, which promises no bits")
    x, weight = normal(3, 20, 70, dtype=dtype, device=device), normal(50, 70, device=device)
    weight = weight.to(dtype)
    expected = smem.gemm(x, weight.mT)
    assert same_bits(smem.linear(x, weight), expected)
    assert same_bits(smem.linear(x[1, 7], weight), expected[1, 7])
