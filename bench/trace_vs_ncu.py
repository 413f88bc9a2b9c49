"""Hold what the tracer counts against what Nsight Compute counts on the GPU, kernel by kernel.

    python bench/trace_vs_ncu.py --out bench/results/trace-vs-ncu-h200.json
    python bench/trace_vs_ncu.py --only simt --out bench/results/trace-vs-ncu-h200.json

Runs every kernel of every ladder once under ``ncu`` (which must be on PATH and allowed to read the
performance counters) and once under ``smem.trace``, on the same problems, and writes both counts
side by side. With ``--only`` it keeps what the file has of other kernels. Exits with 1 if any
differ by more than 1% for no reason that is known (known_differences.py).
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
import sys
from collections import Counter as Counts
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import ncu
import torch
from known_differences import TOLERANCE, difference, reason

import torch_smem_gemm as smem

# Sizes: whole tiles, then ragged ones.
PROBLEMS = (
    ("gemm", (256, 256, 256), "float32"),
    ("gemm", (200, 136, 100), "float32"),
    ("gemm", (75, 131, 93), "float32"),
    ("gemm", (200, 136, 100), "float16"),
    ("gemm", (200, 136, 100), "float64"),
    ("gemm", (300, 1, 3000), "float32"),
    ("gemm", (300, 1, 2001), "float16"),
    ("transpose", (256, 256), "float32"),
    ("transpose", (200, 137), "float32"),
    ("transpose", (200, 137), "uint8"),
    ("transpose", (200, 137), "float64"),
    ("sum", (64, 8192), "float32"),
    ("sum", (37, 1000), "float32"),
    ("sum", (37, 1000), "int8"),
)

SASS = "smsp__sass_"
L1 = "smsp__sass_l1tex_"
OPCODES = "sass__inst_executed_per_opcode_with_modifier_all"

Counter = Callable[[smem.Trace, str], float]


def lines(what: str, memory: str, *actions: str) -> Counter:
    """Add up ``what`` over the lines, as written or (where they differ) as the compiler merges."""

    def count(trace: smem.Trace, view: str) -> float:
        merged = view == "merged" and actions == ("load",) and memory == "shared"
        field = f"merged_{what}" if merged and what != "distinct_bytes" else what
        return trace.count(field, actions=actions, memory=memory)

    return count


def arithmetic(name: str) -> Counter:
    """Operations of single threads."""
    return lambda trace, _: sum(getattr(launch, name) for launch in trace.launches)


INSTRUCTIONS = f"{SASS}inst_executed_op_"
BYTES = f"{SASS}data_bytes_mem_"
SECTORS = f"{L1}t_sectors_pipe_lsu_mem_global_op_"
WAVEFRONTS = f"{L1}data_pipe_lsu_wavefronts_mem_shared_op_"
CONFLICTS = "data_bank_conflicts_pipe_lsu_mem_shared_op_"
# What is compared: a counter of ours (what is added up, memory, action), and ncu's metric.
LINES = (
    ("global load requests", "requests", "global", "load", f"{INSTRUCTIONS}global_ld"),
    ("global load bytes", "distinct_bytes", "global", "load", f"{BYTES}global_op_ld"),
    ("global load sectors", "sectors", "global", "load", f"{SECTORS}ld"),
    ("global store requests", "requests", "global", "store", f"{INSTRUCTIONS}global_st"),
    ("global store bytes", "distinct_bytes", "global", "store", f"{BYTES}global_op_st"),
    ("global store sectors", "sectors", "global", "store", f"{SECTORS}st"),
    ("copy requests", "requests", "shared", "copy_to", f"{INSTRUCTIONS}ldgsts"),
    ("copy sectors", "sectors", "global", "copy_from", f"{SECTORS}ldgsts"),
    ("copy wavefronts", "wavefronts", "shared", "copy_to", f"{WAVEFRONTS}ldgsts"),
    ("copy conflicts", "conflicts", "shared", "copy_to", f"{L1}{CONFLICTS}ldgsts"),
    ("shared load requests", "requests", "shared", "load", f"{INSTRUCTIONS}shared_ld"),
    ("shared load bytes", "distinct_bytes", "shared", "load", f"{BYTES}shared_op_ld"),
    ("shared load wavefronts", "wavefronts", "shared", "load", f"{WAVEFRONTS}ld"),
    ("shared load conflicts", "conflicts", "shared", "load", f"l1tex__{CONFLICTS}ld"),
    ("shared store requests", "requests", "shared", "store", f"{INSTRUCTIONS}shared_st"),
    ("shared store bytes", "distinct_bytes", "shared", "store", f"{BYTES}shared_op_st"),
    ("shared store wavefronts", "wavefronts", "shared", "store", f"{WAVEFRONTS}st"),
    ("shared store conflicts", "conflicts", "shared", "store", f"l1tex__{CONFLICTS}st"),
)
# Each counter, and the metrics that add up to it.
COUNTERS: dict[str, tuple[Counter, tuple[str, ...]]] = {
    name: (lines(what, memory, action), (metric,)) for name, what, memory, action, metric in LINES
} | {
    name: (
        arithmetic(name),
        tuple(f"{SASS}thread_inst_executed_op_{t}{op}_pred_on" for t in "fd"),
    )
    for name, op in (("fma", "fma"), ("add", "add"), ("multiply", "mul"))
}
# Instructions that ncu counts by opcode.
BARRIERS = lines("requests", "", "barrier")


def shuffles(trace: smem.Trace, _: str) -> int:
    """SHFL moves 4 bytes: a shuffle of 8 is two."""
    return sum(
        line.requests * -(-line.bytes_a_lane // 4)
        for launch in trace.launches
        for line in launch.lines
        if line.action == "shuffle"
    )


def counts(trace: smem.Trace, view: str) -> dict[str, float]:
    """Every counter of ours; ``view`` is "written" or "merged", as the compiler made the loads."""
    counters = {name: counter for name, (counter, _) in COUNTERS.items()}
    counters |= {"barriers": BARRIERS, "shuffles": shuffles}
    return {name: counter(trace, view) for name, counter in counters.items()}


SHOWN_OPCODES = re.compile(r"(LD|ST|BAR|SHFL|FFMA|FADD|FMUL|DFMA|DADD|DMUL|HMMA)\w*(\.\w+)*$")


def kernels_of(op: str, sizes: Sequence[int]) -> list[str]:
    """The kernels that can be traced: of a product with one column gemv, which leaves others."""
    one_column = op == "gemm" and sizes[1] == 1
    return [
        row.name for row in smem.kernels(op) if row.on_cpu and (row.name == "gemv") == one_column
    ]


def runs() -> Iterator[tuple[str, str, tuple[int, ...], str]]:
    """Every kernel that can be traced, on every problem of its op."""
    for op, sizes, dtype in PROBLEMS:
        for name in kernels_of(op, sizes):
            yield op, name, sizes, dtype


def arguments(op: str, sizes: tuple[int, ...], dtype: str, device: str) -> tuple[Any, ...]:
    """The positional arguments of the op."""
    kind = getattr(torch, dtype)

    def filled(*shape: int) -> torch.Tensor:
        return (torch.rand(shape, device=device) * 8 - 4).to(kind)

    if op == "gemm":
        m, n, k = sizes
        return filled(m, k), filled(k, n)
    return (filled(*sizes), 1) if op == "sum" else (filled(*sizes),)


def runs_of(only: str | None) -> list[tuple[str, str, tuple[int, ...], str]]:
    """Those of one kernel, or all."""
    return [run for run in runs() if only in (None, run[1])]


def launch_all(only: str | None) -> None:
    """What ncu watches: each run once."""
    for op, kernel, sizes, dtype in runs_of(only):
        getattr(smem, op)(*arguments(op, sizes, dtype, "cuda"), kernel=kernel)
    torch.cuda.synchronize()


def profile(save: Path | None, only: str | None) -> list[dict[str, str]]:
    """Run :func:`launch_all` under ncu; a dict of its columns for each launch."""
    metrics = [f"{name}.sum" for _, names in COUNTERS.values() for name in names]
    options = [
        *("--kernel-name-base", "demangled", "-k", "regex:smem::"),
        *("--print-metric-instances", "details"),
    ]
    command = [sys.executable, Path(__file__).resolve(), "--launch"]
    command += ["--only", only] if only else []
    return ncu.profile(command, [*metrics, OPCODES], options, save=save)


def opcodes(text: str) -> dict[str, int]:
    """Executed instructions by opcode, those that touch memory, wait or compute."""
    found = re.findall(r"([A-Z][\w.]*): ([\d,]+)", text)
    counts = {name: ncu.number(count) for name, count in found}
    return {name: counts[name] for name in sorted(counts) if SHOWN_OPCODES.match(name)}


def measured_by_ncu(
    launches: Sequence[Mapping[str, str]], names: Sequence[str], executed: Mapping[str, int]
) -> dict[str, int]:
    """Counters of COUNTERS, and those that are of opcodes, over a call's launches."""
    measured = {
        name: sum(
            ncu.number(row[f"{metric}.sum"]) for metric in COUNTERS[name][1] for row in launches
        )
        for name in names
    }
    measured["barriers"] = sum(n for name, n in executed.items() if name.startswith("BAR"))
    measured["shuffles"] = sum(n for name, n in executed.items() if name.startswith("SHFL"))
    return measured


def compare(launches: list[dict[str, str]], trace: smem.Trace) -> dict[str, Any]:
    """The counters of a call's launches together, ours beside ncu's."""
    executed: Counts[str] = Counts()
    for columns in launches:
        executed.update(opcodes(columns[OPCODES]))
    measured = measured_by_ncu(launches, tuple(COUNTERS), executed)

    # Whether nvcc merged the loads that it could merge: its SASS then has so many fewer.
    merged = counts(trace, "merged")["shared load requests"] == measured["shared load requests"]
    view = "merged" if merged else "written"
    return {
        "loads": view,
        "counters": {
            name: {"trace": count, "ncu": measured[name]}
            for name, count in counts(trace, view).items()
        },
        "opcodes": dict(sorted(executed.items())),
    }


def collect(save: Path | None, only: str | None) -> dict[str, Any]:
    """Everything that the results file holds."""
    rows = []
    profiled = iter(profile(save, only))
    for op, kernel, sizes, dtype in runs_of(only):
        trace = smem.trace(op, *arguments(op, sizes, dtype, "cpu"), kernel=kernel)
        launches = list(itertools.islice(profiled, len(trace.launches)))
        row = {"op": op, "kernel": kernel, "sizes": sizes, "dtype": dtype}
        rows.append(row | {"function": launches[0]["Kernel Name"]} | compare(launches, trace))
    if extra := list(profiled):
        raise SystemExit(f"ncu saw {len(extra)} launches that the trace did not")
    return {**ncu.setting(), "rows": rows}


def merged(results: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
    """What was there before, with the results' rows, each of which says what it was made with."""

    def by_run(rows: list[dict[str, Any]]) -> dict[tuple[Any, ...], dict[str, Any]]:
        return {(r["op"], r["kernel"], tuple(r["sizes"]), r["dtype"]): r for r in rows}

    origin = {"device": results["device"], "versions": results["versions"]}
    again = [row | origin for row in results["rows"]]
    rows = by_run(before["rows"]) | by_run(again)
    return {**before, "rows": [rows[run] for run in runs() if run in rows]}


def show(results: dict[str, Any]) -> bool:
    """Print every counter that differs; return whether all are within 1% or have a reason."""
    right = True
    for row in results["rows"]:
        title = f"{row['op']} {row['kernel']} {row['sizes']} {row['dtype']}"
        differing = {
            name: pair for name, pair in row["counters"].items() if pair["trace"] != pair["ncu"]
        }
        print(f"{title}: {len(row['counters']) - len(differing)} equal", end="")
        for name, pair in differing.items():
            off = difference(pair)
            known = reason(row, name)
            right &= off <= TOLERANCE or known is not None
            print(f"; {name} {pair['trace']} / ncu {pair['ncu']} ({off:.1%})", end="")
            print(" for a known reason" if known else "", end="")
        print()
    return right


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="write the results there, as JSON")
    parser.add_argument("--only", metavar="KERNEL", help="of all kernels")
    parser.add_argument("--save-csv", type=Path, help="keep what ncu printed")
    parser.add_argument("--launch", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.launch:
        launch_all(args.only)
        return 0
    results = collect(args.save_csv, args.only)
    if args.only and args.out and args.out.exists():
        results = merged(results, json.loads(args.out.read_text()))
    if args.out:
        args.out.write_text(json.dumps(results, indent=1) + "\n")
    return int(not show(results))


if __name__ == "__main__":
    sys.exit(main())
