"""``exercise``: CUDA kernels to repair and to speed up, checked on the CPU."""

from __future__ import annotations

import argparse
import shlex
import sys
import textwrap
from pathlib import Path

from torch_smem_gemm.cli._text import output_width
from torch_smem_gemm.cli._trace_options import add_options, natural
from torch_smem_gemm.cli._trace_run import Run, RunError
from torch_smem_gemm.cli._trace_run import run as run_kernel
from torch_smem_gemm.cli._trace_text import expression, fault_text, file_name
from torch_smem_gemm.exercises import EXERCISES, Exercise
from torch_smem_gemm.trace_report import Fault, Trace

# Of one thread, a hundred times those of the skeletons: an endless loop takes seconds to find.
MAX_STEPS = 100_000
SUMMARY = "learn CUDA without a GPU: repair kernels, and save their memory accesses"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("name", nargs="?", choices=EXERCISES, help="the exercise")
    parser.add_argument(
        "file", nargs="?", type=Path, help="your kernel; without it the skeleton is printed"
    )
    parser.add_argument("--list", action="store_true", help="list the exercises")
    parser.add_argument("--solution", action="store_true", help="print a solution")
    parser.add_argument(
        "--seed", type=natural, default=0, metavar="N", help="of random numbers (default: 0)"
    )


def run(args: argparse.Namespace) -> int:
    """Print a list or a source, or check a kernel: 0 if it is done, 1 if not, 2 for bad usage."""
    if args.list:
        width = max(map(len, EXERCISES))
        for exercise in EXERCISES.values():
            print(f"{exercise.name:{width}}  {exercise.task}")
        return 0
    try:
        if args.name is None:
            raise RunError(f"name an exercise: {', '.join(EXERCISES)}")
        if args.file and args.solution:
            raise RunError("--solution prints a solution and takes no file")
        exercise = EXERCISES[args.name]
        if args.file:
            return int(not _is_done(exercise, args.file, args.seed))
        print(exercise.solution if args.solution else exercise.skeleton, end="")
        return 0
    except RunError as error:
        print(f"exercise: error: {error}", file=sys.stderr)
        return error.status


def _is_done(exercise: Exercise, file: Path, seed: int) -> bool:
    """Run a kernel on all problems, up to the first wrong one; say what is to be done, if any."""
    parser = argparse.ArgumentParser()
    add_options(parser)
    launches = [
        f"--kernel {exercise.name} --seed {seed} {exercise.launch(*problem)}"
        for problem in exercise.problems
    ]
    runs: list[Run] = []
    for problem, launch in zip(exercise.problems, launches, strict=True):
        done = run_kernel(file, parser.parse_args(shlex.split(launch)), {}, max_steps=MAX_STEPS)
        if not runs:
            print(f"{file.name}: {exercise.task}\n")
        print(f"{exercise.describe(problem)}: {'right' if done.is_right else 'WRONG'}")
        if not done.is_right:
            print()
            _show_errors(done)
            print("\nNot done: the kernel is wrong at this size; further sizes were not tried.")
            _show_command(file, launch)
            return False
        runs.append(done)
    print()
    if not _reaches_goal(exercise, runs[0].trace):
        _show_command(file, launches[0])
        return False
    print("Done.")
    return True


def _show_errors(done: Run) -> None:
    """Print the faults and the wrong values of a run."""

    def follows(fault: Fault) -> bool:
        # A thread ends where it accesses memory out of bounds: a barrier may lack it afterwards.
        return fault.kind != "out of bounds"

    for fault in sorted(done.trace.faults, key=follows):
        print(fault_text(done.trace, fault))
    for comparison in done.comparisons:
        if comparison.wrong:
            print(comparison)


def _reaches_goal(exercise: Exercise, trace: Trace) -> bool:
    """Print the counts of the first problem beside the goal; return whether they reach it."""
    problem = exercise.problems[0]
    goal = exercise.goal(*problem)
    print(f"The kernel is right at every size. At {exercise.describe(problem)} it takes:")
    is_reached = True
    for what, least, why in (
        ("wavefronts", goal.wavefronts, exercise.wavefronts),
        ("sectors", goal.sectors, exercise.sectors),
    ):
        taken = trace.count(what)
        left = f"{taken - least:,} are left to save" if taken > least else "none is left to save"
        _say(f"{taken:,} {what}; the goal is {least:,}: {left}. {why}")
        if taken > least:
            is_reached = False
            _say(_most(trace, what))
    print()
    if not is_reached:
        print("Not done: the kernel is right, but there is something left to save.")
    return is_reached


def _most(trace: Trace, what: str) -> str:
    """Return a sentence about the access that takes most wavefronts or sectors."""
    lines = [line for launch in trace.launches for line in launch.lines]
    most = max(lines, key=lambda line: getattr(line, what))
    because = f", {most.conflicts:,} of them by bank conflicts" if what == "wavefronts" else ""
    return (
        f"{file_name(trace, most.file)}:{most.line}, {expression(most).rstrip(';')}, takes "
        f"most of them: {getattr(most, what):,} in {most.requests:,} requests{because}."
    )


def _say(sentence: str) -> None:
    print(textwrap.fill(sentence, output_width(), initial_indent="  ", subsequent_indent="    "))


def _show_command(file: Path, launch: str) -> None:
    options = launch.replace(" --arg", " \\\n    --arg", 1)
    print("Every access of the kernel, line by line:")
    print(f"  python -m torch_smem_gemm trace {shlex.quote(str(file))} {options}")
