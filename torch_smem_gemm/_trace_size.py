"""Estimates the number of memory accesses that a trace counts, and so the time it takes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from torch_smem_gemm.ops._arguments import dims_of
from torch_smem_gemm.ops._checks import check_gemm, check_linear, check_transpose, reduced_dims
from torch_smem_gemm.ops.plan import transpose_problem

# This many accesses by threads take about ten seconds.
MAX_ACCESSES = 500_000_000

TILE, SUM_CHUNK, SUM_THREADS = 32, 8192, 256


def gemm_accesses(m: int, n: int, k: int, batch: int = 1) -> int:
    """Estimate the loads and stores of all threads of the busiest ladder kernel.

    Threads beyond an edge are counted: they compute with zeros.
    """
    return 2 * batch * _to_tiles(m) * _to_tiles(n) * _to_tiles(k)


def transpose_accesses(rows: int, columns: int, batch: int = 1) -> int:
    """Return the same estimate as :func:`gemm_accesses` for a transpose."""
    return 4 * batch * _to_tiles(rows) * _to_tiles(columns)


def reduction_accesses(reduced: int, outputs: int) -> int:
    """Return the same estimate for ``outputs`` reductions of ``reduced`` elements each."""
    return outputs * (reduced + -(-reduced // SUM_CHUNK) * 4 * SUM_THREADS)


def accesses(op: str, arguments: Mapping[str, Any]) -> int:
    """Estimate how many accesses a trace of ``op`` counts.

    Args:
        op: "gemm", "linear", "transpose", "sum", "mean", "amax" or "amin".
        arguments: the op's arguments by name. Errors are those of the op.
    """
    if op == "gemm":
        a, b = arguments["a"], arguments["b"]
        (*batch, m, n), _ = check_gemm(a, b, None, None, 0.0)
        return gemm_accesses(m, n, a.shape[-1], math.prod(batch))
    x = arguments["x"]
    if op == "linear":
        (*rows, n), _ = check_linear(x, arguments["weight"], None)
        return gemm_accesses(math.prod(rows), n, x.shape[-1])
    if op == "transpose":
        exchanged = arguments.get("dim0", -2), arguments.get("dim1", -1)
        check_transpose(x, *exchanged)
        problem = transpose_problem(x, *exchanged)
        batch = [size for size, *_ in problem.batch]
        return transpose_accesses(problem.rows, problem.cols, math.prod(batch))
    dims = reduced_dims(op, x, dims_of(arguments.get("dim")))
    reduced = math.prod(x.shape[d] for d in dims)
    return reduction_accesses(reduced, x.numel() // reduced if reduced else 0)


def _to_tiles(size: int) -> int:
    return -(-size // TILE) * TILE
