"""``bench``: the ops on this machine beside torch and other peers, and what to do with results."""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import torch

from torch_smem_gemm.bench import results, suite
from torch_smem_gemm.bench.measure import Ceilings, float32_products, measure_ceilings
from torch_smem_gemm.bench.rows import Row
from torch_smem_gemm.bench.suite import Job
from torch_smem_gemm.bench.telemetry import Telemetry
from torch_smem_gemm.cli import _bench_plots, _bench_tables, _compare, _host, _plot, _report
from torch_smem_gemm.cli._environment import nvidia_smi, versions
from torch_smem_gemm.cli._text import (
    default_device,
    device_argument,
    device_name,
    positive,
    progress,
    require_extra,
)

SUMMARY = "time the ops beside torch and other peers; compare, draw and report results"
INTERRUPTED = 130  # the exit status that shells give a command that Ctrl-C ended

# Ahead of measuring, so that a wrong argument ends the command at once.
Plan = Callable[[argparse.Namespace, torch.device], list[Job]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    what = parser.add_subparsers(required=True, metavar="WHAT")

    def add(name: str, summary: str, plan: Plan, quick: str = "") -> argparse.ArgumentParser:
        one = what.add_parser(name, help=summary, description=f"{summary.capitalize()}.")
        one.add_argument("--device", type=device_argument, help="default: cuda where there is one")
        one.add_argument("--json", type=Path, metavar="OUT", help="write the results to this file")
        one.add_argument(
            "--plot", type=_plot.picture_file, metavar="OUT", help="draw them in this file"
        )
        if quick:
            one.add_argument("--quick", action="store_true", help=quick)
        one.set_defaults(run_what=run_jobs, plan=plan, parser=one, quick=False)
        return one

    for op, sets in suite.SETS.items():
        one = add(
            op,
            f"time smem.{op} on sets of problems",
            plan_op,
            quick="the marked problems of each set only, and less time for each",
        )
        one.add_argument(
            "--shapes",
            nargs="+",
            metavar="SET",
            help="names of shipped sets, files with a problem a line, random, or random:SEED "
            f"(default: {' '.join(sets)})",
        )
        one.add_argument("--dtype", nargs="+", choices=suite.DTYPES[op], default=["float32"])
        one.add_argument(
            "--against",
            type=lambda text: text.split(","),
            default=suite.BASIC[op],
            metavar="PEERS",
            help="torch, and on a GPU also "
            f"{', '.join(suite.gpu_peers(op))} (default: {','.join(suite.BASIC[op])})",
        )
        one.set_defaults(op=op)
    ladder = add("ladder", "time every kernel of the ladders", plan_ladder)
    ladder.add_argument(
        "--size",
        type=positive,
        help="M = N = K of the GEMM (default: 4096 on a GPU, 128 on a CPU)",
    )
    ladder.add_argument("--dtype", choices=suite.FLOATS, default="float32")
    add(
        "all",
        "the whole picture: the ladders, and every set beside torch and some compiled peers",
        lambda args, device: suite.picture(device, quick=args.quick),
        quick="no ladders, the marked problems only, torch as the only peer",
    )
    for command in (_host, _compare, _plot, _report):
        command.add_parser(what)


def plan_op(args: argparse.Namespace, device: torch.device) -> list[Job]:
    """The jobs of ``bench gemm`` and its like."""
    found = [
        job
        for name in args.shapes or suite.SETS[args.op]
        for dtype in args.dtype
        for job in suite.jobs(args.op, name, dtype, args.against, device, marked=args.quick)
    ]
    if device.type == "cuda" or args.shapes:
        return found
    fitting = [job for job in found if suite.fits_a_cpu(job)]
    print(
        f"{len(found) - len(fitting)} problems are too large for a CPU: name their sets to run all"
    )
    return fitting


def plan_ladder(args: argparse.Namespace, device: torch.device) -> list[Job]:
    """The jobs of ``bench ladder``."""
    return suite.ladder_jobs(device, args.size, args.dtype)


def run(args: argparse.Namespace) -> int:
    """Run what was asked for; returns its exit status."""
    return args.run_what(args)


def run_jobs(args: argparse.Namespace) -> int:
    """Measure and print; returns 1 if a result of ours was wrong.

    Ctrl-C ends the measuring: the problems finished until then are written and drawn.
    """
    if args.plot:
        require_extra("bench", "matplotlib")
    device = args.device or torch.device(default_device())
    try:
        jobs = args.plan(args, device)
    except ValueError as error:
        args.parser.error(str(error))
    for path in filter(None, (args.json, args.plot)):
        path.parent.mkdir(parents=True, exist_ok=True)
    print(f"{device_name(device)}, torch {torch.__version__}")
    start = time.perf_counter()
    rows: list[Row] = []
    interrupted = False
    with float32_products("ieee"), Telemetry(device) as telemetry:
        ceilings = measure_ceilings(device)
        print(_bench_tables.ceilings_text(ceilings))
        if device.type == "cpu":
            print("Named kernels run here thread by thread: their times say nothing about a GPU's.")
        print()
        try:
            for measured in run_all(jobs, ceilings, device, suite.BUDGET[args.quick]):
                rows += measured
        except KeyboardInterrupt:
            interrupted = True
            print("interrupted: the problem that was being timed is left out")
    _bench_tables.print_summary(rows)
    seconds = time.perf_counter() - start
    print(f"{len(results.problems(rows))} problems in {seconds:.0f} s")
    found = results.results(
        rows,
        command=args.command_line,
        device=device_name(device),
        versions=versions(),
        ceilings=ceilings,
        gpu_state=gpu_state(device),
        telemetry=telemetry.summary(),
        seconds=seconds,
        interrupted=interrupted,
    )
    if args.json:
        results.save(args.json, found)
        print(f"wrote {args.json}")
    if args.plot and rows:
        _bench_plots.draw(args.plot, found)
        print(f"wrote {args.plot}")
    if interrupted:
        return INTERRUPTED
    return int(any(row.status == "wrong" and row.kind == "kernel" for row in rows))


def run_all(
    jobs: Sequence[Job], ceilings: Ceilings, device: torch.device, budget: float | None
) -> Iterator[list[Row]]:
    """The rows of one job after the other, each group printed when it is complete."""
    with progress(sum(job.weight() for job in jobs)) as advance:
        for _, group in itertools.groupby(jobs, lambda job: (job.op, job.set, job.arithmetic)):
            rows: list[Row] = []
            try:
                for job in group:
                    for found in suite.run(job, ceilings, device, budget=budget):
                        rows += found
                        yield found
                    advance(job.weight(), str(job.op))
            finally:
                if rows:
                    _bench_tables.print_group(rows)


def gpu_state(device: torch.device) -> dict[str, str] | None:
    """Clocks, power and temperature right now; None on a CPU or without nvidia-smi."""
    if device.type != "cuda":
        return None
    fields = ("clocks.sm", "clocks.max.sm", "power.draw", "power.limit", "temperature.gpu")
    answer = nvidia_smi(*fields, device=device)
    return dict(zip(fields, answer.split(", "), strict=True)) if answer else None
