"""Search for the data on which float32's products are least exact; write docs/accuracy.md's tables.

python bench/worst_case.py --out bench/results/worst-case-h100.json    # on a GPU of 9.0
PYTHONPATH=. python bench/worst_case.py                                # rewrite the tables
PYTHONPATH=. python bench/worst_case.py --check                        # exit with 1 if it is stale
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from accuracy import DOCUMENT, WAYS
from measured_document import command
from origin import measured_on, origin
from worst_data import SERIES, Pair, climb, element_errors

from torch_smem_gemm.bench.bounds import bound
from torch_smem_gemm.bench.numbers import errors
from torch_smem_gemm.bench.report import between

RESULTS = Path(__file__).resolve().parent / "results" / "worst-case-h100.json"
OURS, SGEMM = ("fp16x3", "ieee"), "cuBLAS"
COMPARED = {name: WAYS[name] for name in (*OURS, SGEMM)}
ROWS, COLS = 128, 3080  # of the results; so many columns that fp16x3 does not slice K
LENGTHS = (96, 512, 1024, 3333, 4096, 16384, 65536)
NARROW = 72  # columns of out where it does; up to 64 "fp32" leaves to FMAs
BOUNDED = (64, 128, 512, 1024, 2048, 4096, 16384, 65536, 262144)  # K in the table of bounds
SEARCHED = (96, 512, 1024)  # K of the search, ...
STARTS = ("normal", "uniform", "constants")  # ... what it starts from, and its length
ROUNDS = 400
CLEARLY = 1.02  # times SGEMM's error, from where on it is called the smaller one


def searched(way: str) -> str:
    """The name of the data that a search for one way's worst has found."""
    return f"search, {way}"


def _row(data: str, k: int, pair: Pair) -> dict[str, Any]:
    found = {name: errors(multiply(*pair), *pair) for name, multiply in COMPARED.items()}
    return {"data": data, "k": k, "errors": found}


def _search(way: str, k: int) -> Pair:
    """The worst pair of several climbs."""
    pairs = []
    for start in STARTS:
        torch.manual_seed(k)
        pair = climb(COMPARED[way], SERIES[start](ROWS, COLS, k, "cuda"), ROUNDS)
        worst = element_errors(COMPARED[way](*pair), *pair).max().item()
        pairs.append((worst, len(pairs), pair))
    return max(pairs)[2]


def measure() -> dict[str, Any]:
    """Everything that the results file holds."""
    rows = []
    for data, make in SERIES.items():
        for k in LENGTHS:
            torch.manual_seed(k)
            rows.append(_row(data, k, make(ROWS, COLS, k, "cuda")))
    for way in COMPARED:
        rows += [_row(searched(way), k, _search(way, k)) for k in SEARCHED]
    return {**origin(), "cols": COLS, "rows": rows}


def _figures(row: Mapping[str, Any], cols: int) -> str:
    shown = (f"{norm:.1e} / {largest:.3g}" for norm, largest in map(row["errors"].get, COMPARED))
    limit = bound("fp32", cols, row["k"])
    return f"| {row['data']} | {row['k']} | {limit:.1f} | {' | '.join(shown)} |"


def _sgemm_is_better(rows: Sequence[Mapping[str, Any]], way: str) -> str:
    """On which of the data SGEMM's error of the norm is clearly the smaller, as a sentence."""
    lengths: dict[str, list[int]] = {}
    for row in rows:
        (norm, _), (sgemm, _) = row["errors"][way], row["errors"][SGEMM]
        if norm > CLEARLY * sgemm:
            lengths.setdefault(row["data"], []).append(row["k"])
    if not lengths:
        return f"`{way}` has the smaller error of the norm, or much the same, in all rows."
    count = sum(map(len, lengths.values()))
    named = "; ".join(f"{data} (K = {', '.join(map(str, ks))})" for data, ks in lengths.items())
    return (
        f"SGEMM's error of the norm is smaller than `{way}`'s, by 2% or more, in {count} of "
        f"{len(rows)} rows: {named}."
    )


def table(found: Mapping[str, Any]) -> str:
    """A line for each kind of data and K, and where SGEMM is the better one."""
    rows = found["rows"]
    names = (f"`{name}`" if name in OURS else name for name in COMPARED)
    lines = [
        f"{measured_on(found)}; {ROWS} × {found['cols']}.",
        "",
        f"| data | K | bound | {' | '.join(names)} |",
        "| --- | --: | --: |" + " --: |" * len(COMPARED),
        *(_figures(row, found["cols"]) for row in rows),
        "",
    ]
    return "\n".join([*lines, *(f"- {_sgemm_is_better(rows, way)}" for way in OURS)])


def bounds_table() -> str:
    """What is proven, for some K."""
    columns = (("ieee", COLS), ("fp16x3", COLS), ("fp16x3", NARROW))
    rows = [[f"{bound(kernel, n, k):.1f}" for kernel, n in columns] for k in BOUNDED]
    return "\n".join(
        [
            f"| K | `ieee` | `fp16x3`, N above 3072 | `fp16x3`, N = {NARROW} |",
            "| --: | --: | --: | --: |",
            *(f"| {k} | {' | '.join(row)} |" for k, row in zip(BOUNDED, rows, strict=True)),
        ]
    )


def document(text: str, found: Mapping[str, Any]) -> str:
    """docs/accuracy.md's ``text`` with the bounds, and the table of ``found``."""
    return between(between(text, "bounds", bounds_table()), "worst", table(found))


if __name__ == "__main__":
    sys.exit(command(__doc__, document=DOCUMENT, results=RESULTS, measure=measure, shown=document))
