"""A trace as text: its launches, the lines with their counters, and its faults."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from torch_smem_gemm.cli._explain_kernel import ways
from torch_smem_gemm.cli._text import output_width, plain_table
from torch_smem_gemm.pipeline_trace import Pipeline
from torch_smem_gemm.trace_report import (
    LOADS,
    SHARED_USERS,
    STORES,
    TENSOR_CORES,
    Fault,
    Launch,
    Line,
    Trace,
)

LINE_HEADS = [
    *("line", "source", "does", "memory", ">B", ">requests", ">sectors", ">wavefronts"),
    *(">merged", ">n-way", ">conflicts", ">ready", ">cycles"),
]
LEAST_SOURCE = 24  # characters of source text, however narrow the terminal
GAP = 3  # characters that a table has between two columns


def trace_text(trace: Trace) -> str:
    """Return the launches of a trace, their lines with the counters, and the faults."""
    parts = []
    for number, launch in enumerate(trace.launches, 1):
        parts.append(f"{launch.kernel}: {launch_text(launch)}")
        if launch.pipeline:
            parts.append(f"Pipeline of block 0: {pipeline_text(launch.pipeline)}.")
        if launch.lines:
            parts.append(plain_table(lines_title(trace, number), *lines_table(launch, trace)))
    return "\n\n".join([*parts, faults_text(trace)])


# ---------------------------------------------------------------------------------------- faults


def faults_text(trace: Trace) -> str:
    """Return the errors that would occur on the GPU, or that there are none."""
    if not trace.faults:
        return f"No faults in {trace.kernel}: no race, no access out of bounds, no lost barrier."
    return "\n".join(fault_text(trace, fault) for fault in trace.faults)


def fault_text(trace: Trace, fault: Fault) -> str:
    """Return an error, and the lines that it names."""
    text = f"FAULT: {dataclasses.replace(fault, file=file_name(trace, fault.file))}"
    return "\n".join([text, *(f"  {place}: {line}" for place, line in _lines_of(trace, fault))])


def _lines_of(trace: Trace, fault: Fault) -> list[tuple[str, str]]:
    """Return the lines of the user's that a fault names: its own, and those in its details."""
    found = {}
    for file, lines in trace.sources.items():
        name = file_name(trace, file)
        numbers = [int(n) for n in re.findall(rf"{re.escape(name)}:(\d+)", fault.detail)]
        if fault.file == file:
            numbers.insert(0, fault.line)
        for number in numbers:
            if 0 < number <= len(lines):
                found[f"{name}:{number}"] = lines[number - 1].strip()
    return list(found.items())


def file_name(trace: Trace, file: str) -> str:
    """Return a file's name as tables show it: in the folder of the op, or without a folder."""
    return Path(file).name if trace.sources else file.removeprefix(f"{trace.op}/")


# ----------------------------------------------------------------------------------------- lines


def launch_text(launch: Launch) -> str:
    """Return the grid, the block and the shared memory of a launch."""
    sampled = f"{launch.sample:,} were traced of " if launch.sample else ""
    return sampled + (
        f"{_product(launch.grid)} blocks of {_product(launch.block)} threads, shared memory of a "
        f"block: {launch.static_shared_bytes:,} B static, "
        f"{launch.dynamic_shared_bytes:,} B dynamic"
    )


def pipeline_text(pipeline: Pipeline) -> str:
    """Return how many stages a pipeline has, and how many of them hold data."""
    plural = "s" if pipeline.stages > 1 else ""
    return (
        f"{pipeline.stages} stage{plural}, up to {pipeline.depth} in use at once, "
        f"{pipeline.mean_depth:.1f} on average"
    )


def shared_by(trace: Trace) -> list[tuple[str, str]]:
    """Return who loads and stores shared memory, and how much, if not only threads do."""

    def moved(actions: Sequence[str], of: Sequence[str]) -> int:
        both = [action for action in actions if action in of]
        return trace.count("bytes", actions=both, memory="shared")

    found = []
    for who, actions in SHARED_USERS.items():
        passes = trace.count("wavefronts", actions=actions, memory="shared")
        if passes:
            loaded, stored = moved(actions, LOADS), moved(actions, STORES)
            found.append((who, f"{loaded:,} B loaded, {stored:,} B stored, {passes:,} wavefronts"))
    return [] if [who for who, _ in found] in ([], ["threads"]) else found


def _product(sizes: Sequence[int]) -> str:
    """The sizes up to the last that is not 1."""
    kept = [n for i, n in enumerate(sizes) if i == 0 or any(m > 1 for m in sizes[i:])]
    return " x ".join(f"{n:,}" for n in kept)


def lines_title(trace: Trace, number: int) -> str:
    """Return the title of the table of a launch's lines; launches count from 1."""
    # The user's file is the first one.
    users = file_name(trace, next(iter(trace.sources))) if trace.sources else f"csrc/{trace.op}"
    which = f", launch {number} of {len(trace.launches)}" if len(trace.launches) > 1 else ""
    return f"Lines of {users}{which}"


def source_order(line: Line) -> tuple[bool, str, int]:
    """The kernel's own file first, then the helpers'."""
    return "/ladder/" not in line.file, line.file, line.line


def lines_table(launch: Launch, trace: Trace) -> tuple[list[str], list[list[str]]]:
    """Return the heads and rows of a launch's lines, as wide as the output allows."""
    rows = []
    users = next(iter(trace.sources), "")
    lines = sorted(launch.lines, key=lambda line: (line.file != users, *source_order(line)))
    for _, group in groupby(lines, lambda x: (x.file, x.line)):
        accesses = list(group)
        first = accesses[0]
        place = f"{file_name(trace, first.file)}:{first.line}"
        if len(accesses) == 1:
            rows.append([place, first.text, *_line_cells(first)])
        else:
            rows.append([place, first.text, *[""] * (len(LINE_HEADS) - 2)])
            rows += [["", f"  {expression(line)}", *_line_cells(line)] for line in accesses]
    heads, rows = without_empty(LINE_HEADS, rows)
    names = [head.removeprefix(">") for head in heads]
    widths = [max(map(len, column)) + GAP for column in zip(names, *rows, strict=True)]
    room = max(LEAST_SOURCE, output_width() - (sum(widths) - widths[1]) - 1)
    return heads, [[row[0], _shorten(row[1], room), *row[2:]] for row in rows]


def without_empty(
    heads: Sequence[str], rows: Sequence[list[str]]
) -> tuple[list[str], list[list[str]]]:
    """A table's heads and rows without the columns in which every cell is empty."""
    kept = [i for i in range(len(heads)) if any(row[i] for row in rows)]
    return [heads[i] for i in kept], [[row[i] for i in kept] for row in rows]


def _line_cells(line: Line) -> list[str]:
    in_tensor = line.memory not in ("", "shared")
    in_shared = line.memory == "shared"
    cycles = line.tensor_cycles / TENSOR_CORES / line.requests
    merged = line.merged_wavefronts / line.requests
    n = ways(line)
    return [
        line.action,
        line.memory,
        str(line.bytes_a_lane or ""),
        f"{line.requests:,}",
        f"{line.sectors_a_request:.4g}" if in_tensor else "",
        f"{line.wavefronts_a_request:.4g}" if in_shared else "",
        f"{merged:.4g}" if line.merged_wavefronts != line.wavefronts else "",
        str(n or ""),
        f"{line.conflicts:,}" if in_shared else "",
        f"{line.ready:,}" if line.action == "mbarrier_wait" else "",
        f"{cycles:.4g}" if cycles else "",
    ]


def expression(line: Line) -> str:
    """Return the access itself, such as ``As[ty][k]``.

    It is all of the line's text unless the array or tensor is named there in one way.
    """
    name = re.escape(line.array or line.memory)
    group = r"[^()\[\]]"
    for _ in range(3):  # brackets in brackets
        group = rf"(?:[^()\[\]]|\({group}*\)|\[{group}*\])"
    access = rf"\b(?:\w+\.)*{name}(?:\.\w+)?(?:\({group}*\)|\[{group}*\])+"
    # The parameters `a` and `b` of an op are A and B in a kernel.
    found = set(re.findall(access, line.text, 0 if line.array else re.IGNORECASE)) if name else ()
    return found.pop() if len(found) == 1 else line.text


def _shorten(text: str, room: int) -> str:
    return text if len(text) <= room else f"{text[: room - 1]}…"
