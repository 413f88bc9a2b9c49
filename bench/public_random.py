"""Kernels on problems of random sizes: the exercises', SGEMM_CUDA's first six, transposes."""

from __future__ import annotations

import random
from collections.abc import Iterator

import torch
from public_case import Case
from public_samples_techniques import sample
from public_sgemm import ALPHA, BETA, KERNELS

SOLUTIONS = "torch_smem_gemm/exercises/solutions"  # in this repository
TRANSPOSE = "Samples/6_Performance/transpose/transpose.cu"


def _tiles(size: int, tile: int) -> int:
    return -(-size // tile)


def exercises(sizes: random.Random) -> Iterator[Case]:
    """Yield one problem, mostly ragged, of each solution of an exercise."""
    m, n, k = (sizes.randint(1, 200) for _ in range(3))
    a, b, x = torch.randn(m, k), torch.randn(k, n), torch.randn(m, 10 * n)
    for kernel, tile, block in (("matmul", 32, (32, 32)), ("register_tile", 64, (16, 16))):
        yield Case(
            *(f"{SOLUTIONS}/{kernel}.cu", kernel, (_tiles(n, tile), _tiles(m, tile)), block),
            args=(a, b, torch.zeros(m, n), m, n, k),
            expected={2: a @ b},
        )
    yield Case(
        *(f"{SOLUTIONS}/row_sum.cu", "row_sum", m, 256, (x, torch.zeros(m), 10 * n)),
        expected={1: x.sum(1)},
        tolerance=1e-3,
    )
    yield Case(
        *(f"{SOLUTIONS}/transpose.cu", "transpose", (_tiles(k, 32), _tiles(m, 32)), (32, 8)),
        args=(a, torch.zeros(k, m), m, k),
        expected={1: a.T},
    )


def products(sizes: random.Random) -> Iterator[Case]:
    """Yield one problem of each of SGEMM_CUDA's kernels 1 to 6; from 3 on tiles must be whole."""
    for name, (kernel, rows, cols, threads) in list(KERNELS.items())[:6]:
        number = int(name.partition("_")[0])
        if number < 3:
            m, n, k = (sizes.randint(1, 160) for _ in range(3))
        else:
            m, n, k = (
                rows * sizes.randint(1, 3),
                cols * sizes.randint(1, 3),
                32 * sizes.randint(1, 4),
            )
        grid = _tiles(n, cols), _tiles(m, rows)
        a, b, c = torch.randn(m, k), torch.randn(k, n), torch.randn(m, n)
        yield Case(
            file=f"src/kernels/{name}.cuh",
            kernel=kernel,
            grid=grid[::-1] if number < 4 else grid,  # the first three take rows along x
            block=threads,
            args=(m, n, k, ALPHA, a, b, BETA, c),
            expected={7: ALPHA * a @ b + BETA * c},
        )


def transposes(sizes: random.Random) -> Iterator[Case]:
    """Yield one problem, of whole tiles, of each transpose of cuda-samples."""
    for kernel in ("transposeNaive", "transposeCoalesced", "transposeNoBankConflicts"):
        width, height = (32 * sizes.randint(1, 6) for _ in range(2))
        x = torch.randn(height, width)
        yield sample(
            *(TRANSPOSE, kernel, (width // 32, height // 32), (32, 16)),
            args=(torch.zeros(width, height), x, width, height),
            expected={0: x.T},
        )
