"""``bench``: the kernels on this machine beside torch's own, and two measurements compared."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import datetime
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from torch_smem_gemm.bench.measure import METHOD, Ceilings, measure_ceilings
from torch_smem_gemm.bench.telemetry import Summary, Telemetry
from torch_smem_gemm.cli import _compare, _plots
from torch_smem_gemm.cli._environment import nvidia_smi, versions
from torch_smem_gemm.cli._ladder import (
    Problem,
    Row,
    gemm_problem,
    run_ladder,
    sum_problem,
    transpose_problem,
)
from torch_smem_gemm.cli._text import (
    default_device,
    device_argument,
    device_name,
    positive,
    rate_text,
    require_extra,
    table,
)

SUMMARY = "time the kernels beside torch's, and compare measurements"
LADDER_SUMMARY = "time the kernels of the ladders beside torch's"

INTERRUPTED = 130  # the exit status that shells give a command that Ctrl-C ended

DTYPES = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16)
}
GPU_SIZE = 4096
CPU_SIZE = 128  # the kernels run there thread by thread


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    what = parser.add_subparsers(required=True, metavar="WHAT")
    ladder = what.add_parser(
        "ladder", help=LADDER_SUMMARY, description=LADDER_SUMMARY.capitalize() + "."
    )
    ladder.add_argument(
        "--size",
        type=positive,
        help=f"M = N = K of the GEMM (default: {GPU_SIZE} on a GPU, {CPU_SIZE} on a CPU)",
    )
    ladder.add_argument("--dtype", choices=DTYPES, default="float32")
    ladder.add_argument("--device", type=device_argument, help="default: cuda where there is one")
    ladder.add_argument("--json", type=Path, metavar="OUT", help="write the results to this file")
    ladder.add_argument("--plot", type=Path, metavar="OUT", help="draw the results in this file")
    ladder.set_defaults(run_what=run_ladders)
    _compare.add_parser(what)


def run(args: argparse.Namespace) -> int:
    """Run what was asked for; returns its exit status."""
    return args.run_what(args)


def run_ladders(args: argparse.Namespace) -> int:
    """Measure and print; returns 1 if a kernel's result was wrong.

    Ctrl-C ends the measuring: the problems finished until then are written and drawn.
    """
    if args.plot:
        require_extra("bench", "matplotlib")
    for path in filter(None, (args.json, args.plot)):
        path.parent.mkdir(parents=True, exist_ok=True)
    device = args.device or torch.device(default_device())
    print(f"{device_name(device)}, torch {torch.__version__}")
    ceilings = measure_ceilings(device)
    print(ceilings_text(ceilings))
    if device.type == "cpu":
        print("The GPU's kernels run here thread by thread: their times say nothing about a GPU's.")

    rows: list[Row] = []
    interrupted = False
    size = args.size or default_size(device)
    with no_tf32(), Telemetry(device) as telemetry:
        try:
            for ladder in ladders(device, size, DTYPES[args.dtype], ceilings):
                print_rows(ladder)
                rows += ladder
        except KeyboardInterrupt:
            interrupted = True
            print("interrupted: the problem that was being timed is left out")
    if args.json:
        report = results(device, ceilings, rows, telemetry.summary(), interrupted=interrupted)
        args.json.write_text(json.dumps(report, indent=1) + "\n")
        print(f"wrote {args.json}")
    if args.plot and rows:
        _plots.ladders(args.plot, rows, device_name(device))
        print(f"wrote {args.plot}")
    if interrupted:
        return INTERRUPTED
    return int(any(row.status == "wrong" for row in rows))


def default_size(device: torch.device) -> int:
    """M = N = K of a GEMM whose whole ladder takes seconds."""
    return GPU_SIZE if device.type == "cuda" else CPU_SIZE


def ladders(
    device: torch.device, size: int, dtype: torch.dtype, ceilings: Ceilings
) -> Iterator[list[Row]]:
    """The rows of one problem after the other, each measured when it is asked for."""
    yield from gemm_ladders(device, size, dtype, ceilings)
    on_gpu = device.type == "cuda"
    side = 8192 if on_gpu else size
    yield run_ladder(transpose_problem(side, side, dtype, device, ceilings))
    numbers, side = (1 << 28, 16384) if on_gpu else (size * size, size)
    yield run_ladder(sum_problem((numbers,), None, dtype, device, ceilings))
    yield run_ladder(sum_problem((side, side), 1, dtype, device, ceilings))


def gemm_ladders(
    device: torch.device, size: int, dtype: torch.dtype, ceilings: Ceilings
) -> Iterator[list[Row]]:
    """The cube of ``size``, and, for kernels that refused its K, a K that they take."""
    rows = run_ladder(gemm_problem(size, size, size, dtype, device, ceilings))
    yield rows
    refused = [row.name for row in rows if row.status == "n/a"]
    for k in (1024, 512, 256):
        if not refused or k >= size:
            continue
        problem: Problem = gemm_problem(size, size, k, dtype, device, ceilings)
        rows = run_ladder(problem, only=[*refused, "tiled16"])
        if all(row.status != "n/a" for row in rows):
            yield rows
            return


@contextlib.contextmanager
def no_tf32() -> Iterator[None]:
    """Float32 products in float32, whatever the process's setting."""
    matmul = torch.backends.cuda.matmul
    before = matmul.fp32_precision
    matmul.fp32_precision = "ieee"
    try:
        yield
    finally:
        matmul.fp32_precision = before


def print_rows(rows: list[Row]) -> None:
    """Print the ladder of one problem as a table."""
    shares = list(next((row.shares for row in rows if row.shares), {}))
    unit = rows[0].unit
    columns = ["kernel", ">ms", ">p20 - p80", f">{unit}", *(f">% of {name}" for name in shares)]
    table(
        rows[0].problem,
        [*columns, f">x {rows[0].name}", "what it is"],
        [[row.name, *_figures(row, shares), _what(row)] for row in rows],
    )


def _figures(row: Row, shares: list[str]) -> list[str]:
    if row.rate is None:
        empty = [""] * (len(shares) + 3)
        return ["WRONG" if row.status == "wrong" else row.status, *empty]
    return [
        f"{row.ms:.4g}",
        f"{row.ms_p20:.4g} - {row.ms_p80:.4g}",
        rate_text(row.rate),
        *(f"{row.shares[name]:.1%}" for name in shares),
        f"{row.speedup:.2f}" if row.speedup else "",
    ]


def _what(row: Row) -> str:
    return row.summary if row.status == "ok" else row.detail


def ceilings_text(ceilings: Ceilings) -> str:
    """The ceilings in words, and where each figure comes from."""
    parts = [
        f"copy {ceilings.copy_gbs:,.0f} GB/s (y.copy_(x), read + written)",
        f"read {ceilings.read_gbs:,.0f} GB/s (torch.sum)",
    ]
    if ceilings.measured_ffma_gflops is not None:
        parts.append(f"FMA {ceilings.measured_ffma_gflops:,.0f} GFLOP/s (a kernel of FMAs)")
    if ceilings.ffma_gflops is not None:
        parts.append(f"FMA {ceilings.ffma_gflops:,.0f} GFLOP/s (nominal: cores x 2 x clock)")
    if ceilings.cublas_bf16_gflops is not None:
        parts.append(f"bfloat16 {ceilings.cublas_bf16_gflops:,.0f} GFLOP/s (cuBLAS)")
    return "Ceilings: " + "; ".join(parts)


def results(
    device: torch.device,
    ceilings: Ceilings,
    rows: list[Row],
    telemetry: Summary | None,
    *,
    interrupted: bool,
) -> dict[str, Any]:
    """Everything that a reader of the figures needs, ready for JSON."""
    state = None
    if device.type == "cuda":
        fields = ("clocks.sm", "clocks.max.sm", "power.draw", "power.limit", "temperature.gpu")
        answer = nvidia_smi(*fields, device=device)
        state = answer and dict(zip(fields, answer.split(", "), strict=True))
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "device": device_name(device),
        "versions": versions(),
        "method": METHOD,
        "ceilings": dataclasses.asdict(ceilings),
        "gpu_state_after": state,
        "telemetry": telemetry and dataclasses.asdict(telemetry),
        "interrupted": interrupted,
        "rows": [dataclasses.asdict(row) for row in rows],
    }
