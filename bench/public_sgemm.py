"""The kernels of SGEMM_CUDA, as its runner launches them."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from public_case import Case, Size

SIZE, DEPTH = 256, 64
ALPHA, BETA = 0.5, 3.0

# file: kernel with the runner's template arguments, rows and columns of a block's tile, threads
KERNELS: dict[str, tuple[str, int, int, Size]] = {
    "1_naive": ("sgemm_naive", 32, 32, (32, 32)),
    "2_kernel_global_mem_coalesce": ("sgemm_global_mem_coalesce<32>", 32, 32, 1024),
    "3_kernel_shared_mem_blocking": ("sgemm_shared_mem_block<32>", 32, 32, 1024),
    "4_kernel_1D_blocktiling": ("sgemm1DBlocktiling<64, 64, 8, 8>", 64, 64, 512),
    "5_kernel_2D_blocktiling": ("sgemm2DBlocktiling<128, 128, 8, 8, 8>", 128, 128, 256),
    "6_kernel_vectorize": ("sgemmVectorize<128, 128, 8, 8, 8>", 128, 128, 256),
    "7_kernel_resolve_bank_conflicts": (
        *("sgemmResolveBankConflicts<128, 128, 8, 8, 8>", 128, 128, 256),
    ),
    "8_kernel_bank_extra_col": ("sgemmResolveBankExtraCol<128, 128, 8, 8, 8>", 128, 128, 256),
    "9_kernel_autotuned": ("sgemmAutotuned<128, 128, 16, 8, 8>", 128, 128, 256),
    "10_kernel_warptiling": (
        *("sgemmWarptiling<128, 128, 16, 64, 64, 4, 8, 4, 128>", 128, 128, 128),
    ),
    "11_kernel_double_buffering": (
        *("sgemmDoubleBuffering<128, 256, 16, 128, 32, 1, 8, 8, 256>", 128, 256, 256),
    ),
    "12_kernel_double_buffering": (
        *("runSgemmDoubleBuffering2<128, 128, 16, 64, 64, 4, 8, 4, 128>", 128, 128, 128),
    ),
}


def cases() -> Iterator[Case]:
    """Yield one case for each kernel."""
    for name, (kernel, rows, cols, threads) in KERNELS.items():
        a = torch.randn(SIZE, DEPTH)
        b, c = torch.randn(DEPTH, SIZE), torch.randn(SIZE, SIZE)
        yield Case(
            file=f"src/kernels/{name}.cuh",
            kernel=kernel,
            grid=(SIZE // cols, SIZE // rows),
            block=threads,
            args=(SIZE, SIZE, DEPTH, ALPHA, a, b, BETA, c),
            expected={7: ALPHA * a @ b + BETA * c},
            # Files 11 and 12 use a constant of file 10, beside which they are included.
            options=("-DWARPSIZE=32",) if name.startswith(("11", "12")) else (),
            faults=("different barriers",) if name.startswith("11") else (),
            why="one half of the block passes other __syncthreads() than the other half",
        )
