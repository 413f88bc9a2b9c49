"""The kernels of raw_kernels/coverage, and what a trace of them counted."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

import torch_smem_gemm as smem
from torch_smem_gemm.trace_report import Line, Trace

FOLDER = Path(__file__).parent / "raw_kernels" / "coverage"


def trace(
    file: str,
    kernel: str,
    grid: int | Sequence[int],
    block: int | Sequence[int],
    *args: Any,
    shared_mem: int = 0,
) -> Trace:
    """Trace a kernel that has no fault."""
    raw = smem.RawKernel(FOLDER / file, kernel)
    traced = raw.trace(grid, block, args, shared_mem=shared_mem)
    assert [str(fault) for fault in traced.faults] == []
    return traced


def marked(file: str, traced: Trace) -> dict[str, list[Line]]:
    """Return the counted lines of a trace by the marks ``HERE: name`` in the source."""
    marks = {
        i + 1: mark
        for i, text in enumerate((FOLDER / file).read_text().splitlines())
        for mark in re.findall(r"HERE: (\w+)", text)
    }
    found: dict[str, list[Line]] = {}
    for line in traced.launches[0].lines:
        if line.line in marks:
            found.setdefault(marks[line.line], []).append(line)
    return found


def counts(file: str, traced: Trace) -> dict[tuple[str, str, int], int]:
    """Return requests by mark, action and bytes per lane."""
    return {
        (mark, line.action, line.bytes_a_lane): line.requests
        for mark, lines in marked(file, traced).items()
        for line in lines
    }


def ints(*shape: int) -> torch.Tensor:
    """Return a tensor of int32 zeros."""
    return torch.zeros(shape, dtype=torch.int32)
