"""How far the plan's choice is from the best tile, over all shape sets and random problems.

    python bench/sweep.py --out bench/results/sweep-h200.json          # on a GPU that has wgmma
    python bench/sweep.py --kernel wgmma --dtype float16 --sets squares,llm --random 50

Times a GEMM kernel that chooses among variants beside each of them named, interleaved, and prints
by how much the choice is slower than the best: of each set the median and the worst, and the ten
worst problems. All give the same bits, so that only the time is at stake.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from origin import origin

import torch_smem_gemm as smem
from torch_smem_gemm.bench.measure import interleaved
from torch_smem_gemm.bench.problems import make_problem
from torch_smem_gemm.bench.random_shapes import random_shapes
from torch_smem_gemm.bench.shapes import Shape, load

SETS = ("squares", "ragged", "skinny", "batched", "llm")
RANDOM, SEED = 200, 0
BUDGET = 0.01  # seconds that a candidate's timed calls may take together
LARGEST = 5e12  # operations: what takes longer is left out

Row = dict[str, Any]


def variants(kernel: str) -> list[str]:
    """The names of a GEMM kernel's variants; ValueError if it has none."""
    for row in smem.kernels("gemm"):
        if row.name == kernel and row.variants:
            return [f"{kernel}:{variant}" for variant in row.variants]
    raise ValueError(f"no GEMM kernel {kernel!r} that chooses among variants")


def exists(name: str, dtype: torch.dtype, device: torch.device) -> bool:
    """Whether a variant is built for the dtype: some tiles of `simt` are not for float64."""
    x = torch.ones(16, 16, dtype=dtype, device=device)
    try:
        smem.gemm(x, x, kernel=name)
    except RuntimeError as error:
        if "has no variant" not in str(error):
            raise
        return False
    return True


def is_float32(kernel: str) -> bool:
    """Whether a GEMM kernel computes float32 products, and not tf32."""
    gemms = {row.name: row for row in smem.kernels("gemm")}
    return gemms[kernel].float32_precision != "tf32"


def shapes(sets: Iterable[str], random: int) -> list[tuple[str, Shape]]:
    """The problems of the sets, and as many random ones, that do not take too long."""
    found = [(name, shape) for name in sets for shape in load(name, "gemm")]
    found += [("random", shape) for shape in random_shapes("gemm", random, SEED)]
    return [(name, s) for name, s in found if 2 * s.batch * s.m * s.n * s.k <= LARGEST]


def time_one(
    shape: Shape, dtype: torch.dtype, device: torch.device, names: Sequence[str]
) -> dict[str, float]:
    """Milliseconds of each of the kernels on a problem; RuntimeError where one is wrong."""
    problem = make_problem("gemm", shape, dtype, device)
    functions = {name: problem.ours(name) for name in names}
    for name, function in functions.items():
        if wrong := problem.check(function(*problem.inputs[0])):
            raise RuntimeError(f"{name} on {shape}: {wrong}")
    calls = {name: problem.bind(function) for name, function in functions.items()}
    samples = interleaved(calls, device, budget=BUDGET)
    return {name: timed.median * 1e3 for name, timed in samples.items()}


def row_of(set_name: str, shape: Shape, chosen: str, times: Mapping[str, float]) -> Row:
    """A problem's times, and how many times as long as the best the choice takes."""
    best = min((name for name in times if name != chosen), key=lambda name: times[name])
    regret = times[chosen] / times[best]
    return {"set": set_name, "shape": str(shape), "best": best, "regret": regret, "ms": dict(times)}


def summary(rows: Sequence[Row]) -> str:
    """A line for each set and for all, then the worst problems."""

    def line(name: str, of: Sequence[Row]) -> str:
        regrets = [row["regret"] for row in of]
        mean = math.exp(statistics.fmean(map(math.log, regrets)))
        return (
            f"{name}: {len(of)} problems, slower than the best by {statistics.median(regrets):.3f} "
            f"(median), {mean:.3f} (geometric mean), {max(regrets):.3f} (worst)"
        )

    lines = [
        line(name, [row for row in rows if row["set"] == name])
        for name in dict.fromkeys(row["set"] for row in rows)
    ]
    worst = sorted(rows, key=lambda row: -row["regret"])[:10]
    lines += [line("all", rows), "worst:"]
    lines += [f"  {row['regret']:.3f}  {row['shape']}: {row['best']} is better" for row in worst]
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Sweep and print; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kernel", default="wgmma", help="of GEMM, one with variants")
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--sets", default=",".join(SETS), help="names, with commas between them")
    parser.add_argument("--random", type=int, default=RANDOM, help="how many random problems")
    parser.add_argument("--out", type=Path, help="write the results there, as JSON")
    args = parser.parse_args(argv)

    dtype, device = getattr(torch, args.dtype), torch.device("cuda")
    if dtype == torch.float32 and not is_float32(args.kernel):
        torch.backends.cuda.matmul.fp32_precision = "tf32"
    names = [args.kernel]
    names += [name for name in variants(args.kernel) if exists(name, dtype, device)]
    rows = []
    for set_name, shape in shapes(filter(None, args.sets.split(",")), args.random):
        rows.append(row_of(set_name, shape, args.kernel, time_one(shape, dtype, device, names)))
        print(f"{rows[-1]['regret']:.3f}  {set_name} {shape.title}", flush=True)
    print(summary(rows))
    if args.out:
        head = {**origin(), "kernel": args.kernel, "dtype": args.dtype}
        args.out.write_text(json.dumps({**head, "rows": rows}, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
