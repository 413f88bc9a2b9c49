"""Measure what batch invariance costs in float32, and write docs/reproducibility.md's table.

python bench/invariance.py --out bench/results/invariance-h200.json    # on a GPU
PYTHONPATH=. python bench/invariance.py                                # rewrite the table
PYTHONPATH=. python bench/invariance.py --check                        # exit with 1 if it is stale

The choice between kernels of different bits may look at N and K alone. One that looked at M, too,
would take the faster for each problem: both are timed, beside what the package chooses.
"""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from measured_document import command
from origin import measured_on, origin
from sweep import RANDOM, SETS, row_of, shapes, time_one

from torch_smem_gemm.bench.report import between

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs" / "reproducibility.md"
RESULTS = ROOT / "bench" / "results" / "invariance-h200.json"
CHOSEN, KINDS = "auto", ("simt", "fp16x3")
SHORTEST_K = 16  # of fp16x3 here: with a product or two a sum, SIMT kernels round once


def measure() -> dict[str, Any]:
    """Everything that the results file holds."""
    device, rows = torch.device("cuda"), []
    for name, shape in shapes(SETS, RANDOM):
        kinds = KINDS if shape.k >= SHORTEST_K else KINDS[:1]
        times = time_one(shape, torch.float32, device, [CHOSEN, *kinds])
        rows.append(row_of(name, shape, CHOSEN, times))
    return {**origin(), "rows": rows}


def table(found: Mapping[str, Any]) -> str:
    """A line for each set: how many times as long as a free choice ours takes."""
    rows = found["rows"]
    lines = [
        f"{measured_on(found)}, commit {found['versions']['commit']}.",
        "",
        "| set | problems | geometric mean | median | worst | at |",
        "| --- | --: | --: | --: | --: | --- |",
    ]
    for name in dict.fromkeys(row["set"] for row in rows):
        costs = {row["shape"]: row["regret"] for row in rows if row["set"] == name}
        # Below 1 are problems on which the choice is the best, timed twice.
        mean = math.exp(statistics.fmean(math.log(max(cost, 1)) for cost in costs.values()))
        median, worst = statistics.median(costs.values()), max(costs, key=lambda s: costs[s])
        lines.append(
            f"| {name} | {len(costs)} | {mean:.2f} | {max(median, 1):.2f} | {costs[worst]:.2f} "
            f"| {worst} |"
        )
    return "\n".join(lines)


def document(text: str, found: Mapping[str, Any]) -> str:
    """docs/reproducibility.md's ``text`` with the table of ``found``."""
    return between(text, "cost", table(found))


if __name__ == "__main__":
    sys.exit(command(__doc__, document=DOCUMENT, results=RESULTS, measure=measure, shown=document))
