"""What the GEMM kernels take, and which of them give the same bits."""

import math

import torch
from helpers import GEMMS, TENSOR_CORE_GEMMS

import torch_smem_gemm as smem
from torch_smem_gemm._kernels import chip


def takes(kernel: str, dtype: torch.dtype, device: str, precision: str = "fp32") -> bool:
    """Whether a GEMM kernel computes a dtype on a device in that precision; auto takes all."""
    rows = (row for row in smem.kernels("gemm") if row.name == kernel)
    return all(row.takes(dtype, device, precision) for row in rows)


def of_the_same_bits(
    kernel: str, dtype: torch.dtype, device: str, n: int = 1, k: int = 1
) -> list[str]:
    """The GEMM kernels that give the bits of ``kernel``: all of its kind.

    What kind auto is, the dtype, N and K decide; N and K are small unless given.
    """
    if kernel == "auto" and device == "cuda":
        a, b = torch.empty(1, k, dtype=dtype, device=device), torch.empty(k, n, dtype=dtype)
        kernel = smem.plan(a, b.to(device)).kernel
    if kernel == "fp16x3":
        return [kernel]
    one_product = [name for name in TENSOR_CORE_GEMMS if name != "fp16x3"]
    tensor_cores = [name for name in one_product if takes(name, dtype, device)]
    return tensor_cores if tensor_cores and kernel in ("auto", *tensor_cores) else GEMMS


def shared_bytes_on(device: str) -> int:
    """The shared memory of a block; on the CPU an H200's counts."""
    return chip(device).shared_bytes if device == "cuda" else 227 * 1024


def largest_k(kernel: str, dtype: torch.dtype, device: str) -> float:
    """The largest K that a GEMM kernel takes."""
    if all(row.any_k or row.name != kernel for row in smem.kernels("gemm")):
        return math.inf
    return shared_bytes_on(device) // (32 * dtype.itemsize)
