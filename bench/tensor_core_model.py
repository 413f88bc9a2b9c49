"""A model of Hopper's tensor cores in NumPy, bit for bit.

It is that of Khattak and Mikaitis, "Accurate Models of NVIDIA Tensor Cores" (arXiv 2512.07004), for
H100 and H200: products are exact, those of an instruction and the accumulator are aligned to the
largest exponent, cut off two bits below float32's last, added, and the sum is cut off to 24 bits.
csrc/cpu_emulator/sm90/tensor_core.cpp is the same model in C++.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, from_numpy

from torch_smem_gemm.bench.bounds import HOPPER

Array = NDArray[np.floating]

# The exponent of a format's smallest normal number, which its subnormal numbers have, too. float32
# stands for tf32.
LEAST_EXPONENT = {torch.float16: -14, torch.bfloat16: -126, torch.float32: -126}
INSTRUCTION_BYTES = 32  # of K, in each row of A and column of B


def exponents(x: Array) -> NDArray[np.integer]:
    """The exponents of numbers whose significands are in [1, 2)."""
    return np.frexp(x)[1] - 1


def instruction(
    total: Array, a: Array, b: Array, least_exponent: int, extra_bits: int = HOPPER.extra_bits
) -> Array:
    """The accumulators after an instruction.

    Args:
        total: the accumulators before, M x N, in float64.
        a: M x K, in float64, where K is that of one instruction.
        b: N x K.
        least_exponent: of the operands' format, see ``LEAST_EXPONENT``.
        extra_bits: below float32's last that aligned addends keep.
    """
    products = a[:, None, :] * b[None, :, :]
    of_a, of_b = (np.maximum(exponents(x), least_exponent) for x in (a, b))
    nothing = np.iinfo(np.int32).min // 2
    of_products = np.where(products != 0, of_a[:, None, :] + of_b[None, :, :], nothing)
    of_total = np.where(total != 0, exponents(total), nothing)
    largest = np.maximum(of_products.max(axis=2), of_total)
    last = np.where(largest > nothing, largest - 23 - extra_bits, 0)
    kept = np.trunc(np.ldexp(products, -last[:, :, None])).sum(axis=2)
    kept += np.trunc(np.ldexp(total, -last))
    significand, exponent = np.frexp(kept)
    return np.ldexp(np.trunc(np.ldexp(significand, 24)), exponent - 24 + last)


def rounded_to_tf32(x: Tensor) -> Tensor:
    """Float32 numbers rounded as TMA rounds them: to 10 bits of mantissa, ties to even."""
    bits = x.view(torch.int32)
    return (bits + 0xFFF + (bits >> 13 & 1) & ~0x1FFF).view(torch.float32)


def product(a: Tensor, b: Tensor) -> Tensor:
    """Return the accumulators of ``a @ b`` in float32, by one chain of instructions.

    Args:
        a: M x K, float16, bfloat16, or float32 (which is multiplied as tf32), on the CPU.
        b: K x N, of the same dtype. All accumulators must be normal numbers, zero or infinite.
    """
    (m, k), n = a.shape, b.shape[1]
    if a.dtype == torch.float32:
        a, b = rounded_to_tf32(a), rounded_to_tf32(b)
    step = INSTRUCTION_BYTES // a.element_size()
    padding = ((0, 0), (0, -k % step))
    rows, cols = (np.pad(x.double().numpy(), padding) for x in (a, b.mT))
    total = np.zeros((m, n))
    for first in range(0, rows.shape[1], step):
        at = slice(first, first + step)
        total = instruction(total, rows[:, at], cols[:, at], LEAST_EXPONENT[a.dtype])
    return from_numpy(total.astype(np.float32))
