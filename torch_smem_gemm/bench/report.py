"""Markdown of results, as ``results.load`` reads them: the parts of README, docs/performance.md.

The same results give the same text.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch_smem_gemm.bench.measure import Ceilings
from torch_smem_gemm.bench.results import best_ratio, geometric_mean, grouped, problems
from torch_smem_gemm.bench.rows import OURS, Row
from torch_smem_gemm.bench.suite import LADDER

NAMED_SHAPES = 3  # of those that one contender fails on for one reason

# README's figures: marker, op, set, dtype, and what the problems are called.
HIGHLIGHTS = (
    ("float32", "gemm", "squares", "float32", "square products"),
    ("bfloat16", "linear", "llm", "bfloat16", "layers of large models"),
    ("transposes", "transpose", "transpose", "float32", "float32 transposes"),
    ("sums", "sum", "sum", "float32", "float32 sums"),
)

HOW_TO_READ = (
    "How to read it: each line of a set is one problem, computed by the kernel that this package "
    "chooses. × torch 2.00 means that it takes half of torch's time, and 0.50 that it takes twice "
    "torch's time. An empty cell was not measured. The floor is the time that the work would take "
    "at the named ceiling if nothing else took time, and the share is the floor divided by the "
    "measured time. Every call has a fixed cost of some microseconds, so short calls are far from "
    "their floor. The float32 floor assumes FMA units; `fp16x3` uses tensor cores and can take "
    "less time than that floor. WRONG marks a result whose error exceeds what its roundings can "
    "explain; it has no time."
)


def between(text: str, marker: str, inside: str) -> str:
    """``text`` with ``inside`` between the lines of a marker.

    Raises:
        ValueError: a line of the marker is missing; the message has both.
    """
    first, last = f"<!-- {marker}:begin -->", f"<!-- {marker}:end -->"
    before, begin, rest = text.partition(first)
    _, end, after = rest.partition(last)
    if not (begin and end):
        raise ValueError(f"it needs the line {first} and, after it, {last}")
    return f"{before}{begin}\n{inside}\n{end}{after}"


def write_or_check(document: Path, wanted: str, source: str, *, check: bool) -> int:
    """Write a document; or only say if it does not show its source. Returns the exit status."""
    if not check:
        document.parent.mkdir(parents=True, exist_ok=True)
        document.write_text(wanted, encoding="utf-8")
    elif not document.exists() or document.read_text(encoding="utf-8") != wanted:
        print(f"{document} does not show {source}: run `PYTHONPATH=. python {sys.argv[0]}`")
        return 1
    return 0


def readme(text: str, found: Mapping[str, Any]) -> str:
    """README's ``text`` with the figures of ``found``, each between its markers.

    Raises:
        ValueError: a marker is missing.
    """
    for marker, figure in highlights(found).items():
        text = between(text, marker, figure)
    return text


def highlights(found: Mapping[str, Any]) -> dict[str, str]:
    """A sentence for each of ``HIGHLIGHTS``, and what they were measured on, by marker."""
    by_key = {(each.op, each.set, each.dtype): each for each in summaries(found["rows"])}
    figures = {}
    for marker, op, of_set, dtype, what in HIGHLIGHTS:
        each = by_key.get((op, of_set, dtype))
        if each is None or not each.ratios:
            figures[marker] = "Not measured."
            continue
        mean = geometric_mean([ratio for ratio, _ in each.ratios])
        (lowest, _), (highest, _) = each.ratios[0], each.ratios[-1]
        figures[marker] = (
            f"**{mean:.2f} × the speed of the fastest peer** "
            f"(geometric mean of {len(each.ratios)} {what}; {lowest:.2f} to {highest:.2f})."
        )
    machine = f"{found['device']}, torch {found['versions']['torch']}, {found['date'][:10]}"
    return figures | {"measured": f"Measured on: {machine}."}


def performance(found: Mapping[str, Any]) -> str:
    """The whole of docs/performance.md."""
    rows = found["rows"]
    parts = [
        "# Performance",
        "`python -m torch_smem_gemm bench report` writes this page; all figures are from one run. "
        "[occupancy.md](occupancy.md) lists the occupancy and the floor of each kernel.",
        measured_on(found),
        _run(found),
        f"Method: {found['method']}",
        HOW_TO_READ,
        *_others(rows),
        "## Summary",
        summary_table(rows),
        "## Ladders",
        ladders(rows),
    ]
    for members in _sets(rows):
        first = members[0][0]
        parts += [f"## {first.op} {first.set} {first.dtype}", set_table(members), *_faults(members)]
    return "\n\n".join(parts) + "\n"


def measured_on(found: Mapping[str, Any]) -> str:
    """Device, versions and date, then the ceilings."""
    versions = found["versions"]
    named = [found["device"]]
    named += [f"driver {versions['driver']}"] if versions["driver"] else []
    named += [f"torch {versions['torch']}", f"torch_smem_gemm {versions['torch_smem_gemm']}"]
    named.append(found["date"][:10])
    named += [f"commit {versions['commit']}"] if versions["commit"] else []
    ceilings = Ceilings(**found["ceilings"])
    reached = f"copy {ceilings.copy_gbs:,.0f} GB/s, read {ceilings.read_gbs:,.0f} GB/s"
    nominal, measured = ceilings.ffma_gflops, ceilings.measured_ffma_gflops
    if measured:
        reached += f", float32 FMA {measured:,.0f} GFLOP/s"
        reached += f" (cores × 2 × clock: {nominal:,.0f})" if nominal else ""
    elif nominal:
        reached += f", float32 FMA {nominal:,.0f} GFLOP/s (cores × 2 × clock)"
    if ceilings.cublas_bf16_gflops:
        reached += f", cuBLAS's bfloat16 peak {ceilings.cublas_bf16_gflops:,.0f} GFLOP/s"
    if ceilings.mma_sync_bf16_gflops and ceilings.mma_sync_tf32_gflops:
        reached += f", mma.sync from registers {ceilings.mma_sync_bf16_gflops:,.0f} GFLOP/s in "
        reached += f"bfloat16 and {ceilings.mma_sync_tf32_gflops:,.0f} in tf32"
    return f"Measured on: {', '.join(named)}.\nCeilings in the same run: {reached}."


def ladders(rows: Sequence[Row]) -> str:
    """A table for each problem that every kernel of an op was timed on."""
    tables = [ladder_table(members) for members in problems(rows) if members[0].set == LADDER]
    return "\n\n".join(tables) or "No ladder was measured."


def ladder_table(rows: Sequence[Row]) -> str:
    """The rows of one problem under a bold title, each beside the first."""
    shares = list(next((row.shares for row in rows if row.shares), {}))
    first = rows[0].name
    heads = ["kernel", ">ms", f">{rows[0].unit}", *(f">of {name}" for name in shares)]
    heads += [f">× {first}", "what it is"]
    lines = []
    for row in rows:
        ratio = _ratio(row, first)
        figures = [_ms(row), _rate(row)]
        figures += [f"{row.shares[name]:.1%}" if name in row.shares else "" for name in shares]
        name = f"`{row.name}`" if row.kind == "kernel" else row.name
        lines.append([name, *figures, ratio, _escaped(row.detail or row.summary)])
    return f"**{_times_signs(rows[0].problem)}**\n\n{_table(heads, lines)}"


@dataclass(frozen=True)
class Summary:
    """The problems of one op, set and dtype: ours beside the fastest peer of each."""

    op: str
    set: str
    dtype: str
    problems: int
    ratios: tuple[tuple[float, str], ...]  # times as fast, shape for people; of the lowest first
    floor: float | None  # median share of the floor
    untimed: dict[str, int]  # contender and what became of it -> on how many problems


def summaries(rows: Sequence[Row]) -> list[Summary]:
    """Of all sets but the ladders, in the order of ``rows``."""
    return [_summary(members) for members in _sets(rows)]


def summary_table(rows: Sequence[Row]) -> str:
    """A line for each op, set and dtype."""
    found = summaries(rows)
    if not found:
        return "Only the ladders were measured."
    heads = ["op", "set", "dtype", ">problems", ">× fastest peer (geometric mean)"]
    heads += [">lowest", "at", ">highest", "at", ">share of the floor (median)"]
    untimed = any(each.untimed for each in found)
    lines = []
    for each in found:
        compared = len(each.ratios)
        all_of = compared == each.problems
        line = [each.op, each.set, each.dtype]
        line.append(f"{compared}" if all_of else f"{compared} of {each.problems}")
        if each.ratios:
            line.append(f"{geometric_mean([ratio for ratio, _ in each.ratios]):.2f}")
            for ratio, shape in (each.ratios[0], each.ratios[-1]):
                line += [f"{ratio:.2f}", shape]
        else:
            line += [""] * 5
        line.append("" if each.floor is None else f"{each.floor:.0%}")
        if untimed:
            line.append(", ".join(f"{name}: {count}" for name, count in each.untimed.items()))
        lines.append(line)
    return _table([*heads, "without a time"] if untimed else heads, lines)


def set_table(members: Sequence[Sequence[Row]]) -> str:
    """A line for each problem of one op, set and dtype."""
    rows = [row for found in members for row in found]
    others = list(dict.fromkeys(row.name for row in rows if row.name != OURS))
    heads = ["shape", ">ms", ">p20–p80", ">host µs", ">graph ms", f">{rows[0].unit}"]
    heads += [">share of the floor", *(f">× {name}" for name in others)]
    lines = []
    for found in members:
        by_name = {row.name: row for row in found}
        row = by_name[OURS]
        spread = "" if row.ms is None else f"{row.ms_p20:.4g}–{row.ms_p80:.4g}"
        bound, share = max(row.shares.items(), key=lambda item: item[1], default=("", None))
        line = [_shape(row), _ms(row), spread, _figure(row.host_us, ".1f")]
        line += [_figure(row.graph_ms, ".4g"), _rate(row)]
        line.append("" if share is None else f"{share:.1%} {bound}")
        line += [_against(row, by_name.get(name)) for name in others]
        lines.append(line)
    return _table(heads, lines)


def _sets(rows: Sequence[Row]) -> list[list[list[Row]]]:
    """The problems of each op, set and dtype, without the ladders."""
    found = problems([row for row in rows if row.set != LADDER])
    return grouped(found, lambda members: (members[0].op, members[0].set, members[0].dtype))


def _summary(members: Sequence[Sequence[Row]]) -> Summary:
    ratios, floors = [], []
    untimed: dict[str, int] = {}
    for found in members:
        for row in found:
            if row.status != "ok":
                key = f"{row.name} {row.verdict}"
                untimed[key] = untimed.get(key, 0) + 1
        ours = next(row for row in found if row.name == OURS)
        if best := best_ratio(ours, found):
            ratios.append((best.median, _shape(ours)))
        if ours.shares:
            floors.append(max(ours.shares.values()))
    first = members[0][0]
    return Summary(
        op=first.op,
        set=first.set,
        dtype=first.dtype,
        problems=len(members),
        ratios=tuple(sorted(ratios)),
        floor=statistics.median(floors) if floors else None,
        untimed=untimed,
    )


def _run(found: Mapping[str, Any]) -> str:
    """The command, how long it took, and the GPU's state meanwhile."""
    text = f"Command: `{found['command']}`, {found['seconds']:,.0f} s."
    if found["interrupted"]:
        text += " It was interrupted, so some problems were not measured."
    state = found["telemetry"]
    if state is None:
        return f"{text}\nClocks, power and temperature were not recorded."
    names = {
        "sm_mhz": ("SM clock", "MHz"),
        "memory_mhz": ("memory clock", "MHz"),
        "watts": ("power", "W"),
        "celsius": ("temperature", "°C"),
    }
    parts = []
    for key, (name, unit) in names.items():
        if (value := state[key]) is not None:
            least, most = f"{value['min']:.0f}", f"{value['max']:.0f}"
            spread = "" if least == most else f" ({least}–{most})"
            parts.append(f"{name} {value['median']:.0f} {unit}{spread}")
    if (reasons := state["throttle_reasons"]) is not None:
        parts.append(f"clocks lowered by: {', '.join(reasons) or 'nothing'}")
    return f"{text}\nThe GPU during the run, median (lowest–highest): {', '.join(parts)}."


def _others(rows: Sequence[Row]) -> list[str]:
    """What the names of peers and bounds stand for: a list, or nothing."""
    found: dict[str, dict[str, dict[str, None]]] = {}
    for row in rows:
        if row.kind != "kernel":
            found.setdefault(row.name, {}).setdefault(row.summary, {})[row.op] = None
    items = []
    for name, meanings in found.items():
        text = "; ".join(f"{summary} ({', '.join(ops)})" for summary, ops in meanings.items())
        items.append(f"- `{name}`: {_escaped(text)}")
    return ["The other columns:", "\n".join(items)] if items else []


def _faults(members: Sequence[Sequence[Row]]) -> list[str]:
    """What is wrong or not available, and why: a list, or nothing."""
    shapes: dict[tuple[str, str, str], list[str]] = {}
    for row in (row for found in members for row in found if row.status != "ok"):
        shapes.setdefault((row.name, row.verdict, row.detail), []).append(_shape(row))
    items = []
    for (name, status, detail), where in shapes.items():
        more = len(where) - NAMED_SHAPES
        named = "; ".join(where[:NAMED_SHAPES]) + (f"; and {more} more" if more > 0 else "")
        items.append(f"- `{name}` {status} on {named}: {_escaped(detail)}")
    return ["\n".join(items)] if items else []


def _against(row: Row, other: Row | None) -> str:
    if other is not None and other.status != "ok":
        return other.verdict
    return "" if other is None else _ratio(row, other.name)


def _ratio(row: Row, other: str) -> str:
    return f"{row.ratios[other].median:.2f}" if other in row.ratios else ""


def _ms(row: Row) -> str:
    return row.verdict if row.ms is None else f"{row.ms:.4g}"


def _rate(row: Row) -> str:
    return _figure(row.rate, ",.0f" if row.rate is None or row.rate >= 100 else ".3g")


def _figure(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


def _shape(row: Row) -> str:
    """For people: the problem without op and dtype, which stand beside it."""
    return _times_signs(row.problem.removeprefix(f"{row.op} ").removesuffix(f" {row.dtype}"))


def _times_signs(text: str) -> str:
    return text.replace(" x ", " × ")


def _escaped(text: str) -> str:
    """For a line, also of a table: compilers' messages have the signs of Markdown and HTML."""
    return text.replace("|", "\\|").replace("<", "&lt;")


def _table(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A Markdown table. A column whose head begins with ``>`` is set flush right."""
    rule = ["---:" if head.startswith(">") else "---" for head in heads]
    names = [head.removeprefix(">") for head in heads]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (names, rule, *lines))
