"""``explain``: the memory accesses of a kernel, line by line, and their cost on a GPU."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch_smem_gemm._kernels import OPS, kernels
from torch_smem_gemm._trace_size import MAX_ACCESSES
from torch_smem_gemm.cli import _trace_plots
from torch_smem_gemm.cli._explain_kernel import Explained
from torch_smem_gemm.cli._explain_ladder import Rung, climb, ladder_names, show_ladder
from torch_smem_gemm.cli._explain_problem import Problem, add_problem_arguments, problem_of
from torch_smem_gemm.cli._explain_text import show
from torch_smem_gemm.cli._files import check_writable, picture_file
from torch_smem_gemm.cli._text import gpu_argument, require_extra

SUMMARY = "show what a kernel does to memory, line by line, and what that costs"
ABOUT = "Run a kernel on the CPU and show what it does to memory, line by line:"

LIMIT = MAX_ACCESSES  # of all kernels together; --force lifts it

# Kernels that differ in the padding of their tiles alone: a picture shows both.
PAIRS = {"transpose": [("tiled", "padded")], "gemm": [("tiled32", "tiled32_padded")]}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    what = parser.add_subparsers(required=True, metavar="OP", dest="op")
    for op in OPS:
        one = what.add_parser(op, help=f"the kernels of {op}", description=f"{ABOUT} {op}.")
        names = ladder_names(op)
        which = one.add_mutually_exclusive_group()
        which.add_argument(
            "--kernel",
            metavar="NAME",
            choices=["auto", *_names(op)],
            # Two kernels share all sums, so the selected one is shown by default.
            default="auto" if op == "sum" else names[-1],
            help=f"auto, {', '.join(_names(op, variants=False))} "
            f"(default: {'auto' if op == 'sum' else names[-1]})",
        )
        which.add_argument("--ladder", action="store_true", help="all kernels in one table")
        add_problem_arguments(one, op)
        one.add_argument(
            "--device",
            type=gpu_argument,
            default="H200",
            help="the GPU to judge for, by name; it need not be there (default: H200)",
        )
        one.add_argument("--json", action="store_true", help="print everything as JSON")
        one.add_argument(
            "--plot", type=picture_file, metavar="OUT", help="draw banks, pipelines, ceilings"
        )
        one.add_argument(
            "--html", type=Path, metavar="OUT", help="write a page with the source and pictures"
        )
        one.add_argument("--force", action="store_true", help="trace however long it takes")
        one.set_defaults(refuse=one.error)


def _names(op: str, *, variants: bool = True) -> list[str]:
    """All kernels that the CPU can run, and their variants: "wgmma:64x64"."""
    rows = [row for row in kernels(op) if row.emulated]
    named = [f"{row.name}:{variant}" for row in rows for variant in row.variants if variants]
    return [*(row.name for row in rows), *named]


def run(args: argparse.Namespace) -> int:
    """Trace and print; returns 1 if a kernel has faults, or none can take the problem."""
    problem = problem_of(args.op, args)
    names = ladder_names(args.op) if args.ladder else [args.kernel]
    accesses = len(names) * problem.accesses
    if accesses > LIMIT and not args.force:
        args.refuse(
            f"{problem.title} needs about {accesses:.2g} accesses of threads, the limit is "
            f"{LIMIT:.0e}: choose smaller sizes, or --force to wait for it"
        )
    if args.html and args.ladder:
        args.refuse("--html shows one kernel, name it by --kernel")
    if args.plot:
        require_extra("bench", "matplotlib")
    for path in filter(None, (args.plot, args.html)):
        try:
            check_writable(path)
        except OSError as error:
            args.refuse(str(error))

    rungs = climb(problem, names, args.device)
    explained = [rung.explained for rung in rungs if rung.explained]
    if not explained:
        raise SystemExit("\n".join(rung.refusal for rung in rungs))
    if args.json:
        print(json.dumps(_report(problem.title, rungs, args.ladder), indent=1))
    elif args.ladder:
        show_ladder(rungs, problem.title, args.device)
    else:
        show(explained[0], problem.title)
    if args.plot:
        _draw(args.plot, problem, explained)
    if args.html:
        explained[0].trace.to_html(args.html, device=args.device.name)
    for path in filter(None, (args.plot, args.html)):
        print(f"wrote {path}", file=sys.stderr if args.json else sys.stdout)
    return int(any(one.trace.faults for one in explained))


def _report(title: str, rungs: Sequence[Rung], ladder: bool) -> dict[str, Any]:
    reports = [rung.to_dict() for rung in rungs]
    return {"problem": title, **({"kernels": reports} if ladder else reports[0])}


def _draw(path: Path, problem: Problem, explained: Sequence[Explained]) -> None:
    """Draw all kernels, or the only one beside the one that it forms a pair with."""
    maps_a_kernel = 1
    if len(explained) == 1:
        only = explained[0]
        pair = next((p for p in PAIRS.get(problem.op, []) if only.trace.kernel in p), ())
        partners = climb(problem, [k for k in pair if k != only.trace.kernel], only.device)
        explained = [only, *(rung.explained for rung in partners if rung.explained)]
        if pair:
            explained.sort(key=lambda one: pair.index(one.trace.kernel))
        maps_a_kernel = 2
    _trace_plots.picture(path, explained, maps_a_kernel, problem.title)
