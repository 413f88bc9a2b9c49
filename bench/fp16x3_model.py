"""What `fp16x3` computes, bit for bit, in NumPy: where no GPU is, and to test what is known of it.

The tensor core's adder is that of Khattak and Mikaitis, "Accurate Models of NVIDIA Tensor Cores"
(arXiv 2512.07004), whose model of H100 and H200 this follows: products are exact, 16 of them and
the accumulator are aligned to the largest exponent, cut off two bits below float32's last, added,
and the sum is cut off to 24 bits. K in one slice, and only lines that halves hold.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, from_numpy

from torch_smem_gemm.bench.bounds import BLOCK, EXTRA_BITS, PIECE, slice_of_k

Array = NDArray[np.floating]
LIFT = 2.0**12  # of lo
TOP, BOTTOM = 14, -14  # exponents of a line's largest element scaled, and of the least it may have
GROUPS, TURN = 8, 2  # of columns; pieces after which it is the next one's turn to add to totals
LEAST_HALF_EXPONENT = -14  # that of subnormal numbers, too


def _exponents(x: Array) -> NDArray[np.integer]:
    return np.frexp(x)[1] - 1


def _scaled(lines: Array) -> tuple[Array, NDArray[np.integer]]:
    """The lines in float64, scaled for halves, and by how many binades."""
    largest = np.abs(lines).max(axis=1, keepdims=True)
    up = np.where(largest > 0, TOP - _exponents(largest), 0)
    return np.ldexp(lines.astype(np.float64), up), up


def _split(lines: Array) -> tuple[Array, Array, NDArray[np.integer]]:
    """Each line's halves, in float64, and by how many binades they are scaled."""
    scaled, up = _scaled(lines)
    hi = scaled.astype(np.float16).astype(np.float64)
    lo = ((scaled - hi) * LIFT).astype(np.float16).astype(np.float64)
    return hi, lo, up


def _block(total: Array, a: Array, b: Array) -> Array:
    """The accumulators ``total`` after an instruction: M x N, by M x 16 and N x 16 halves."""
    products = a[:, None, :] * b[None, :, :]
    of_a, of_b = (np.maximum(_exponents(x), LEAST_HALF_EXPONENT) for x in (a, b))
    nothing = np.iinfo(np.int32).min // 2
    exponents = np.where(products != 0, of_a[:, None, :] + of_b[None, :, :], nothing)
    of_total = np.where(total != 0, _exponents(total), nothing)
    largest = np.maximum(exponents.max(axis=2), of_total)
    last = np.where(largest > nothing, largest - 23 - EXTRA_BITS, 0)
    kept = np.trunc(np.ldexp(products, -last[:, :, None])).sum(axis=2)
    kept += np.trunc(np.ldexp(total, -last))
    significand, exponent = np.frexp(kept)
    return np.ldexp(np.trunc(np.ldexp(significand, 24)), exponent - 24 + last)


def _add_to_total(total: Array, added: Array) -> tuple[Array, Array]:
    """TwoSum (Knuth): the rounded sum, and what rounding takes from it."""
    after = total + added
    part = after - total
    return after, (total - (after - part)) + (added - part)


def holds(a: Tensor, b: Tensor) -> bool:
    """Whether halves hold all lines: none has an element 29 binades below its largest."""
    scaled = (np.abs(_scaled(lines.numpy())[0]) for lines in (a, b.mT))
    return all(bool(np.all((lines == 0) | (lines >= 2.0**BOTTOM))) for lines in scaled)


def product(a: Tensor, b: Tensor) -> Tensor:
    """Return ``a @ b`` as ``smem.gemm(a, b, kernel="fp16x3")`` computes it.

    Args:
        a: float32, M x K, on the CPU.
        b: float32, K x N. Halves must hold both, and K must not be cut into slices.
    """
    (m, k), n = a.shape, b.shape[1]
    assert holds(a, b), "fp16x3 computes some of these lines by fmas"
    assert slice_of_k(n, k) == k, "fp16x3 cuts K into slices here"
    steps = -(-k // PIECE)
    padding = ((0, 0), (0, steps * PIECE - k))
    a_hi, a_lo, a_up = _split(np.pad(a.numpy(), padding))
    b_hi, b_lo, b_up = _split(np.pad(b.mT.numpy(), padding))
    cols = np.arange(n)
    groups = cols // 8 % (GROUPS // 2) * 2 + cols % 2

    small = np.zeros((m, n))
    sums, totals = np.zeros((m, n), np.float32), np.zeros((m, n), np.float32)
    for step in range(steps):
        chain = np.zeros((m, n))
        for first in range(step * PIECE, (step + 1) * PIECE, BLOCK):
            at = slice(first, first + BLOCK)
            chain = _block(chain, a_hi[:, at], b_hi[:, at])
            small = _block(small, a_hi[:, at], b_lo[:, at])
            small = _block(small, a_lo[:, at], b_hi[:, at])
        sums += chain.astype(np.float32)
        if (step + 1) % TURN == 0 or step + 1 == steps:
            now = groups == step // TURN % GROUPS
            totals[:, now], sums[:, now] = _add_to_total(totals[:, now], sums[:, now])
    # The kernel's fma rounds once; by float64, one sum in some 2^29 may be rounded otherwise.
    rest = (small / LIFT + sums).astype(np.float32)
    return from_numpy(np.ldexp(totals + rest, -(a_up + b_up.T)).astype(np.float32))
