"""A model of `fp16x3` in NumPy, bit for bit: for machines without a GPU, and to test its theory.

tensor_core_model.py has the tensor core's adder. The model has no split-K and takes only
representable rows.
Names are those of csrc/gemm/fp16x3/promotion.h; as there, a row is a row of A or a column of B.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from tensor_core_model import LEAST_EXPONENT, exponents, instruction
from torch import Tensor, float16, from_numpy

from torch_smem_gemm.bench.bounds import HOPPER, PIECE, Adder, slice_of_k

Array = NDArray[np.floating]
LO_FACTOR = 2.0**12
MMA_K = 16  # of an instruction, which may add it in several blocks
MAX_EXPONENT, MIN_EXPONENT = 14, -14  # of a scaled row's largest and least elements
PROMOTION_GROUPS, PROMOTION_INTERVAL = 8, 2  # groups of columns; k blocks between promotions


def _scaled(rows: Array) -> tuple[Array, NDArray[np.integer]]:
    """The scaled rows in float64, and their scale exponents."""
    largest = np.abs(rows).max(axis=1, keepdims=True)
    scale_exponent = np.where(largest > 0, MAX_EXPONENT - exponents(largest), 0)
    return np.ldexp(rows.astype(np.float64), scale_exponent), scale_exponent


def _split(rows: Array) -> tuple[Array, Array, NDArray[np.integer]]:
    """hi and lo of each row, in float64, and the scale exponents."""
    scaled, scale_exponent = _scaled(rows)
    hi = scaled.astype(np.float16).astype(np.float64)
    lo = ((scaled - hi) * LO_FACTOR).astype(np.float16).astype(np.float64)
    return hi, lo, scale_exponent


def _mma(total: Array, a: Array, b: Array, adder: Adder) -> Array:
    for first in range(0, MMA_K, adder.block):
        at = slice(first, first + adder.block)
        total = instruction(
            total, a[:, at], b[:, at], LEAST_EXPONENT[float16], extra_bits=adder.extra_bits
        )
    return total


def _promote(total: Array, accum: Array) -> tuple[Array, Array]:
    """TwoSum (Knuth): the rounded sum, and its rounding error."""
    after = total + accum
    part = after - total
    return after, (total - (after - part)) + (accum - part)


def is_representable(a: Tensor, b: Tensor) -> bool:
    """Whether no row of A or column of B has an element 29 binades below its largest."""
    scaled = (np.abs(_scaled(rows.numpy())[0]) for rows in (a, b.mT))
    return all(bool(np.all((rows == 0) | (rows >= 2.0**MIN_EXPONENT))) for rows in scaled)


def product(a: Tensor, b: Tensor, adder: Adder = HOPPER) -> Tensor:
    """Return ``a @ b`` as ``smem.gemm(a, b, kernel="fp16x3")`` computes it.

    Args:
        a: float32, M x K, on the CPU.
        b: float32, K x N. Both must be representable, and without split-K.
        adder: the tensor cores'.
    """
    (m, k), n = a.shape, b.shape[1]
    assert is_representable(a, b), "fp16x3 computes some of these elements by FMAs"
    assert slice_of_k(n, k) == k, "fp16x3 cuts K into slices here"
    k_blocks = -(-k // PIECE)
    padding = ((0, 0), (0, k_blocks * PIECE - k))
    a_hi, a_lo, a_scale_exponent = _split(np.pad(a.numpy(), padding))
    b_hi, b_lo, b_scale_exponent = _split(np.pad(b.mT.numpy(), padding))
    cols = np.arange(n)
    groups = cols // 8 % (PROMOTION_GROUPS // 2) * 2 + cols % 2

    cross_accum = np.zeros((m, n))
    accum, totals = np.zeros((m, n), np.float32), np.zeros((m, n), np.float32)
    for k_block in range(k_blocks):
        k_block_accum = np.zeros((m, n))
        for first in range(k_block * PIECE, (k_block + 1) * PIECE, MMA_K):
            at = slice(first, first + MMA_K)
            k_block_accum = _mma(k_block_accum, a_hi[:, at], b_hi[:, at], adder)
            cross_accum = _mma(cross_accum, a_hi[:, at], b_lo[:, at], adder)
            cross_accum = _mma(cross_accum, a_lo[:, at], b_hi[:, at], adder)
        accum += k_block_accum.astype(np.float32)
        if (k_block + 1) % PROMOTION_INTERVAL == 0 or k_block + 1 == k_blocks:
            promoted = groups == k_block // PROMOTION_INTERVAL % PROMOTION_GROUPS
            totals[:, promoted], accum[:, promoted] = _promote(
                totals[:, promoted], accum[:, promoted]
            )
    # The kernel's fma rounds once; by float64, one element in some 2^29 may be rounded otherwise.
    remainder = (cross_accum / LO_FACTOR + accum).astype(np.float32)
    return from_numpy(
        np.ldexp(totals + remainder, -(a_scale_exponent + b_scale_exponent.T)).astype(np.float32)
    )
