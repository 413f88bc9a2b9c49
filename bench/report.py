"""Write README's ladder tables from the figures that ``bench ladder --json`` measured.

    python bench/report.py            # rewrite the part of README.md between the markers
    python bench/report.py --check    # exit with 1 if that would change anything

Needs nothing but Python.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
RESULTS = ROOT / "bench" / "results" / "ladder-h200.json"
BEGIN, END = "<!-- ladder:begin -->", "<!-- ladder:end -->"


def main(argv: Sequence[str] | None = None) -> int:
    """Rewrite or check README; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only say if README is up to date")
    parser.add_argument("--readme", type=Path, default=README)
    parser.add_argument("--results", type=Path, default=RESULTS)
    args = parser.parse_args(argv)

    readme = args.readme.read_text(encoding="utf-8")
    wanted = with_tables(readme, tables(json.loads(args.results.read_text(encoding="utf-8"))))
    if not args.check:
        args.readme.write_text(wanted, encoding="utf-8")
    elif wanted != readme:
        print(f"{args.readme} does not show {args.results}: run `python {sys.argv[0]}`")
        return 1
    return 0


def with_tables(readme: str, text: str) -> str:
    """``readme`` with ``text`` between the markers; SystemExit where a marker is missing."""
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise SystemExit(f"README needs the line {BEGIN} and, after it, {END}")
    return f"{before}{begin}\n{text}\n{end}{after}"


def tables(results: dict[str, Any]) -> str:
    """A Markdown table for each problem in ``results``, and what it was measured on."""
    versions = results["versions"]
    measured = [
        results["device"],
        f"driver {versions['driver']}",
        f"torch {versions['torch']}",
        f"torch_smem_gemm {versions['torch_smem_gemm']}",
        results["date"][:10],
    ]
    if versions["commit"]:
        measured.append(f"commit {versions['commit']}")
    problems: dict[str, list[dict[str, Any]]] = {}
    for row in results["rows"]:
        problems.setdefault(row["problem"], []).append(row)
    ceilings = results["ceilings"]
    reached = f"copy {ceilings['copy_gbs']:,.0f} GB/s, read {ceilings['read_gbs']:,.0f} GB/s"
    nominal, measured_fma = ceilings["ffma_gflops"], ceilings.get("measured_ffma_gflops")
    if measured_fma:
        reached += f", float32 FMA {measured_fma:,.0f} GFLOP/s"
        reached += f" (cores × 2 × clock: {nominal:,.0f})" if nominal else ""
    elif nominal:
        reached += f", float32 FMA {nominal:,.0f} GFLOP/s (cores × 2 × clock)"
    if bf16 := ceilings.get("cublas_bf16_gflops"):
        reached += f", cuBLAS's bfloat16 peak {bf16:,.0f} GFLOP/s"
    text = f"Measured on: {', '.join(measured)}.\nCeilings in the same run: {reached}."
    return "\n\n".join([text, *(table(*item) for item in problems.items())])


def table(problem: str, rows: Sequence[dict[str, Any]]) -> str:
    """One problem's rows as a Markdown table under a bold title."""
    shares = list(next(row["shares"] for row in rows if row["shares"]))
    heads = ["kernel", "ms", rows[0]["unit"], *(f"of {name}" for name in shares)]
    heads += [f"× {rows[0]['name']}", "what it is"]
    lines = [heads, ["---", *["---:"] * (len(heads) - 2), "---"]]
    for row in rows:
        if row["status"] == "ok":
            figures = [f"{row['ms']:.4g}", f"{row['rate']:,.0f}"]
            figures += [f"{row['shares'][name]:.1%}" for name in shares]
            figures += [f"{row['speedup']:.2f}" if row["speedup"] else ""]
        else:
            figures = [row["status"], *[""] * (len(heads) - 3)]
        name = f"`{row['name']}`" if row["kind"] == "kernel" else row["name"]
        lines.append([name, *figures, row["detail"] or row["summary"]])
    body = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
    return f"**{problem.replace(' x ', ' × ')}**\n\n{body}"


if __name__ == "__main__":
    raise SystemExit(main())
