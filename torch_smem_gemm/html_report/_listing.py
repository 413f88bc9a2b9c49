"""The source of a trace, line by line, with the accesses and the faults of each line."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from torch_smem_gemm.cli._trace_text import expression
from torch_smem_gemm.html_report._pictures import Picture, picture
from torch_smem_gemm.trace_report import Fault, Line, Trace
from torch_smem_gemm.tracing import sources

COLUMNS = {
    "Requests": "Executions of the access by a warp.",
    "Bytes": "Bytes that threads load or store.",
    "Sectors per request": "32-byte sectors of global memory that a request touches.",
    "Wavefronts per request": "Passes through the banks of shared memory that a request needs.",
    "Conflicts": "Wavefronts beyond the least, because of bank conflicts.",
}
SHARES = ("requests", "bytes", "conflicts")  # shaded by their share of the column's highest value
FINDINGS = 3  # of each kind


@dataclass(frozen=True)
class Counter:
    """A cell of the heat map.

    ``least`` is the lowest possible value as text, if the value is higher. ``heat`` is 0 to 100:
    for sectors and wavefronts the percentage beyond the least, for the other counters the
    percentage of the trace's highest value.
    """

    text: str = ""
    heat: int = 0
    least: str = ""


@dataclass(frozen=True)
class Access:
    """One access of a line. ``counters`` are in the order of ``COLUMNS``."""

    line: Line
    launch: int | None  # from 1 on; None if there is only one
    expression: str
    anchor: str  # of its line
    id: str
    counters: tuple[Counter, ...]

    @property
    def place(self) -> str:
        """Name of the file without its folder, and line."""
        return f"{self.line.file.rpartition('/')[2]}:{self.line.line}"

    @cached_property
    def picture(self) -> Picture | None:
        """The worst request; None for barriers and shuffles."""
        return picture(self.line)


@dataclass(frozen=True)
class Row:
    """One line of a file."""

    number: int
    text: str
    anchor: str
    accesses: tuple[Access, ...]
    faults: tuple[Fault, ...]


@dataclass(frozen=True)
class File:
    """A file with accesses or faults.

    A row with accesses or faults is a group of its own; the rows between two of them are a group.
    """

    name: str
    groups: tuple[tuple[Row, ...], ...]


def listing(trace: Trace) -> list[File]:
    """Return the files of a trace: the ladder's first, then those with the most requests."""
    requests = {fault.file: 0 for fault in trace.faults}
    for line in (line for launch in trace.launches for line in launch.lines):
        requests[line.file] = requests.get(line.file, 0) + line.requests
    names = sorted(requests, key=lambda name: ("/ladder/" not in name, -requests[name], name))
    return [File(name, _groups(_rows(trace, name))) for name in names]


def accesses_of(files: Iterable[File]) -> list[Access]:
    """Return all accesses in the order of the source."""
    return [
        access
        for file in files
        for group in file.groups
        for row in group
        for access in row.accesses
    ]


def look_first(files: Iterable[File]) -> list[tuple[Access, str]]:
    """Return the accesses that waste most, and what they waste: conflicts, then sectors."""
    accesses = accesses_of(files)
    conflicts = [
        (access, f"{line.conflicts:,} of {line.wavefronts:,} wavefronts are bank conflicts")
        for access in sorted(accesses, key=lambda access: -access.line.conflicts)[:FINDINGS]
        if (line := access.line).conflicts
    ]
    sectors = [
        (
            access,
            f"{line.sectors_a_request:.4g} sectors per request, "
            f"{line.least_sectors_a_request} at least",
        )
        for access in sorted(accesses, key=lambda access: -access.line.wasted_sectors)[:FINDINGS]
        if (line := access.line).wasted_sectors > 0
    ]
    return conflicts + sectors


def source_of(trace: Trace, file: str) -> Sequence[str]:
    """Return the lines of a file, which are none if the source is not known."""
    return trace.sources.get(file) or sources().get(file, [])


def _rows(trace: Trace, file: str) -> list[Row]:
    source = source_of(trace, file)
    several = len(trace.launches) > 1
    lines = [
        (number if several else None, line)
        for number, launch in enumerate(trace.launches, 1)
        for line in launch.lines
        if line.file == file
    ]
    faults = [fault for fault in trace.faults if fault.file == file]
    texts = {fault.line: "" for fault in faults}
    texts |= {line.line: line.text for _, line in lines}
    texts |= dict(enumerate(source, 1))
    highest = {
        what: max(getattr(line, what) for launch in trace.launches for line in launch.lines)
        for what in SHARES
        if lines
    }
    rows = []
    for number, text in sorted(texts.items()):
        anchor = f"{re.sub(r'[^A-Za-z0-9_./-]', '_', file)}:{number}"
        here = [(launch, line) for launch, line in lines if line.line == number]
        accesses = tuple(
            Access(
                line=line,
                launch=launch,
                expression=expression(line),
                anchor=anchor,
                id=f"{anchor}.{index}",
                counters=_counters(line, highest),
            )
            for index, (launch, line) in enumerate(here, 1)
        )
        at_line = tuple(fault for fault in faults if fault.line == number)
        rows.append(Row(number, text, anchor, accesses, at_line))
    return rows


def _groups(rows: Iterable[Row]) -> tuple[tuple[Row, ...], ...]:
    def key(row: Row) -> int:
        return row.number if row.accesses or row.faults else 0

    return tuple(tuple(group) for _, group in itertools.groupby(rows, key))


def _counters(line: Line, highest: Mapping[str, int]) -> tuple[Counter, ...]:
    """Return the cells of a line, empty for what its kind of memory does not have."""

    def share(what: str) -> Counter:
        value = getattr(line, what)
        return Counter(f"{value:,}", round(100 * value / highest[what]) if highest[what] else 0)

    def beyond(value: float, least: float) -> Counter:
        if value <= least:
            return Counter(f"{value:.4g}")
        return Counter(f"{value:.4g}", round(100 * (1 - least / value)), f"{least:.4g}")

    is_shared = line.memory == "shared"
    requests, bytes_, conflicts = map(share, SHARES)
    return (
        requests,
        bytes_ if line.memory else Counter(),
        beyond(line.sectors_a_request, line.least_sectors_a_request) if line.sectors else Counter(),
        beyond(line.wavefronts_a_request, (line.wavefronts - line.conflicts) / line.requests)
        if is_shared
        else Counter(),
        conflicts if is_shared else Counter(),
    )
