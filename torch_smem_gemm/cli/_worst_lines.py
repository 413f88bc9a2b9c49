"""The lines of a kernel that waste most, in a sentence each."""

from __future__ import annotations

from torch_smem_gemm.cli._explain_kernel import ways
from torch_smem_gemm.cli._trace_text import expression, file_name
from torch_smem_gemm.trace_report import SECTOR, STORES, Line, Trace


def worst_lines(trace: Trace) -> list[str]:
    """Return a sentence about the line with most bank conflicts, and one about sectors.

    If nothing is wasted, one sentence says so.
    """
    lines = [line for launch in trace.launches for line in launch.lines if not line.is_bulk]
    sentences = []
    worst = max(lines, key=lambda line: line.conflicts, default=None)
    if worst and worst.conflicts:
        sentences.append(_conflicts(trace, worst))
    worst = max(lines, key=lambda line: line.wasted_sectors, default=None)
    if worst and worst.wasted_sectors > 0:
        sentences.append(_sectors(trace, worst))
    if not sentences:
        sentences.append(
            "No line wastes passes or sectors: there are no bank conflicts, and every request "
            "touches as few sectors as its bytes need."
        )
    return sentences


def _place(trace: Trace, line: Line) -> str:
    return f"{file_name(trace, line.file)}:{line.line}, {expression(line)}"


def _verb(line: Line) -> str:
    if line.action == "atomic":
        return "updates"
    return "writes" if line.action in STORES else "reads"


def _conflicts(trace: Trace, line: Line) -> str:
    n = ways(line)
    least = (line.wavefronts - line.conflicts) / line.requests
    words = f"up to {n} words of one bank" if n else "several words of one bank"
    return (
        f"Bank conflicts: {_place(trace, line)}: a warp {_verb(line)} {words} at once. A request "
        f"takes {line.wavefronts_a_request:.3g} passes through the banks, {least:.3g} without "
        f"conflicts; that is {line.conflicts:,} of the kernel's {trace.wavefronts:,} wavefronts. "
        "Padding the rows of the array by one element often helps."
    )


def _sectors(trace: Trace, line: Line) -> str:
    used = line.distinct_bytes / (SECTOR * line.sectors)
    return (
        f"Sectors: {_place(trace, line)}: a warp {_verb(line)} {line.sectors_a_request:.3g} "
        f"sectors of {SECTOR} bytes with each request, and {line.least_sectors_a_request} "
        f"would hold its bytes: {used:.1%} of what is moved is used. "
        "Threads that are neighbours in x should access neighbouring elements."
    )
