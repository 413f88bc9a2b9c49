"""float32 operands as two fp16 numbers per element: all layouts, numbers and limits."""

import itertools
import math
from collections.abc import Callable

import pytest
import torch
from helpers import (
    LAYOUTS,
    any_bits,
    check_error_on_fake_tensors,
    laid_out,
    normal,
    poisoned,
    same_bits,
    short,
)
from torch import Tensor
from torch.library import opcheck
from trace_lines import record

from torch_smem_gemm.trace_report import Launch

OPS = torch.ops.smem
SplitResults = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]
REPRESENTABLE, ONE_OUTLIER, FALLBACK = range(3)  # SplitStatus
LARGEST, LEAST_NORMAL, LEAST = torch.finfo(torch.float32).max, 2.0**-126, 2.0**-149
MAX_EXPONENT, EXPONENT_RANGE = 14, 28  # of a scaled row: largest; down to the least element


def split(x: Tensor, lines_last: bool = False, part: int = 0) -> SplitResults:
    """Call the op after poisoning the memory that its results are likely to get."""
    length = x.shape[-2] if lines_last else x.shape[-1]
    parts = -(-length // part) if part else 1
    lines = x.numel() // max(length, 1) * parts
    hi_lo = lines * 2 * (-(-(part or length) // 32) * 32)
    for count, dtype in (
        (hi_lo, torch.float16),
        (lines, torch.int32),
        (lines, torch.uint8),
        (lines, torch.int64),
        (lines, torch.float32),
    ):
        poisoned((count,), dtype, x.device)
    k_blocks, exponent, status, outlier_k, outlier = OPS._split(x, lines_last, part)
    hi, lo = k_blocks.unbind(-2)
    return hi.flatten(-2), lo.flatten(-2), exponent, status, outlier_k, outlier


def power_of_two(exponent: Tensor) -> Tensor:
    """2^exponent in float64, exactly."""
    return ((exponent.long() + 1023) << 52).view(torch.float64)


def binade(magnitude: Tensor) -> Tensor:
    """floor(log2), of subnormal numbers too."""
    return torch.frexp(magnitude).exponent - 1


def expected(x: Tensor) -> SplitResults:
    """The split by the rules of csrc/gemm/fp16x3/scale.h, in float64."""
    wide = x.cpu().double()
    magnitude = wide.abs()
    largest = magnitude.amax(-1)
    some = largest > 0
    is_outlier = (magnitude > 0) & (binade(magnitude) < binade(largest)[..., None] - EXPONENT_RANGE)
    status = is_outlier.sum(-1).clamp(max=FALLBACK).where(largest.isfinite(), FALLBACK).byte()
    scale_exponent = torch.where((status < FALLBACK) & some, MAX_EXPONENT - binade(largest), 0)
    y = (
        torch.where((status < FALLBACK)[..., None], wide, 0.0)
        * power_of_two(scale_exponent)[..., None]
    )
    # Zeros keep their signs, unless the kernels look at each element of the row.
    keeps_zeros = ((status == REPRESENTABLE) & (scale_exponent <= 127))[..., None]
    y = y.where((y.abs() >= 2.0 ** (MAX_EXPONENT - EXPONENT_RANGE)) | (keeps_zeros & (y == 0)), 0.0)
    hi = y.half()
    lo = ((y - hi.double()) * 2**12).half()
    outlier_k = is_outlier.byte().argmax(-1) if x.shape[-1] else torch.zeros_like(scale_exponent)
    outlier = (
        x.cpu().gather(-1, outlier_k[..., None])[..., 0] if x.shape[-1] else scale_exponent.float()
    )
    padding = (0, -x.shape[-1] % 32)
    hi, lo = (torch.nn.functional.pad(x, padding) for x in (hi, lo))
    has_outlier = status == ONE_OUTLIER
    return (
        hi,
        lo,
        -scale_exponent.int(),
        status,
        outlier_k.where(has_outlier, 0),
        outlier.where(has_outlier, 0.0),
    )


NAMES = ("hi", "lo", "exponent", "status", "outlier_k", "outlier")


def assert_same(results: SplitResults, wanted: SplitResults, what: object = None) -> None:
    for name, result, want in zip(NAMES, results, wanted, strict=True):
        assert same_bits(result.cpu(), want), (name, what)


def value(results: SplitResults, length: int) -> Tensor:
    """The numbers that hi, lo and the outlier represent, in float64."""
    hi, lo, exponent, _, outlier_k, outlier = (result.cpu() for result in results)
    represented = ((hi.double() + lo.double() / 2**12) * power_of_two(exponent)[..., None])[
        ..., :length
    ]
    return represented.scatter_add(-1, outlier_k[..., None], outlier.double()[..., None])


def lines_of_all_kinds(*shape: int, device: str = "cpu") -> Tensor:
    """Normal numbers; some lines of them are scaled, some hold zeros, some cannot be split."""
    x = normal(*shape)
    last = x[..., -1]
    for i in range(shape[-2]):
        last[..., i] *= (1.0, 1e-30, 0.0, 1e30, 2.0**-20, math.inf, 2.0**-30, 1e-38, math.nan)[
            i % 9
        ]
        x[..., i, :] *= (1.0, 1.0, 1e30, 1e-38, 0.0)[i % 5]
    return x.to(device)


# ------------------------------------------------------------------------------------- layouts

SHAPES = [
    *itertools.product((1, 3, 33, 130), (1, 7, 8, 9, 64)),
    *itertools.product((1, 33, 130), (1000,)),
    *((33, 600), (20, 2600), (5, 4096), (1, 5000), (33, 5000), (3, 40_000)),
]


@pytest.mark.parametrize("shape", SHAPES, ids=short)
def test_every_layout_gives_the_same_bits(shape: tuple[int, int], device: str) -> None:
    x = lines_of_all_kinds(*shape, device=device)
    for layout in LAYOUTS:
        view = laid_out(x, layout)
        wanted = expected(view)
        assert_same(split(view), wanted, layout)
        assert_same(split(view.mT, lines_last=True), wanted, layout)


@pytest.mark.parametrize("part", [32, 64, 512, 1024])
def test_k_slices_are_split_as_rows_of_their_own(part: int, device: str) -> None:
    """The results of (..., parts, lines, part_length); the last part may be shorter."""
    for shape in ((3, 1024), (70, 1500), (2, 33, 1025), (1, 40)):
        x = lines_of_all_kinds(*shape, device=device)
        for layout in LAYOUTS:
            view = laid_out(x, layout)
            padded = torch.nn.functional.pad(view, (0, -shape[-1] % part))
            wanted = expected(padded.unflatten(-1, (-1, part)).transpose(-2, -3))
            assert_same(split(view, part=part), wanted, layout)
            assert_same(split(view.mT, lines_last=True, part=part), wanted, layout)


def test_batches(device: str) -> None:
    x = lines_of_all_kinds(2, 3, 40, 72, device=device)
    views = [
        x,
        x[0],
        x.transpose(0, 1),  # a copy: no one stride steps through both dimensions
        x[:, 1],  # members apart
        x[..., 1:, :],
        x[..., :2, :],  # few lines a member, which do not follow on those of the last
        x[..., 1:2, :],  # one
        x[..., ::2, 3:],
        x[0, :1].expand(4, -1, -1),
        x[0].permute(1, 0, 2),
        x[0].permute(2, 0, 1),
        x[0].permute(2, 1, 0),
        x.mT,
        x[:, 1, :, 5:10].mT,
    ]
    for i, view in enumerate(views):
        wanted = expected(view)
        assert_same(split(view), wanted, i)
        assert_same(split(view.mT, lines_last=True), wanted, i)


def test_nothing_to_split(device: str) -> None:
    for shape in ((0, 5), (2, 0, 5), (0, 3, 5)):
        results = split(torch.empty(shape, device=device))
        assert [tuple(result.shape) for result in results] == [
            *[(*shape[:-1], 32)] * 2,
            *[shape[:-1]] * 4,
        ]
    for lines_last in (False, True):
        x = torch.empty((0, 3) if lines_last else (3, 0), device=device)
        hi, _, exponent, status, *_ = split(x, lines_last)
        assert hi.shape == (3, 0)
        assert exponent.tolist() == status.tolist() == [0, 0, 0]


def test_more_dimensions_than_the_results_can_have(device: str) -> None:
    with pytest.raises(RuntimeError, match="_split: x has 61 dimensions, expected at most 60"):
        torch.ops.smem._split(torch.zeros([1] * 59 + [4, 64], device=device))


def test_a_line_does_not_depend_on_the_others(device: str) -> None:
    x = normal(70, 300, device=device)
    for view, lines_last in ((x, False), (x.t().contiguous(), True)):
        whole = split(view, lines_last)
        some = view[:, 9:50] if lines_last else view[9:50]
        assert_same(split(some, lines_last), tuple(part[9:50].cpu() for part in whole))


def test_strides_beyond_32_bits() -> None:
    """Of the memory, little is ever touched."""
    far = 2**31 + 4
    base = torch.empty(2 * far + 100)
    for size, stride in (((3, 40), (far, 1)), ((40, 3), (1, far)), ((3, 40), (far, 2))):
        view = base.as_strided(size, stride)
        view.copy_(normal(*size))
        assert_same(split(view), expected(view))
    members = base.as_strided((3, 9, 4), (far, 4, 1))
    members.copy_(normal(3, 9, 4))
    assert_same(split(members), expected(members))


# ------------------------------------------------------------------------------------- numbers

NUMBERS: dict[str, Callable[[], Tensor]] = {
    "normal": lambda: normal(30, 500),
    "uniform": lambda: torch.rand(30, 500),
    "lognormal": lambda: (2 * normal(30, 500)).exp(),
    "wide": lambda: normal(30, 500) * 2.0 ** -torch.randint(0, 12, (30, 500)),
    "widest": lambda: (1 + torch.rand(300, 20)) * 2.0 ** -torch.randint(0, 28, (300, 20)),
    "scaled up": lambda: normal(30, 500) * 1e30,
    "scaled down": lambda: normal(30, 500) * 1e-30,
    "subnormal": lambda: torch.randint(-(2**23), 2**23, (30, 500)).float() * LEAST,
    "least": lambda: torch.randint(-1, 2, (30, 500)).float() * LEAST,
    "around the least normal": lambda: normal(30, 500) * LEAST_NORMAL,
    "largest": lambda: LARGEST * (1 - torch.rand(30, 500) / 2),
    "powers": lambda: 2.0 ** torch.randint(-13, 15, (100, 60)),
    "beside powers": lambda: torch.nextafter(
        2.0 ** torch.randint(-10, 15, (100, 60)), torch.tensor([0.0, math.inf]).repeat(30)
    ),
}


@pytest.mark.parametrize("numbers", NUMBERS)
def test_an_element_keeps_23_bits(numbers: str, device: str) -> None:
    x = NUMBERS[numbers]()
    for view, lines_last in ((x, False), (x.t().contiguous(), True)):
        results = split(view.to(device), lines_last)
        assert_same(results, expected(x))
        represented = results[3].cpu() < FALLBACK
        assert represented.sum() >= 0.9 * len(x)
        wide = x.double()[represented]
        error = (value(results, x.shape[1])[represented] - wide).abs()
        assert (error <= 2.0**-23 * wide.abs()).all()


def test_rows_are_scaled_to_the_largest_exponent(device: str) -> None:
    x = normal(50, 100) * 2.0 ** torch.randint(-140, 120, (50, 1))
    hi, lo, *_ = split(x.to(device))
    assert (hi.abs().amax(-1) >= 2**MAX_EXPONENT).all()
    assert (hi.abs().amax(-1) <= 2 ** (MAX_EXPONENT + 1)).all()
    assert (lo.abs() <= 2 ** (MAX_EXPONENT + 1)).all()


@pytest.mark.parametrize("mantissa", [1.0, 2 - 2.0**-23])
@pytest.mark.parametrize("exponent", [0, 14, 127, 126, -30, -98, -99, -100, -120, -121, -122, -149])
def test_28_binades_and_no_more(exponent: int, mantissa: float, device: str) -> None:
    largest = torch.tensor(mantissa * 2.0**exponent, dtype=torch.float32)
    last = torch.tensor(2.0 ** (exponent - EXPONENT_RANGE))  # 0 where there are no such numbers
    below = torch.nextafter(last, torch.tensor(0.0))
    x = torch.zeros(6, 45)
    x[:, 3] = largest
    x[1, 44], x[2, 0] = last, -last
    x[3, 44], x[4, 0], x[5, 7] = below, -below, LEAST
    for view, lines_last in ((x, False), (x.t().contiguous(), True)):
        results = split(view.to(device), lines_last)
        assert_same(results, expected(x))
        lost = int(below > 0)
        assert results[3].tolist() == [0, 0, 0, lost, lost, int(last > LEAST)]


def test_below_28_binades_an_error_can_be_larger() -> None:
    """The rule is tight: two fp16 numbers do not represent 2^-14 - 2^-37, scaled, to 23 bits."""
    y = torch.tensor(2.0**-14 - 2.0**-37, dtype=torch.float64)
    assert y.float().double() == y
    hi = y.half().double()
    lo = ((y - hi) * 2**12).half().double()
    assert (hi + lo / 2**12 - y).abs() > 2.0**-23 * y


def test_one_outlier_is_stored_and_two_need_the_fallback(device: str) -> None:
    for length in (2, 40, 1000, 5000):
        x = normal(4, length).clamp(0.5, 2)
        x[1, length // 2] = 2.0**-40
        x[2, 0], x[2, length - 1] = -(2.0**-50), 2.0**-100
        x[3, -1] = 2.0**-149
        for view, lines_last in ((x, False), (x.t().contiguous(), True)):
            results = split(view.to(device), lines_last)
            assert results[3].tolist() == [
                REPRESENTABLE,
                ONE_OUTLIER,
                FALLBACK if length > 2 else ONE_OUTLIER,
                ONE_OUTLIER,
            ]
            assert_same(results, expected(x))


@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan])
@pytest.mark.parametrize("length", [1, 9, 300, 3000])
def test_rows_that_are_not_finite_need_the_fallback(
    length: int, number: float, device: str
) -> None:
    for place in {0, length // 2, length - 1}:
        x = normal(5, length)
        x[2, place] = number
        for view, lines_last in ((x, False), (x.t().contiguous(), True)):
            results = split(view.to(device), lines_last)
            assert results[3].tolist() == [0, 0, FALLBACK, 0, 0]
            assert results[2][2] == 0
            assert not results[0][2].any()
            assert not results[1][2].any()
            assert_same(results, expected(x))


def test_any_bits(device: str) -> None:
    for length in (1, 2, 3):
        x = any_bits(3000, length, dtype=torch.float32)
        assert_same(split(x.to(device)), expected(x))
        assert_same(split(x.t().contiguous().to(device), lines_last=True), expected(x))


# ---------------------------------------------------------------------------------- the tracer


def traced(x: Tensor, lines_last: bool = False) -> tuple[Launch, ...]:
    _, launches = record(lambda: OPS._split(x, lines_last))
    for launch in launches:
        assert not launch.faults
    return launches


def sectors(launch: Launch, memory: str) -> int:
    return launch.count("sectors", memory=memory)


def conflicts(launch: Launch) -> int:
    return launch.count("conflicts")


@pytest.mark.parametrize("shape", [(256, 16), (100, 64), (24, 1008), (6, 4096), (2, 32_768)])
def test_rows_read_and_write_whole_sectors_once(shape: tuple[int, int]) -> None:
    x = normal(*shape)
    (launch,) = traced(x)
    assert sectors(launch, "x") == x.numel() * 4 // 32
    assert sectors(launch, "hi_lo") == shape[0] * -(-shape[1] // 32) * 32 * 4 // 32
    assert conflicts(launch) == 0


def test_long_rows_are_read_again_but_for_their_end() -> None:
    """32768 elements are what the threads of a block keep."""
    (launch,) = traced(normal(1, 80_000))
    assert sectors(launch, "x") == (2 * 80_000 - (80_000 - 2 * 32_768)) * 4 // 32
    assert sectors(launch, "hi_lo") == 80_000 * 4 // 32


def test_short_columns_are_read_once() -> None:
    lines, length = 80, 512
    (launch,) = traced(normal(length, lines), lines_last=True)
    assert launch.kernel == "split_mn_major"
    assert sectors(launch, "x") == sectors(launch, "hi_lo") == lines * length * 4 // 32
    assert conflicts(launch) == 0
    for line in launch.lines:
        if line.memory in ("x", "hi_lo"):
            assert line.bytes_a_lane == 16


def test_whole_tiles_are_transposed_without_conflicts() -> None:
    """Two launches read the operand, by whole sectors; the second writes whole ones."""
    lines, length = 256, 1024
    first, second = traced(normal(length, lines), lines_last=True)
    assert (first.kernel, second.kernel) == ("split_minmax", "split_mn_major_pass2")
    assert sectors(first, "x") == sectors(second, "x") == lines * length * 4 // 32
    chunks = length // 32  # so that there are 512 blocks, or no fewer than these
    # 12 of 16 bytes: counted as three stores, where nvcc makes two (8 bytes and 4).
    assert sectors(first, "minmax") == 3 * lines * chunks * 16 // 32
    assert sectors(second, "hi_lo") == lines * length * 4 // 32
    assert conflicts(first) == conflicts(second) == 0
    for line in second.lines:
        if line.memory in ("x", "hi_lo"):
            assert line.bytes_a_lane == 16


def test_no_faults_on_ragged_ones() -> None:
    for shape in ((3, 5), (130, 9), (70, 301), (9, 1100)):
        for layout in LAYOUTS:
            view = laid_out(lines_of_all_kinds(*shape), layout)
            traced(view)
            traced(view.mT, lines_last=True)


# ------------------------------------------------------------------------------------- the op

BAD = [
    lambda t: (t(5),),
    lambda t: (t(),),
    lambda t: (t(3, 4, dtype=torch.float64),),
    lambda t: (t(3, 4, dtype=torch.float16), True),
    lambda t: (t(3, 4), False, 33),
    lambda t: (t(3, 4), False, -32),
]


@pytest.mark.parametrize("call", BAD, ids=range(len(BAD)))
def test_errors_are_the_same_on_fake_tensors(call: Callable, device: str) -> None:
    check_error_on_fake_tensors("_split", call, device)


def test_opcheck(device: str) -> None:
    opcheck(OPS._split.default, (normal(2, 6, 9, device=device),))
    opcheck(OPS._split.default, (normal(6, 9, device=device), True))
    opcheck(OPS._split.default, (normal(3, 6, 70, device=device), False, 32))


@pytest.mark.gpu
@pytest.mark.gpu_memory(gib=40)
@pytest.mark.parametrize("shape", [(4096, 4096), (4097, 1001), (65_536, 24), (40, 300_000)])
def test_large_on_the_gpu(shape: tuple[int, int]) -> None:
    x = normal(*shape, device="cuda")
    wanted = expected(x)
    assert_same(split(x), wanted)
    assert_same(split(x.t().contiguous(), lines_last=True), wanted)


@pytest.mark.gpu
def test_more_than_2_31_elements_on_the_gpu() -> None:
    lines, length = 66_000, 33_000
    x = torch.randint(1, 2**20, (lines, length), device="cuda", dtype=torch.float32)
    some = [0, 1, 65_075, 65_076, lines - 1]  # element 2^31 is in line 65075
    wanted = expected(x[some])
    assert_same(tuple(result[some] for result in split(x)), wanted)
    x = x.t().contiguous()
    assert_same(tuple(result[some] for result in split(x, lines_last=True)), wanted)
