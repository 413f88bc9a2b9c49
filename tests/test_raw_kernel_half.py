"""half and bfloat16 in users' kernels on the CPU: rounded as on a GPU, one access for a pair."""

from bisect import bisect_right
from fractions import Fraction

import pytest
import torch
from coverage_kernels import FOLDER
from torch import Tensor

import torch_smem_gemm as smem

both = pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])


def run(kernel: str, dtype: torch.dtype, n: int, *args: Tensor) -> None:
    options = ("-DBFLOAT16",) if dtype == torch.bfloat16 else ()
    raw = smem.RawKernel(FOLDER / "half.cu", kernel, options=options)
    raw(-(-n // 256), 256, (n, *args))


def every_number(dtype: torch.dtype) -> Tensor:
    """Return all 65,536 numbers of a type."""
    return torch.arange(-(2**15), 2**15).to(torch.int16).view(dtype)


def same(got: Tensor, expected: Tensor) -> bool:
    """Return whether all are the same bits, NaN apart, which CUDA writes in one way."""
    nan = expected.isnan()
    bits = got.view(torch.int16)[~nan], expected.view(torch.int16)[~nan]
    return bool(torch.equal(*bits)) and bool((got.view(torch.int16)[nan] == 0x7FFF).all())


def floats_around(dtype: torch.dtype) -> Tensor:
    """Return floats at, halfway between and beside the numbers of a type, and others."""
    numbers = every_number(dtype).float()
    finite = numbers[numbers.isfinite()].sort().values
    middles = (finite[1:].double() + finite[:-1].double()).div(2).float()
    beside = [torch.nextafter(middles, torch.tensor(side)) for side in (-torch.inf, torch.inf)]
    limits = torch.tensor([65504, 65519.99, 65520, 3.3895e38, 3.4e38, 1e-30, 1e-45, -1e-45])
    random = torch.randn(2000).mul(torch.randn(2000).mul(20).exp())
    return torch.cat([numbers, middles, *beside, limits, -limits, random])


@both
def test_conversions_from_float_round_as_their_names_say(dtype: torch.dtype) -> None:
    x = floats_around(dtype)
    out = torch.empty(6, len(x), dtype=dtype)
    run("narrow", dtype, len(x), x, out)
    nearest = x.to(dtype)
    for row in (0, 4, 5):
        assert same(out[row], nearest)
    number = x.isfinite()
    zero, down, up = (row[number].double() for row in out[1:4])
    exact = x[number].double()
    assert (down <= exact).all()
    assert (up >= exact).all()
    assert torch.equal(zero, torch.where(exact > 0, down, up))
    # Nothing lies between: up is the next number, or the same.
    numbers = every_number(dtype).double()
    numbers = numbers[~numbers.isnan()].unique()
    steps = torch.searchsorted(numbers, up) - torch.searchsorted(numbers, down)
    assert torch.equal(steps, (down != exact).long())
    assert same(out[1:4, ~number], nearest[~number].expand(3, -1))


@both
def test_every_number_becomes_a_float_and_an_integer(dtype: torch.dtype) -> None:
    x = every_number(dtype)
    floats, integers = torch.empty(len(x)), torch.empty(4, len(x), dtype=torch.int32)
    run("widen", dtype, len(x), x, floats, integers)
    torch.testing.assert_close(floats, x.float(), rtol=0, atol=0, equal_nan=True)
    rounded = [x.double().round(), x.double().trunc(), x.double().floor(), x.double().ceil()]
    limits = -(2**31), 2**31 - 1
    expected = torch.stack(rounded).nan_to_num(0, torch.inf, -torch.inf).clamp(*limits)
    assert torch.equal(integers, expected.to(torch.int32))


def random_numbers(dtype: torch.dtype, count: int) -> Tensor:
    """Return numbers of any bits, and as many that are of similar size."""
    any_bits = torch.randint(-(2**15), 2**15, (count,)).to(torch.int16).view(dtype)
    return torch.cat([any_bits, torch.randn(count).mul(4).to(dtype)])


def rounded(exact: Fraction, numbers: list[Fraction]) -> Fraction:
    """Return the nearest of the sorted non-negative numbers; of two, the one at an even place."""
    place = bisect_right(numbers, abs(exact)) - 1
    below = numbers[place]
    if place + 1 == len(numbers):
        return below.__class__(-below if exact < 0 else below)
    above = numbers[place + 1]
    middle = (below + above) / 2
    up = abs(exact) > middle or (abs(exact) == middle and place % 2 == 1)
    magnitude = above if up else below
    return -magnitude if exact < 0 else magnitude


@both
def test_arithmetic_is_rounded_once(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    a, b, c = (random_numbers(dtype, 1500) for _ in range(3))
    out = torch.empty(9, len(a), dtype=dtype)
    run("arithmetic", dtype, len(a), a, b, c, out)
    x, y = a.double(), b.double()
    for row, exact in ((0, x + y), (1, x - y), (2, x * y), (3, x / y)):
        assert same(out[row], exact.to(dtype) if row != 3 else (a.float() / b.float()).to(dtype))
    quiet = a.float() + 0, b.float() + 0  # a NaN of some bits counts for more on the CPU
    for row, expected in ((5, torch.fmax(*quiet)), (6, torch.minimum(*quiet))):
        torch.testing.assert_close(out[row], expected.to(dtype), rtol=0, atol=0, equal_nan=True)
    assert torch.equal(out[7].view(torch.int16), a.view(torch.int16) | -(2**15))
    assert same(out[8], (x + y).to(dtype).float().nan_to_num(0).clamp(0, 1).to(dtype))

    numbers = every_number(dtype)
    grid = sorted({Fraction(z) for z in numbers[numbers.isfinite()].tolist() if z >= 0})
    found = out[4].tolist()
    for i, (p, q, r) in enumerate(zip(a.tolist(), b.tolist(), c.tolist(), strict=True)):
        if not (abs(p) < 2**60 and abs(q) < 2**60 and abs(r) < 2**60):
            continue  # infinite, or nearly, or no number
        exact = Fraction(p) * Fraction(q) + Fraction(r)
        if abs(exact) <= grid[-1]:
            assert Fraction(found[i]) == rounded(exact, grid), (p, q, r)


def test_a_fused_multiply_add_that_float_would_round_twice() -> None:
    """2048 + 1 lies between two numbers of half; what the product is beyond decides."""
    numbers = torch.tensor(
        [[32.03125, 32, 1024], [-32.03125, 32, -1024], [2.0**-12, 2.0**-12, 2049]]
    )
    a, b, c = numbers.half().T.contiguous()
    out = torch.empty(9, 3, dtype=torch.float16)
    run("arithmetic", torch.float16, 3, a, b, c, out)
    exact = [
        Fraction(p) * Fraction(q) + Fraction(r)
        for p, q, r in zip(a.tolist(), b.tolist(), c.tolist(), strict=True)
    ]
    every = every_number(torch.float16)
    grid = sorted({Fraction(z) for z in every[every.isfinite()].tolist() if z >= 0})
    assert [Fraction(z) for z in out[4].tolist()] == [rounded(z, grid) for z in exact]


@both
def test_comparisons(dtype: torch.dtype) -> None:
    a, b = random_numbers(dtype, 500), random_numbers(dtype, 500)
    b[::3] = a[::3]
    out = torch.empty(len(a), dtype=torch.int32)
    run("comparisons", dtype, len(a), a, b, out)
    unordered = a.isnan() | b.isnan()
    bits = [
        *(a == b, a != b, a < b, a >= b, a > b, (a > b) | unordered),
        *((a != b) & ~unordered, a.isnan(), a.isinf()),
    ]
    assert torch.equal(out, sum(bit.int() << i for i, bit in enumerate(bits)))


@both
def test_elementary_functions(dtype: torch.dtype) -> None:
    x = torch.rand(500).mul(8).add(0.01).to(dtype)
    out = torch.empty(11, len(x), dtype=dtype)
    run("elementary", dtype, len(x), x, out)
    functions = [
        *(torch.exp, torch.exp2, torch.log, torch.log2, torch.sqrt, torch.rsqrt),
        *(torch.reciprocal, torch.sin, torch.cos, torch.floor, torch.round),
    ]
    expected = torch.stack([function(x.double()) for function in functions])
    torch.testing.assert_close(out, expected.to(dtype))


@both
def test_pairs_are_one_access(dtype: torch.dtype) -> None:
    a, b = (torch.randn(64, 2).to(dtype) for _ in range(2))
    out, masks = torch.empty(6, 64, 2, dtype=dtype), torch.empty(64, dtype=torch.uint32)
    options = ("-DBFLOAT16",) if dtype == torch.bfloat16 else ()
    raw = smem.RawKernel(FOLDER / "half.cu", "pairs", options=options)
    traced = raw.trace(2, 32, (64, a, b, out, masks))
    x, y = a.double(), b.double()
    total = (x + y).to(dtype)
    expected = torch.stack(
        [
            total,
            (x * y + total.double()).to(dtype),
            x.exp().to(dtype),
            (torch.maximum(x, y) * y).to(dtype),
            torch.stack([a[:, 1], b[:, 1]], 1),
            (x > y).to(dtype),
        ]
    )
    torch.testing.assert_close(out, expected)
    low, high = ((x < y).long() * 0xFFFF).T
    assert masks.long().tolist() == (low + (high << 16) ^ 1).tolist()
    lines = traced.launches[0].lines
    assert {line.bytes_a_lane for line in lines} == {4}
    # Two warps load each pair once where it is used first, and again behind a store.
    first = min(line.line for line in lines)
    assert [line.requests for line in lines if line.line == first] == [2, 2]


@both
def test_tiles_in_shared_memory(dtype: torch.dtype) -> None:
    x, out = torch.randn(256).to(dtype), torch.empty(64, dtype=dtype)
    options = ("-DBFLOAT16",) if dtype == torch.bfloat16 else ()
    traced = smem.RawKernel(FOLDER / "half.cu", "shared_tile", options=options).trace(
        1, 32, (x, out)
    )
    assert traced.faults == ()
    assert torch.equal(out, torch.cat([x[:64:2] + x[1:64:2], x[128:160]]))
    widths = sorted(
        (line.bytes_a_lane, line.wavefronts)
        for line in traced.launches[0].lines
        if line.memory == "shared" and line.action == "load"
    )
    assert widths == [(2, 1), (4, 1)]
