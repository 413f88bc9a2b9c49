"""The report of a launch, whose places are addresses of code, by source line."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from torch_smem_gemm.pipeline_trace import pipeline_of
from torch_smem_gemm.raw_kernel.symbols import Place
from torch_smem_gemm.trace_report import Fault, Launch, Line

# How the emulator writes a place into a text: cpu_emulator/site.h.
_PLACE = re.compile(r"@([0-9a-f]+)@")

_SUMS = (
    *("requests", "lanes", "distinct_bytes", "sectors", "wavefronts", "conflicts", "ready"),
    *("merged_requests", "merged_wavefronts", "merged_conflicts", "tensor_flop", "tensor_cycles"),
)

Resolve = Callable[[set[int]], dict[int, Place]]
Source = Callable[[str], list[str]]


def launch_of(
    report: dict[str, Any], tensors: Sequence[str], resolve: Resolve, source: Source
) -> Launch:
    """Return a launch of bindings/trace_report.h with lines for addresses.

    Args:
        report: the launch; ``sample`` is the number of blocks that ran, if not all.
        tensors: the names of all buffers.
        resolve: returns the places of addresses.
        source: returns the lines of a file.
    """
    faults = report["faults"]
    addresses = {row["pc"] for row in report["rows"]} | {fault["pc"] for fault in faults}
    for fault in faults:
        addresses |= {int(address, 16) for address in _PLACE.findall(fault["detail"])}
    places = resolve(addresses)
    return Launch(
        kernel=report["kernel"],
        grid=tuple(report["grid"]),
        block=tuple(report["block"]),
        static_shared_bytes=report["static_shared_bytes"],
        dynamic_shared_bytes=report["dynamic_shared_bytes"],
        **report["arithmetic"],
        tensors=tuple(tensors),
        lines=_lines(report["rows"], places, source),
        faults=_faults(report["kernel"], faults, places),
        sample=report.get("sample"),
        pipeline=pipeline_of(report["pipeline"]),
    )


def _lines(
    rows: list[dict[str, Any]], places: dict[int, Place], source: Source
) -> tuple[Line, ...]:
    """Return one line for what one line of the source does to one memory.

    Its code may stand in several places: of an unrolled loop, of a function inlined twice.
    """
    merged: dict[tuple, dict[str, Any]] = {}
    for row in rows:
        place = places[row["pc"]]
        what = row["action"], row["memory"], row["array"], row["bytes_a_lane"]
        key = (place.file, place.line, *what)
        if key not in merged:
            merged[key] = row | {"file": place.file, "line": place.line}
            continue
        first = merged[key]
        if row["worst"] > first["worst"]:
            first |= {"worst": row["worst"], "example": row["example"]}
        for name in _SUMS:
            first[name] += row[name]
    # A warp's wait counts where its first lane waits.
    return tuple(_line(merged[key], source) for key in sorted(merged) if merged[key]["requests"])


def _line(row: dict[str, Any], source: Source) -> Line:
    fields = {key: value for key, value in row.items() if key != "pc"}
    fields["example"] = tuple(None if at < 0 else at for at in row["example"])
    lines = source(row["file"])
    text = lines[row["line"] - 1].strip() if 0 < row["line"] <= len(lines) else ""
    return Line(text=text, **fields)


def _faults(
    kernel: str, reported: list[dict[str, Any]], places: dict[int, Place]
) -> tuple[Fault, ...]:
    def text(match: re.Match[str]) -> str:
        place = places[int(match[1], 16)]
        return f"{Path(place.file).name}:{place.line}"

    merged: dict[tuple, dict[str, Any]] = {}
    for fault in reported:
        place = places[fault["pc"]]
        detail = _PLACE.sub(text, fault["detail"])
        if fault["kind"] == "different barriers" and len(set(_lines_named(detail))) == 1:
            continue  # one barrier, whose code stands in two places
        key = fault["kind"], place.file, place.line
        if key in merged:
            merged[key]["count"] += fault["count"]
            continue
        fields = {name: value for name, value in fault.items() if name != "pc"}
        merged[key] = fields | {
            "file": place.file,
            "line": place.line,
            "block": tuple(fault["block"]),
            "detail": detail,
        }
    return tuple(Fault(kernel=kernel, **merged[key]) for key in sorted(merged))


def _lines_named(detail: str) -> list[str]:
    return re.findall(r"\S+:\d+", detail)
