"""Measure float32's error by several ways of multiplying, and write docs/accuracy.md's table.

python bench/accuracy.py --out bench/results/accuracy-h200.json    # on a GPU
PYTHONPATH=. python bench/accuracy.py                              # rewrite the table
PYTHONPATH=. python bench/accuracy.py --check                      # exit with 1 if it is stale
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from measured_document import command
from origin import measured_on, origin
from torch import Tensor

import torch_smem_gemm as smem
from torch_smem_gemm.bench.measure import float32_products
from torch_smem_gemm.bench.numbers import DATA, errors
from torch_smem_gemm.bench.report import between

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs" / "accuracy.md"
RESULTS = ROOT / "bench" / "results" / "accuracy-h200.json"
ROWS, COLS = 400, 500  # of the results
LENGTHS = (16, 64, 256, 512, 1024, 2048, 4096, 16384, 65536)


def torchs(precision: Literal["ieee", "tf32"]) -> Callable[[Tensor, Tensor], Tensor]:
    def product(a: Tensor, b: Tensor) -> Tensor:
        with float32_products(precision):
            return a @ b

    return product


def three_products(a: Tensor, b: Tensor) -> Tensor:
    """The same three products by cuBLAS: one scale an operand, and chains as long as K."""

    def split(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        up = 2.0 ** (14 - (torch.frexp(x.abs().max()).exponent - 1))
        hi = (x * up).half()
        return hi, ((x * up - hi.float()) * 2048).half(), up

    def multiply(x: Tensor, y: Tensor) -> Tensor:
        return torch.mm(x, y, out_dtype=torch.float32)

    (a_hi, a_lo, a_up), (b_hi, b_lo, b_up) = split(a), split(b)
    small = multiply(a_hi, b_lo) + multiply(a_lo, b_hi)
    return (multiply(a_hi, b_hi) + small / 2048) / a_up / b_up


WAYS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "fp16x3": lambda a, b: smem.gemm(a, b, kernel="fp16x3"),
    "ieee": lambda a, b: smem.gemm(a, b, precision="ieee"),
    "cuBLAS": torchs("ieee"),
    "three products": three_products,
    "cuBLAS TF32": torchs("tf32"),
}


def measure() -> dict[str, Any]:
    """Everything that the results file holds."""
    rows = []
    for data, make in DATA.items():
        for k in LENGTHS:
            torch.manual_seed(k)
            a, b = make(ROWS, k, "cuda"), make(COLS, k, "cuda").mT
            found = {name: errors(way(a, b), a, b) for name, way in WAYS.items()}
            rows.append({"data": data, "k": k, "errors": found})
    return {**origin(), "rows": rows}


def table(found: Mapping[str, Any]) -> str:
    """A line for each kind of data and K: the error of the norm / the largest of an element."""

    def shown(pair: Sequence[float]) -> str:
        norm, largest = pair
        return f"{norm:.1e} / {largest:.3g}" if largest < 1e6 else f"{norm:.1e} / -"

    lines = [
        f"{measured_on(found)}.",
        "",
        f"| data | K | {' | '.join(f'`{n}`' if n in ('fp16x3', 'ieee') else n for n in WAYS)} |",
        "| --- | --: |" + " --: |" * len(WAYS),
    ]
    for row in found["rows"]:
        figures = " | ".join(shown(row["errors"][name]) for name in WAYS)
        lines.append(f"| {row['data']} | {row['k']} | {figures} |")
    return "\n".join(lines)


def document(text: str, found: Mapping[str, Any]) -> str:
    """docs/accuracy.md's ``text`` with the table of ``found``."""
    return between(text, "errors", table(found))


if __name__ == "__main__":
    sys.exit(command(__doc__, document=DOCUMENT, results=RESULTS, measure=measure, shown=document))
