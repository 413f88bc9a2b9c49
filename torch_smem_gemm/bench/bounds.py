"""Proven bounds on the error of float32 products, for every input.

docs/accuracy.md has the proofs. Constants and rules are those of csrc/gemm/accumulation_order.h
(the SIMT kernels), csrc/gemm/fp16x3/promotion.h and csrc/gemm/fp16x3/split_k.cu (`fp16x3`).
"""

from __future__ import annotations

from typing import NamedTuple

ULP = 2.0**-24  # half a unit in the last place of float32, relative: the bounds' unit
PIECE = 32  # products of hi that the tensor cores accumulate before promotion


class Adder(NamedTuple):
    """How tensor cores add."""

    block: int  # products that are added at once to the accumulator
    # Bits below float32's last that an addend keeps when it is aligned to the block's largest.
    extra_bits: int


HOPPER = Adder(16, 2)
# The least that the bound of "fp16x3:mma" assumes of a GPU: docs/accuracy.md.
ANY_ADDER = Adder(8, 0)


def _ceil_div(a: int, b: int) -> int:
    return -(-a // b)


def simt_additions(k: int) -> int:
    """The highest number of roundings that a product undergoes in a SIMT kernel."""
    chunk = 64 if k < 2048 else 128
    chunks = _ceil_div(k, chunk)
    return min(k, chunk) + min(chunks, 16) - 1 + _ceil_div(chunks, 16) - 1


def slice_of_k(n: int, k: int) -> int:
    """The length of K that `fp16x3` computes as one product: all of K, or a split-K slice."""
    unit, narrowest = 512, 32
    tiles = 128 if n <= 512 else 192
    multiple = 8 if n <= 128 else 4 if n <= 512 else 2
    shortest = max(2 * unit, _ceil_div(multiple * n, unit) * unit)
    most = tiles // _ceil_div(n, narrowest)
    if most <= 1 or k < 2 * shortest:
        return k
    return max(shortest, _ceil_div(_ceil_div(k, most), unit) * unit)


def _halves(k: int, adder: Adder) -> float:
    """The bound for elements that two fp16 values represent, in units of 2^-24."""
    steps = _ceil_div(k, PIECE)
    # The representation errors of the two elements, and the omitted product of both lo values.
    split = 8.0
    # An addend loses less than 2^-23 / 2^extra_bits of the largest, the block's result 2^-23.
    addend, result = 2.0 / 2**adder.extra_bits, 2.0
    blocks, block = PIECE // adder.block, adder.block * addend + result
    chain = blocks * block - addend  # the first one has no accumulator
    small = 2 * blocks * steps * block / 1024
    additions = min(steps, 17)
    left_out = 2  # one outlier of a row and one of a column, added by FMAs
    # Terms of higher order: hi is up to 1 + 2^-11 times an element, ...
    first_order = split + chain + small + additions + left_out
    # ... and what totals pass on to the next sums is rounded there.
    return first_order * (1 + 2**-9) + steps * 2.0**-24


def _ieee(k: int) -> float:
    additions = simt_additions(k)
    return additions / (1 - additions * ULP)


def bound(kernel: str, n: int, k: int) -> float:
    """Return the largest error of an element of ``a @ b`` that a float32 kernel can make.

    Args:
        kernel: "ieee" for every SIMT kernel; "fp16x3" on compute capability 9.0 and "fp16x3:mma"
            on other GPUs since 8.0 whose adder is at least as exact as ``ANY_ADDER``; or "fp32" for
            the choice of ``precision="fp32"`` on 9.0.
        n: the columns of ``b``.
        k: the columns of ``a``.

    Returns:
        The bound in units of 2^-24 of what the magnitudes of the element's terms sum to,
        ``(a.abs() @ b.abs())``: NaN, Inf and overflow aside. ``least_step(k)`` more is lost where
        sums are so small that they are rounded as subnormal numbers.

    Raises:
        ValueError: there are no bounds of that kernel.
    """
    if kernel == "ieee":
        return _ieee(k)
    if kernel in ("fp16x3", "fp16x3:mma"):
        length = slice_of_k(n, k)
        # Lines that fp16 values cannot represent are computed in the SIMT kernels' order.
        adder = HOPPER if kernel == "fp16x3" else ANY_ADDER
        largest = max(_halves(length, adder), _ieee(length))
        # Split-K slices are added in float64, and the result is rounded once more.
        return largest if length == k else largest * (1 + ULP) + 1 + k * 2.0**-29
    if kernel == "fp32":
        return max(bound("ieee", n, k), bound("fp16x3", n, k))
    raise ValueError(
        f"kernel {kernel!r} is unknown, expected 'ieee', 'fp16x3', 'fp16x3:mma' or 'fp32'"
    )


def least_step(k: int) -> float:
    """Return the additional absolute error, because float32 ends at 2^-149."""
    return (k + 4) * 2.0**-150
