"""The output of ``bench``: ceilings, ladders, sets of problems, and a summary of the sets."""

from __future__ import annotations

from collections.abc import Sequence

from torch_smem_gemm.bench.measure import Ceilings
from torch_smem_gemm.bench.report import summaries
from torch_smem_gemm.bench.results import geometric_mean, problems
from torch_smem_gemm.bench.rows import OURS, Row
from torch_smem_gemm.bench.suite import LADDER
from torch_smem_gemm.cli._text import rate_text, table


def ceilings_text(ceilings: Ceilings) -> str:
    """One line."""
    parts = [
        f"copy {ceilings.copy_gbs:,.0f} GB/s (read and written)",
        f"read {ceilings.read_gbs:,.0f} GB/s",
    ]
    if ceilings.measured_ffma_gflops is not None:
        parts.append(f"FMA {ceilings.measured_ffma_gflops:,.0f} GFLOP/s (a kernel of FMAs)")
    if ceilings.ffma_gflops is not None:
        parts.append(f"FMA {ceilings.ffma_gflops:,.0f} GFLOP/s (nominal: cores x 2 x clock)")
    if ceilings.cublas_bf16_gflops is not None:
        parts.append(f"bfloat16 {ceilings.cublas_bf16_gflops:,.0f} GFLOP/s (cuBLAS)")
    if ceilings.mma_sync_bf16_gflops is not None and ceilings.mma_sync_tf32_gflops is not None:
        parts.append(
            f"mma.sync {ceilings.mma_sync_bf16_gflops:,.0f} GFLOP/s in bfloat16 and "
            f"{ceilings.mma_sync_tf32_gflops:,.0f} in tf32 (a kernel of nothing else)"
        )
    return "Ceilings: " + "; ".join(parts)


def print_group(rows: Sequence[Row]) -> None:
    """Print the rows of one problem of a ladder, or of problems of one set and dtype."""
    if rows[0].set == LADDER:
        for ladder in problems(rows):
            _print_ladder(ladder)
    else:
        _print_set(rows)


def _print_ladder(rows: Sequence[Row]) -> None:
    """A line for each kernel."""
    shares = list(next((row.shares for row in rows if row.shares), {}))
    unit, first = rows[0].unit, rows[0].name
    columns = ["kernel", ">ms", ">p20 - p80", f">{unit}", *(f">% of {name}" for name in shares)]
    lines = []
    for row in rows:
        speedup = row.ratios.get(first)
        figures = [*_times(row), *(f"{row.shares[name]:.1%}" for name in row.shares)]
        figures += [""] * (3 + len(shares) - len(figures))
        figures.append(f"{speedup.median:.2f}" if speedup else "")
        lines.append([row.name, *figures, row.detail or row.summary])
    table(rows[0].problem, [*columns, f">x {first}", "what it is"], lines)


def _print_set(rows: Sequence[Row]) -> None:
    """Print a line per problem: our figures, and the speed-up over each other contender."""
    others = list(dict.fromkeys(row.name for row in rows if row.name != OURS))
    first = rows[0]
    columns = ["problem", ">ms", ">p20 - p80", f">{first.unit}", ">of its floor"]
    columns += [">host us", ">graph ms", *(f">x {name}" for name in others)]
    lines, notes = [], []
    for found in problems(rows):
        by_name = {row.name: row for row in found}
        row = by_name[OURS]
        figures = [*_times(row)]
        figures += [f"{max(row.shares.values()):.1%}"] if row.shares else [""] * (4 - len(figures))
        figures += [_figure(row.host_us, ".1f"), _figure(row.graph_ms, ".4g")]
        figures += [_ratio(row, by_name.get(name)) for name in others]
        lines.append([row.shape, *figures])
        notes += [f"{row.shape}, {row.name}: {row.detail}" for row in found if row.detail]
    table(f"{first.op} {first.set} {first.dtype}", columns, lines)
    if notes:
        print("\n".join(notes), end="\n\n")


def print_summary(rows: Sequence[Row]) -> None:
    """Print a line for each op, set and dtype: ours beside the fastest peer of each problem."""
    lines = []
    for each in summaries(rows):
        if not each.ratios:
            continue
        (low, worst), (high, best) = each.ratios[0], each.ratios[-1]
        mean = geometric_mean([ratio for ratio, _ in each.ratios])
        figures = [f"{mean:.2f}", f"{low:.2f}", worst, f"{high:.2f}", best]
        compared = f"{len(each.ratios)} of {each.problems}"
        lines.append([f"{each.op} {each.set} {each.dtype}", compared, *figures])
    if lines:
        heads = [">geometric mean", ">lowest", "of", ">highest", "of"]
        table("Times as fast as the fastest peer", ["", ">problems", *heads], lines)


def _times(row: Row) -> list[str]:
    """Milliseconds, their spread and the rate; WRONG or n/a where there are none."""
    if row.ms is None or row.rate is None:
        return [row.verdict, "", ""]
    return [f"{row.ms:.4g}", f"{row.ms_p20:.4g} - {row.ms_p80:.4g}", rate_text(row.rate)]


def _ratio(row: Row, other: Row | None) -> str:
    if other is None:
        return ""
    if other.status != "ok":
        return other.verdict
    return f"{row.ratios[other.name].median:.2f}" if other.name in row.ratios else ""


def _figure(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)
