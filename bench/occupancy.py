"""Say how each SIMT kernel fits an H200, and what bounds it: docs/occupancy.md.

    PYTHONPATH=. python bench/occupancy.py --measure     # where the package was built with CUDA
    PYTHONPATH=. python bench/occupancy.py               # rewrite the document
    PYTHONPATH=. python bench/occupancy.py --check       # exit with 1 if it is stale

Needs no GPU: launches and their traffic come from the tracer, registers from ptxas.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from trace_vs_ncu import kernels_of

import torch_smem_gemm as smem
from torch_smem_gemm.analysis import device
from torch_smem_gemm.bench.report import write_or_check
from torch_smem_gemm.cli._environment import versions
from torch_smem_gemm.cli._explain_kernel import judge, largest_launch

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs" / "occupancy.md"
RESULTS = ROOT / "bench" / "results" / "occupancy-h200.json"

# Op, sizes (M, N, K; rows, columns; the last dimension is summed), dtype.
PROBLEMS = (
    ("gemm", (512, 512, 64), "float32"),
    ("gemm", (1024, 1, 1024), "float32"),
    ("transpose", (1024, 1024), "float32"),
    ("transpose", (1024, 1024), "bfloat16"),
    ("transpose", (1024, 1024), "uint8"),
    ("sum", (64, 16384), "float32"),
    ("sum", (64, 16384), "bfloat16"),
)
TEXT = """# How the kernels fit an SM

`python bench/occupancy.py` writes this page; it needs no GPU. `smem.trace` counts the launches and
their traffic, and the registers are ptxas's for sm_90a. `torch_smem_gemm.analysis.occupancy`
computes the blocks per SM; a test on the GPU compares it with
`cudaOccupancyMaxActiveBlocksPerMultiprocessor`.

The floor is a lower bound of the time on an H200. It is the longest of three times: of the
problem's bytes in DRAM, of its arithmetic, and of the kernel's passes through shared memory. The
last two assume as many SMs as the launch has blocks. [performance.md](performance.md) has the
measured times at full size.
"""
HEADS = (
    *("kernel", ">threads", ">registers", ">shared memory", ">blocks", ">warps", "occupancy limit"),
    *(">floor, µs", "limited by"),
)


def measure() -> dict[str, Any]:
    """Everything that the results file holds."""
    rows = [
        row_of(op, sizes, dtype, kernel)
        for op, sizes, dtype in PROBLEMS
        for kernel in kernels_of(op, sizes)
    ]
    return {"device": "H200", "versions": versions(), "rows": rows}


def row_of(op: str, sizes: Sequence[int], dtype: str, kernel: str) -> dict[str, Any]:
    """What one kernel takes, on one problem."""

    def filled(*shape: int) -> torch.Tensor:
        return (torch.rand(shape) * 9).to(getattr(torch, dtype))

    m, n = sizes[:2]
    operands: dict[str, tuple[Any, ...]] = {
        "gemm": (filled(m, sizes[-1]), filled(sizes[-1], n)),
        "transpose": (filled(m, n),),
        "sum": (filled(n, m), 0) if kernel == "columns" else (filled(m, n), 1),
    }
    trace = smem.trace(op, *operands[op], kernel=kernel)
    explained = judge(trace, device("H200"))
    fit, held = explained.residency, explained.residency.occupancy
    if held is None:
        raise RuntimeError(f"{op} kernel {kernel}: {fit.refusal}")
    return {
        "op": op,
        "sizes": list(sizes),
        "dtype": dtype,
        "kernel": kernel,
        "threads": largest_launch(trace).threads,
        "registers": fit.resources.registers if fit.resources else None,
        "shared_bytes": fit.static_shared_bytes + fit.dynamic_shared_bytes,
        "blocks": held.blocks,
        "percent": held.percent,
        "limit": list(held.limit),
        "floor_us": round(explained.least_seconds[explained.bottleneck] * 1e6, 2),
        "bottleneck": explained.bottleneck,
    }


def document(found: Mapping[str, Any]) -> str:
    """The whole of docs/occupancy.md."""
    lines = [TEXT]
    for op, sizes, dtype in PROBLEMS:
        lines += [
            f"## {op} {' × '.join(map(str, sizes))} {dtype}",
            "",
            f"| {' | '.join(head.lstrip('>') for head in HEADS)} |",
            f"| {' | '.join('--:' if head.startswith('>') else '---' for head in HEADS)} |",
        ]
        for row in found["rows"]:
            if (row["op"], tuple(row["sizes"]), row["dtype"]) != (op, sizes, dtype):
                continue
            cells = [
                f"`{row['kernel']}`",
                row["threads"],
                row["registers"] or "depends on the problem",
                f"{row['shared_bytes']:,}",
                row["blocks"],
                f"{row['percent']:.0f}%",
                ", ".join(row["limit"]),
                f"{row['floor_us']:.2f}",
                row["bottleneck"],
            ]
            lines.append(f"| {' | '.join(map(str, cells))} |")
        lines.append("")
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, rewrite or check; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--measure", action="store_true", help=f"write {RESULTS.name}")
    parser.add_argument("--check", action="store_true", help="only say if it is up to date")
    args = parser.parse_args(argv)
    if args.measure:
        RESULTS.write_text(json.dumps(measure(), indent=1) + "\n", encoding="utf-8")
    wanted = document(json.loads(RESULTS.read_text(encoding="utf-8")))
    return write_or_check(DOCUMENT, wanted, "the results", check=args.check)


if __name__ == "__main__":
    sys.exit(main())
