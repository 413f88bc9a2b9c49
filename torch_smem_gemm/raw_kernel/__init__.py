"""CUDA kernels of the user's own, on the CPU: smem.RawKernel."""

from torch_smem_gemm.raw_kernel.errors import CompileError
from torch_smem_gemm.raw_kernel.kernel import KernelFault, RawKernel

__all__ = ["CompileError", "KernelFault", "RawKernel"]
