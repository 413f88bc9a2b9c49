"""``bench compare``: changes between two results files, to check a change before it is merged."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from torch_smem_gemm.bench.compare import LEAST_CHANGE, Change, Comparison, compare
from torch_smem_gemm.bench.results import load
from torch_smem_gemm.bench.rows import Row
from torch_smem_gemm.cli._text import table

SUMMARY = "show what got slower or faster between two results files"


def add_parser(what: Any) -> None:
    """Declare the command.

    Args:
        what: argparse's action that holds the subcommands of ``bench``.
    """
    parser = what.add_parser(
        "compare",
        help=SUMMARY,
        description=f"{SUMMARY.capitalize()}, beyond the noise: the intervals from p20 to p80 do "
        f"not overlap, and the medians differ by more than {LEAST_CHANGE * 100:.0f}%. "
        "The exit status is 1 if anything got slower, or has no time any more.",
    )
    parser.add_argument("before", type=results_file, metavar="A.json")
    parser.add_argument("after", type=results_file, metavar="B.json")
    parser.set_defaults(run_what=run)


def run(args: argparse.Namespace) -> int:
    """Compare and print; returns 1 if anything got slower or broke."""
    comparison = compare(args.before, args.after)
    print_comparison(comparison)
    return int(bool(comparison.worse))


def results_file(text: str) -> dict[str, Any]:
    """Parse the name of a results file: what is in it."""
    try:
        return load(Path(text))
    except (OSError, ValueError) as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def print_comparison(comparison: Comparison) -> None:
    """Print what changed as a table, then what cannot be compared, then the counts."""
    for difference in comparison.differences:
        print(f"NOT THE SAME {difference}")
    changed = comparison.of("slower", "broken", "faster", "repaired")
    if changed:
        table(
            "Changed beyond the noise",
            ["problem", "name", ">ms before", ">p20 - p80", ">ms after", ">p20 - p80", ">", ""],
            [_cells(change) for change in changed],
        )
    for title, keys in (
        ("only in the first file", comparison.only_before),
        ("only in the second file", comparison.only_after),
    ):
        for key in keys:
            print(f"{title}: {', '.join(key)}")
    verdicts = ("slower", "broken", "faster", "repaired", "same", "no time")
    counts = {verdict: len(comparison.of(verdict)) for verdict in verdicts}
    total = len(comparison.changes)
    told = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
    print(f"{total} rows in both files" + (f": {told}" if told else ""))
    if any(change.after.kind != "kernel" for change in comparison.worse):
        print("Peers got slower too: the machine may not have been in the same state.")


def _cells(change: Change) -> list[str]:
    ratio = "" if change.ratio is None else f"{change.ratio - 1:+.1%}"
    figures = [*_figures(change.before), *_figures(change.after)]
    return [change.after.problem, change.after.name, *figures, ratio, change.verdict]


def _figures(row: Row) -> tuple[str, str]:
    if row.ms is None:
        return row.verdict, ""
    return f"{row.ms:.4g}", f"{row.ms_p20:.4g} - {row.ms_p80:.4g}"
