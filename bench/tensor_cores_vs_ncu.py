"""Hold what the trace counts of tensor-core kernels against what Nsight Compute counts on the GPU.

    python bench/tensor_cores_vs_ncu.py --out bench/results/tensor-cores-vs-ncu-h200.json

Runs the kernels that use TMA, wgmma and mma.sync once under ``ncu`` and once under ``smem.trace``,
in the same tiles, and writes both counts side by side. trace_vs_ncu.py does the same for the
kernels that the CPU chooses itself. Exits with 1 if any count differs for no known reason.
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import ncu
import torch
from known_differences import TOLERANCE, difference
from trace_vs_ncu import OPCODES

import torch_smem_gemm as smem


class Run(NamedTuple):
    """A product of M x K by K x N; letters of the layout: N for row-major, T for transposed."""

    kernel: str
    sizes: tuple[int, int, int]
    dtype: str
    layout: str


# The tiles that are also built for the CPU. Sizes: whole tiles, ragged ones, and few rows.
TILES = ("wgmma:64x64", "mma:64x64", "mma:16x32")
FP16X3 = ("fp16x3:wgmma", "fp16x3:mma")
SIZES = ((256, 256, 256), (200, 136, 128), (40, 136, 256))
LAYOUTS = ("NN", "NT", "TN")

# Each counter of ours (what of the lines is added up, their action, their memory), and what it is
# by ncu: metrics that are added up, or families of opcodes.
COUNTERS: dict[str, tuple[str, str, str, tuple[str, ...]]] = {
    "wgmma bytes read": (
        *("distinct_bytes", "wgmma", "shared"),
        ("smsp__sass_data_bytes_mem_shared_op_gmma",),
    ),
    "wgmma wavefronts": (
        "wavefronts",
        "wgmma",
        "shared",
        ("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_gmma",),
    ),
    "mma instructions": ("requests", "mma", "", ("HMMA",)),
    "TMA loads": ("requests", "box_to", "shared", ("UTMALDG",)),
    "TMA bytes loaded": (
        *("distinct_bytes", "box_to", "shared"),
        ("l1tex__m_xbar2l1tex_read_bytes_pipe_tma",),
    ),
    "TMA stores": ("requests", "box_from", "shared", ("UTMASTG",)),
    "TMA sectors stored": (
        *("sectors", "box_to", "global"),
        ("l1tex__m_l1tex2xbar_write_sectors_pipe_tma",),
    ),
    "cp.async requests": ("requests", "copy_to", "shared", ("LDGSTS",)),
    "cp.async sectors": (
        *("sectors", "copy_from", "global"),
        ("smsp__sass_l1tex_t_sectors_pipe_lsu_mem_global_op_ldgsts",),
    ),
    "barriers": ("requests", "barrier", "", ("BAR",)),
}
METRICS = sorted({each for *_, names in COUNTERS.values() for each in names if "__" in each})

# Why a counter of a kernel differs, and the most that it may differ by, as a share of ncu's.
REASONS = {
    ("wgmma", "TMA bytes loaded"): (
        "an MN-major operand whose rows do not begin at whole sectors: TMA reads more than the box",
        0.2,
    ),
    ("wgmma", "barriers"): ("the trace counts no named barriers, which are BAR as well", 1.0),
}


def runs() -> Iterator[Run]:
    """Every kernel on every problem."""
    for kernel, sizes, layout in itertools.product(TILES, SIZES, LAYOUTS):
        for dtype in ("float16", "float32"):
            yield Run(kernel, sizes, dtype, layout)
    for kernel, sizes, layout in itertools.product(FP16X3, SIZES, LAYOUTS):
        yield Run(kernel, sizes, "float32", layout)


def arguments(run: Run, device: str) -> dict[str, Any]:
    """What the op is called with."""
    m, n, k = run.sizes
    dtype = getattr(torch, run.dtype)

    def filled(rows: int, cols: int, letter: str) -> torch.Tensor:
        shape = (cols, rows) if letter == "T" else (rows, cols)
        values = (torch.rand(shape, device=device) * 8 - 4).to(dtype)
        return values.mT if letter == "T" else values

    a, b = filled(m, k, run.layout[0]), filled(k, n, run.layout[1])
    kernel = next(each for each in smem.kernels("gemm") if each.name == run.kernel.split(":")[0])
    return {"a": a, "b": b, "kernel": run.kernel, "precision": kernel.float32_precision}


def counted(trace: smem.Trace) -> dict[str, int]:
    """Our counters over a call's launches."""
    return {
        name: sum(
            getattr(line, what)
            for launch in trace.launches
            for line in launch.lines
            if line.action == action
            and (line.memory == memory or (memory == "global" and line.memory != "shared"))
        )
        for name, (what, action, memory, _) in COUNTERS.items()
    }


def opcode_families(text: str) -> Counter[str]:
    """Executed instructions, by the opcode without its modifiers."""
    families: Counter[str] = Counter()
    for opcode, count in re.findall(r"([A-Z]\w*)[\w.]*: ([\d,]+)", text):
        families[opcode] += ncu.number(count)
    return families


def measured(launches: Sequence[Mapping[str, str]]) -> dict[str, int]:
    """The same by ncu."""
    executed: Counter[str] = Counter()
    for columns in launches:
        executed += opcode_families(columns[OPCODES])
        executed.update({name: ncu.number(columns[f"{name}.sum"]) for name in METRICS})
    return {name: sum(executed[each] for each in names) for name, (*_, names) in COUNTERS.items()}


def collect() -> dict[str, Any]:
    """Everything that the results file holds."""
    options = [
        *("--kernel-name-base", "demangled", "-k", "regex:smem::"),
        *("--print-metric-instances", "details"),
    ]
    command = [sys.executable, Path(__file__).resolve(), "--launch"]
    metrics = [*(f"{name}.sum" for name in METRICS), OPCODES]
    profiled = iter(ncu.profile(command, metrics, options))
    rows = []
    for run in runs():
        trace = smem.trace("gemm", **arguments(run, "cpu"))
        launches = list(itertools.islice(profiled, len(trace.launches)))
        ours, theirs = counted(trace), measured(launches)
        rows.append(
            run._asdict()
            | {"counters": {name: {"trace": ours[name], "ncu": theirs[name]} for name in COUNTERS}}
        )
    if extra := list(profiled):
        raise SystemExit(f"ncu saw {len(extra)} launches that the trace did not")
    return {**ncu.setting(), "rows": rows}


def is_explained(kernel: str, name: str, pair: Mapping[str, float]) -> bool:
    """Whether two counts are the same within 1%, or differ for a known reason."""
    _, most = REASONS.get((kernel.split(":")[0], name), ("", TOLERANCE))
    return difference(pair) <= most


def show(rows: Sequence[Mapping[str, Any]]) -> bool:
    """Print every counter that differs; return whether all are explained."""
    for row in rows:
        differing = {n: p for n, p in row["counters"].items() if p["trace"] != p["ncu"]}
        print(row["kernel"], row["sizes"], row["dtype"], row["layout"], end=": ")
        print(f"{len(row['counters']) - len(differing)} equal", end="")
        for name, pair in differing.items():
            print(f"; {name} {pair['trace']} / ncu {pair['ncu']}", end="")
        print()
    return all(
        is_explained(row["kernel"], *item) for row in rows for item in row["counters"].items()
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="write the results there, as JSON")
    parser.add_argument("--launch", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.launch:
        for run in runs():
            smem.gemm(**arguments(run, "cuda"))
        torch.cuda.synchronize()
        return 0
    results = collect()
    if args.out:
        args.out.write_text(json.dumps(results, indent=1) + "\n")
    return int(not show(results["rows"]))


if __name__ == "__main__":
    sys.exit(main())
