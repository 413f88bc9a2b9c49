"""smem.transpose: every kernel, element size, rank, pair of dimensions and layout."""

import itertools
import math

import pytest
import torch
from helpers import (
    LAYOUTS,
    OUT_LAYOUTS,
    TRANSPOSES,
    any_bits,
    by_sweep,
    laid_out,
    poisoned,
    poisoned_out,
    same_bits,
    short,
)
from torch import Tensor

import torch_smem_gemm as smem

pytestmark = pytest.mark.filterwarnings("ignore:ComplexHalf")

DTYPES = (
    *(torch.bool, torch.uint8, torch.int8, torch.float8_e4m3fn),
    *(torch.int16, torch.uint16, torch.float16, torch.bfloat16),
    *(torch.int32, torch.float32, torch.complex32),
    *(torch.int64, torch.float64, torch.complex64),
    torch.complex128,
)
EACH_SIZE = (torch.uint8, torch.bfloat16, torch.float32, torch.int64, torch.complex128)
every_kernel = pytest.mark.parametrize("kernel", ["auto", *TRANSPOSES])
each_size = pytest.mark.parametrize("dtype", EACH_SIZE, ids=short)
# For the widest sweeps: elements that are smaller than a word, and words.
some_sizes = pytest.mark.parametrize(
    "dtype", by_sweep(EACH_SIZE, torch.uint8, torch.float32), ids=short
)


def check(x: Tensor, dim0: int, dim1: int, kernel: str) -> None:
    """Compare the result, and that in a poisoned ``out``, with torch's view, bit by bit."""
    expected = x.transpose(dim0, dim1)
    result = smem.transpose(x, dim0, dim1, kernel=kernel)
    assert result.is_contiguous()
    assert same_bits(result, expected), (tuple(x.shape), x.stride(), dim0, dim1)
    out = poisoned(expected.shape, x.dtype, str(x.device))
    assert smem.transpose(x, dim0, dim1, kernel=kernel, out=out) is out
    assert same_bits(out, expected), (tuple(x.shape), x.stride(), dim0, dim1)


@every_kernel
@pytest.mark.parametrize("dtype", DTYPES, ids=short)
def test_dtypes(kernel: str, dtype: torch.dtype, device: str) -> None:
    x = any_bits(3, 65, 41, dtype=dtype, device=device)
    check(x, -2, -1, kernel)
    check(x, 0, 1, kernel)
    check(x, 0, 2, kernel)


SHAPES = [
    *[(), (1,), (7,), (1, 1), (1, 40), (40, 1), (31, 33), (32, 32), (64, 96), (65, 97)],
    *[(3, 1, 5), (1, 33, 1), (4, 1, 1, 7), (5, 40, 3), (2, 3, 4, 5), (33, 2, 2, 34)],
    *[(0,), (0, 5), (5, 0), (3, 0, 4), (0, 0, 0)],
]


@some_sizes
@every_kernel
@pytest.mark.parametrize("shape", SHAPES, ids=short)
def test_every_pair_of_dimensions(
    kernel: str, dtype: torch.dtype, shape: tuple, device: str
) -> None:
    x = any_bits(*shape, dtype=dtype, device=device)
    rank = max(len(shape), 1)
    for dim0, dim1 in itertools.combinations_with_replacement(range(rank), 2):
        check(x, dim0, dim1, kernel)
        expected = x.transpose(dim0, dim1)
        assert same_bits(smem.transpose(x, dim1 - rank, dim0, kernel=kernel), expected)
    if len(shape) > 1:
        assert same_bits(smem.transpose(x, kernel=kernel), x.mT), "the default dimensions"


@each_size
@every_kernel
@pytest.mark.parametrize("rank", [5, 8])
def test_ranks(kernel: str, dtype: torch.dtype, rank: int, device: str) -> None:
    """Dimensions of 2 and 3, permuted so that no two of them are one loop."""
    x = any_bits(*(2,) * (rank - 1), 3, dtype=dtype, device=device)
    order = [*range(1, rank, 2), *range(0, rank, 2)]
    for y in (x, x.permute(order), x.permute(order[::-1])):
        for dims in ((0, rank - 1), (rank // 2, rank - 2), (0, 1)):
            check(y, *dims, kernel)


@every_kernel
@pytest.mark.one_in(2)
def test_more_dimensions_than_a_kernel_has_loops(kernel: str, device: str) -> None:
    for rank in (11, 14):
        x = any_bits(*(2,) * rank, dtype=torch.float32, device=device)
        check(x, 0, rank - 1, kernel)
    check(x.permute(*range(1, rank, 2), *range(0, rank, 2)), 3, 9, kernel)


@some_sizes
@every_kernel
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(kernel: str, dtype: torch.dtype, layout: str, device: str) -> None:
    for shape in ((37, 66), (3, 64, 64)):
        x = laid_out(any_bits(*shape, dtype=dtype, device=device), layout)
        check(x, -2, -1, kernel)
        check(x, 0, -1, kernel)


@each_size
@every_kernel
def test_expanded(kernel: str, dtype: torch.dtype, device: str) -> None:
    one = any_bits(1, dtype=dtype, device=device)
    check(one.expand(33, 40), 0, 1, kernel)
    check(any_bits(5, 1, 40, dtype=dtype, device=device).expand(5, 35, 40), 0, 2, kernel)
    check(any_bits(1, 33, 1, dtype=dtype, device=device).expand(4, 33, 35), 1, 2, kernel)


@each_size
@every_kernel
@pytest.mark.parametrize("layout", OUT_LAYOUTS)
def test_out_of_any_layout(kernel: str, dtype: torch.dtype, layout: str, device: str) -> None:
    for shape in ((66, 37), (3, 64, 64)):
        x = any_bits(*shape, dtype=dtype, device=device)
        out, check_gaps = poisoned_out(x.mT.shape, dtype, device, layout)
        smem.transpose(x, out=out, kernel=kernel)
        assert same_bits(out, x.mT)
        check_gaps()


@each_size
@every_kernel
def test_out_may_overlap_the_input(kernel: str, dtype: torch.dtype, device: str) -> None:
    for x_of, out_of in (
        (lambda whole: whole, lambda whole: whole),
        (lambda whole: whole.mT, lambda whole: whole),
        (lambda whole: whole[:50, :40], lambda whole: whole[20:60, 3:53]),
    ):
        whole = any_bits(70, 70, dtype=dtype, device=device)
        x, out = x_of(whole), out_of(whole)
        expected = x.mT.clone()
        smem.transpose(x, out=out, kernel=kernel)
        assert same_bits(out, expected)


@every_kernel
def test_what_it_returns_shares_nothing_with_the_input(kernel: str, device: str) -> None:
    x = torch.ones(1, 5, device=device)
    smem.transpose(x, kernel=kernel).zero_()
    smem.transpose(x, 0, 0, kernel=kernel).zero_()
    assert torch.equal(x, torch.ones(1, 5, device=device))


# ------------------------------------------------------- what auto runs on CUDA, run on the CPU


def check_planned(x: Tensor, dim0: int, dim1: int) -> None:
    """Run the kernel that ``auto`` takes on CUDA tensors, wherever ``x`` is."""
    result = torch.ops.smem._transpose(x, dim0, dim1, 0)
    assert result.is_contiguous()
    assert same_bits(result, x.transpose(dim0, dim1)), (tuple(x.shape), x.stride(), dim0, dim1)


@each_size
@pytest.mark.parametrize("offset", [0, 1, 2, 5])
@pytest.mark.parametrize(
    "shape",
    [
        *[(256, 384), (300, 261), (257, 530), (16, 2000), (2000, 16), (17, 1003), (1003, 17)],
        *[(3, 4000), (4000, 3), (2, 40), (40, 2), (7, 63, 65), (40, 5, 3), (3, 520, 136)],
    ],
    ids=short,
)
def test_planned_at_any_address(dtype: torch.dtype, shape: tuple, offset: int, device: str) -> None:
    """Whole and ragged tiles, several bands of them; rows that begin anywhere, and do not."""
    x = any_bits(math.prod(shape) + offset, dtype=dtype, device=device)[offset:].view(shape)
    check_planned(x, -2, -1)


@pytest.mark.parametrize(
    ("dtype", "shape"),
    [
        # The larger elements at one size each.
        pytest.param(
            *(dtype, shape),
            marks=[pytest.mark.sweep]
            if dtype in (torch.int64, torch.complex128) and shape != (3, 301, 2307)
            else [],
        )
        for dtype in EACH_SIZE
        for shape in [(1104, 4112), (300, 272, 80), (2047, 2049), (3, 301, 2307), (1100, 130, 65)]
    ],
    ids=short,
)
@pytest.mark.one_in(2)
def test_planned_of_middling_size(dtype: torch.dtype, shape: tuple, device: str) -> None:
    """Squares in registers; small and large tiles of rows that begin anywhere, whole and parts."""
    x = any_bits(*shape, dtype=dtype, device=device)
    check_planned(x, -2, -1)
    check_planned(x[..., 1:-2, 16:-7], -2, -1)


@each_size
@pytest.mark.parametrize("layout", LAYOUTS)
def test_planned_for_any_layout(dtype: torch.dtype, layout: str, device: str) -> None:
    for shape in ((130, 270), (4, 33, 80), (2, 3, 36, 64)):
        x = laid_out(any_bits(*shape, dtype=dtype, device=device), layout)
        for dim0, dim1 in itertools.combinations_with_replacement(range(len(shape)), 2):
            check_planned(x, dim0, dim1)


@each_size
@pytest.mark.parametrize("run", [1, 2, 3, 8, 16, 24, 2000])
def test_planned_runs(dtype: torch.dtype, run: int, device: str) -> None:
    """(B, S, H, D) to (B, H, S, D), and images whose last dimension are channels."""
    check_planned(any_bits(3, 5, 4, run, dtype=dtype, device=device), 1, 2)
    check_planned(any_bits(20, 70, run, dtype=dtype, device=device), 0, 1)
    check_planned(any_bits(2, 5, 6, run + 8, dtype=dtype, device=device)[..., 3 : run + 3], 1, 2)


@each_size
@pytest.mark.parametrize("out_layout", OUT_LAYOUTS)
@pytest.mark.parametrize("layout", ["contiguous", "unaligned", "apart"])
def test_planned_into_any_out(
    dtype: torch.dtype, layout: str, out_layout: str, device: str
) -> None:
    for shape in ((140, 75), (3, 64, 80)):
        x = laid_out(any_bits(*shape, dtype=dtype, device=device), layout)
        out, check_gaps = poisoned_out(x.mT.shape, dtype, device, out_layout)
        torch.ops.smem._transpose.out(x, -2, -1, 0, out=out)
        assert same_bits(out, x.mT)
        check_gaps()


# ------------------------------------------------------------------------------------- large, GPU


@pytest.mark.gpu
@each_size
@every_kernel
@pytest.mark.parametrize("shape", [(1024, 1024), (1023, 1025), (7, 513, 515)], ids=short)
def test_large(kernel: str, dtype: torch.dtype, shape: tuple) -> None:
    check(any_bits(*shape, dtype=dtype, device="cuda"), -2, -1, kernel)


@pytest.mark.gpu
@pytest.mark.gpu_memory(gib=12)
@every_kernel
@pytest.mark.parametrize("shape", [(2**16 + 1, 2**15 + 1), (2, 2**30 + 5), (2**30 + 5, 2)])
def test_more_than_2_31_elements(kernel: str, shape: tuple) -> None:
    x = torch.randint(0, 256, shape, dtype=torch.uint8, device="cuda")
    out = poisoned(shape[::-1], torch.uint8, "cuda")
    smem.transpose(x, kernel=kernel, out=out)
    dim = 0 if shape[0] > 2 else 1
    for part, rows in zip(out.mT.split(2**24, dim), x.split(2**24, dim), strict=True):
        assert torch.equal(part, rows)
