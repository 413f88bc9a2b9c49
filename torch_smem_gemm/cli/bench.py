"""``bench``: time the ops beside torch and other peers; compare, draw and report results."""

from __future__ import annotations

import argparse
import collections
import contextlib
import itertools
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from torch_smem_gemm.bench import results, suite
from torch_smem_gemm.bench.measure import Ceilings, float32_products, measure_ceilings
from torch_smem_gemm.bench.rows import Row
from torch_smem_gemm.bench.suite import Job
from torch_smem_gemm.bench.telemetry import Summary, Telemetry
from torch_smem_gemm.cli import (
    _bench_assume,
    _bench_plots,
    _bench_tables,
    _compare,
    _host,
    _plot,
    _report,
)
from torch_smem_gemm.cli._environment import nvidia_smi, versions
from torch_smem_gemm.cli._files import check_writable, picture_file
from torch_smem_gemm.cli._text import (
    default_device,
    device_argument,
    device_name,
    gpu_argument,
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
        one.add_argument("--plot", type=picture_file, metavar="OUT", help="draw them in this file")
        if quick:
            one.add_argument("--quick", action="store_true", help=quick)
        one.set_defaults(run_what=run_jobs, plan=plan, parser=one, quick=False, assume=None)
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
            help="names of shipped sets, files with a problem a line, or random problems: "
            f"{suite.RANDOM_SET} (default: {' '.join(sets)})",
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
        if op in ("gemm", "linear"):
            one.add_argument(
                "--assume",
                type=gpu_argument,
                metavar="GPU",
                help="measure nothing: print what would run on this GPU, and its model's time",
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
        plan_all,
        quick="no ladders, the marked problems only, torch as the only peer",
    )
    for command in (_host, _compare, _plot, _report):
        command.add_parser(what)


def plan_op(args: argparse.Namespace, device: torch.device) -> list[Job]:
    """The jobs of ``bench gemm`` and its like."""

    def jobs(marked: bool, small: bool) -> list[Job]:
        return [
            job
            for name in args.shapes or suite.SETS[args.op]
            for dtype in args.dtype
            for job in suite.jobs(
                args.op, name, dtype, args.against, device, marked=marked, small=small
            )
        ]

    small = device.type == "cpu" and not args.shapes
    if small:
        _tell_what_is_left_out(jobs(marked=False, small=False))
    return jobs(args.quick, small)


def plan_all(args: argparse.Namespace, device: torch.device) -> list[Job]:
    """The jobs of ``bench all``."""
    if device.type == "cpu":
        dtypes = [(op, name, dtype) for op, name, dtypes in suite.PICTURE for dtype in dtypes]
        _tell_what_is_left_out(
            [
                job
                for op, name, dtype in dtypes
                if dtype != "tf32"
                for job in suite.jobs(op, name, dtype, suite.BASIC[op], device)
            ]
        )
    return suite.picture(device, quick=args.quick)


def _tell_what_is_left_out(jobs: Sequence[Job]) -> None:
    too_large = [job for job in jobs if not suite.fits_a_cpu(job.shape)]
    by_op = collections.Counter(job.op for job in too_large)
    if too_large:
        print(
            f"{len(too_large)} of {len(jobs)} problems are too large for a CPU and left out "
            f"({', '.join(f'{count} of {op}' for op, count in by_op.items())}): "
            "name their sets to run all"
        )


def plan_ladder(args: argparse.Namespace, device: torch.device) -> list[Job]:
    """The jobs of ``bench ladder``."""
    return suite.ladder_jobs(device, args.size, args.dtype)


def run(args: argparse.Namespace) -> int:
    """Run what was asked for; returns its exit status."""
    return args.run_what(args)


def run_jobs(args: argparse.Namespace) -> int:
    """Measure and print; returns 1 if a result of ours was wrong.

    Ctrl-C ends the measuring: the problems finished until then are written and drawn. The file is
    also written after each problem, so that no accident loses what is done.
    """
    if args.assume and (args.json or args.plot):
        args.parser.error(
            "--assume measures nothing: there is nothing to write by --json or --plot"
        )
    if args.plot:
        require_extra("bench", "matplotlib")
    device = args.device or torch.device("cuda" if args.assume else default_device())
    try:
        jobs = args.plan(args, device)
        if args.assume:
            _bench_assume.check(args.assume)
        for path in filter(None, (args.json, args.plot)):
            check_writable(path)
    except (OSError, ValueError) as error:
        args.parser.error(str(error))
    if args.assume:
        _bench_assume.print_plans(jobs, args.assume)
        return 0
    print(f"{device_name(device)}, torch {torch.__version__}")
    start = time.perf_counter()
    rows: list[Row] = []
    known = {"command": args.command_line, "device": device_name(device), "versions": versions()}
    interrupted = False
    with float32_products("ieee"), Telemetry(device) as telemetry:
        ceilings = measure_ceilings(device)
        print(_bench_tables.ceilings_text(ceilings))
        if device.type == "cpu":
            print("Named kernels run here thread by thread: their times say nothing about a GPU's.")
        print()

        def found(
            *,
            interrupted: bool,
            state: dict[str, str] | None = None,
            summary: Summary | None = None,
        ) -> dict[str, Any]:
            return results.results(
                rows,
                **known,
                ceilings=ceilings,
                gpu_state=state,
                telemetry=summary,
                seconds=time.perf_counter() - start,
                interrupted=interrupted,
            )

        goes_to_a_file = args.json and (args.json.is_file() or not args.json.exists())
        try:
            for measured in run_all(jobs, ceilings, device, suite.BUDGET[args.quick]):
                rows += measured
                if goes_to_a_file:
                    with contextlib.suppress(OSError):  # the last time it is told
                        results.save(args.json, found(interrupted=True))
        except KeyboardInterrupt:
            interrupted = True
            print("interrupted: the problem that was being timed is left out")
    _bench_tables.print_summary(rows)
    seconds = time.perf_counter() - start
    print(f"{len(results.problems(rows))} problems in {seconds:.0f} s")
    whole = found(interrupted=interrupted, state=gpu_state(device), summary=telemetry.summary())
    written = _write(args, whole)
    if interrupted:
        return INTERRUPTED
    wrong = any(row.status == "wrong" and row.kind == "kernel" for row in rows)
    return int(wrong or not written)


def _write(args: argparse.Namespace, found: dict[str, Any]) -> bool:
    """Write and draw the results; what cannot be is told, and makes this False."""
    written = True
    for path, write in ((args.json, results.save), (args.plot, _bench_plots.draw)):
        if path is None or (path == args.plot and not found["rows"]):
            continue
        try:
            write(path, found)
            print(f"wrote {path}")
        except OSError as error:
            print(f"{path} is not written: {error}", file=sys.stderr)
            written = False
    return written


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
