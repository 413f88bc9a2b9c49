"""Hold what the tracer counts of public kernels against what Nsight Compute counts on the GPU.

    python bench/public_vs_ncu.py --sgemm DIR --samples DIR --llmc DIR --trace-only --traces FILE
    python bench/public_vs_ncu.py --sgemm DIR --samples DIR --llmc DIR --traces FILE --out FILE

The cases are those of public_kernels.py, and ``--random N`` problems of random sizes
(public_random.py). The first command traces them on the CPU, on any machine; the second one, on
one with a GPU, launches them by RawKernel under ``ncu``, checks their results, and compares.
The compilers choose instructions of their own, so counts may differ: the report names the lines,
with nvcc's instructions if nvdisasm is on PATH. Exits with 1 if a kernel is wrong on the GPU.
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import contextlib
import json
import multiprocessing
import os
import random
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ncu
import numpy
import public_random
import sass
import torch
import trace_vs_ncu
from known_differences import TOLERANCE, difference
from public_case import Case, difference_of, kernel_of
from public_kernels import REPOSITORIES

from torch_smem_gemm.raw_kernel import nvrtc
from torch_smem_gemm.raw_kernel.source import base_name

ROOT = Path(__file__).resolve().parent.parent
COUNTERS = tuple(name for name in trace_vs_ncu.COUNTERS if name not in ("fma", "add", "multiply"))
ATOMICS = {"global": r"(ATOMG?|REDG?)(\.|$)", "shared": r"ATOMS(\.|$)"}
# Which lines and instructions a counter is of: action, memory, the begin of the opcodes.
PARTS = {
    "global load": (("load",), "global", ("LDG", "LD.")),
    "global store": (("store",), "global", ("STG", "ST.")),
    "copy": (("copy_to", "copy_from"), "", ("LDGSTS",)),
    "shared load": (("load",), "shared", ("LDS",)),
    "shared store": (("store",), "shared", ("STS",)),
    "global atomic": (("atomic",), "global", ("ATOMG", "ATOM.", "RED")),
    "shared atomic": (("atomic",), "shared", ("ATOMS",)),
    "barriers": (("barrier",), "", ("BAR",)),
    "shuffles": (("shuffle",), "", ("SHFL",)),
}


@dataclass(frozen=True)
class Problem:
    """A case, where its file is, and its name in the report."""

    label: str
    folder: Path
    case: Case


def problems(args: argparse.Namespace) -> Iterator[Problem]:
    """Yield what can run on both, always in the same order and with the same data."""
    folders = {name: vars(args)[name] for name in REPOSITORIES if vars(args)[name]}
    for name, folder in folders.items():
        torch.manual_seed(0)
        for case in REPOSITORIES[name]():
            # An assertion that fails would end the GPU's context.
            if not case.refused and "assertion" not in case.faults:
                yield Problem(f"{name}: {case.label}", folder.resolve(), case)
    families = {"exercises": (ROOT, public_random.exercises)}
    if "sgemm" in folders:
        families["sgemm"] = folders["sgemm"].resolve(), public_random.products
    if "samples" in folders:
        families["samples"] = folders["samples"].resolve(), public_random.transposes
    for number in range(args.random):
        torch.manual_seed(args.seed + number)
        sizes = random.Random(args.seed + number)
        for name, (folder, family) in families.items():
            for case in family(sizes):
                shape = " ".join(str(x) for x in case.args if isinstance(x, int))
                label = f"random {args.seed + number}: {name}: {case.label} ({shape})"
                yield Problem(label, folder, case)


# ---------------------------------------------------------------------------- traces, on the CPU


def trace_all(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Trace every problem; what cannot be traced is left out, with a line that says so."""
    rows = []
    for problem in problems(args):
        if args.only not in problem.label:
            continue
        case = problem.case
        kernel = kernel_of(case, problem.folder)
        try:
            for name, value in case.variables.items():
                kernel.variable(name, value.dtype)[:] = value.ravel()
            trace = kernel.trace(case.grid, case.block, case.args, shared_mem=case.shared_mem)
        except (KeyError, RuntimeError, TypeError, ValueError) as error:
            print(f"{problem.label}: {str(error).splitlines()[0]}", flush=True)
            continue
        atomics = {
            f"{memory} atomics": trace.count("requests", actions=["atomic"], memory=memory)
            for memory in ATOMICS
        }
        counted = {
            view: {
                name: count
                for name, count in trace_vs_ncu.counts(trace, view).items()
                if name in (*COUNTERS, "barriers", "shuffles")
            }
            | atomics
            for view in ("written", "merged")
        }
        lines = [
            {
                name: getattr(line, name)
                for name in (
                    *("file", "line", "action", "memory", "bytes_a_lane", "requests", "sectors"),
                    *("wavefronts", "conflicts"),
                )
            }
            for launch in trace.launches
            for line in launch.lines
        ]
        for line in lines:
            line["file"] = Path(line["file"]).name
        rows.append(
            {
                "label": problem.label,
                "function": base_name(case.kernel),
                "counts": counted,
                "lines": lines,
            }
        )
        print(f"{problem.label}: {trace.count('requests')} requests", flush=True)
    return rows


# ------------------------------------------------------------------------- launches, on the GPU


def compile_all(args: argparse.Namespace, labels: set[str]) -> dict[str, Path]:
    """Compile in many processes, into the cache; return the cubins."""
    capability = torch.cuda.get_device_capability()
    jobs = {}
    context = multiprocessing.get_context("spawn")
    workers = len(os.sched_getaffinity(0))
    with concurrent.futures.ProcessPoolExecutor(workers, mp_context=context) as pool:
        for problem in problems(args):
            if problem.label in labels:
                kernel = kernel_of(problem.case, problem.folder)
                job = kernel.code, kernel.name, kernel.path, kernel.options, capability
                jobs[problem.label] = pool.submit(nvrtc.compile_kernel, *job)
        return {label: job.result().file for label, job in jobs.items() if not job.exception()}


def launch_all(args: argparse.Namespace, rows: Sequence[Mapping[str, Any]]) -> None:
    """What ncu watches: launch each problem once and write what it computed wrongly to a file."""
    labels = {row["label"] for row in rows}
    with args.outcomes.open("w", encoding="utf-8") as outcomes:
        for problem in problems(args):
            if problem.label in labels:
                outcome = {"label": problem.label, **launch(problem)}
                outcomes.write(json.dumps(outcome) + "\n")
                outcomes.flush()


def launch(problem: Problem) -> dict[str, Any]:
    """Launch a problem; return whether that was done, and what is wrong."""
    case = problem.case
    kernel = kernel_of(case, problem.folder)
    try:
        kernel.compile("cuda")
        for name, value in case.variables.items():
            variable = kernel.variable(name, value.dtype, device="cuda")
            variable.copy_(torch.from_numpy(value.ravel()))
        args = [_on_gpu(arg) for arg in case.args]
        kernel(
            case.grid,
            case.block,
            args,
            shared_mem=case.shared_mem,
            cooperative="this_grid" in kernel.code,
            device="cuda",
        )
        torch.cuda.synchronize()
    except (KeyError, RuntimeError, TypeError, ValueError) as error:
        return {"launched": False, "problem": str(error)}
    wrong = difference_of(case, args, lambda name, d: kernel.variable(name, d, device="cuda"))
    # A fault that the trace found may show, and need not.
    return {"launched": True, "problem": "" if case.differs or case.faults else wrong}


def _on_gpu(arg: Any) -> Any:
    if isinstance(arg, numpy.ndarray):
        arg = torch.from_numpy(arg)
    return arg.cuda() if isinstance(arg, torch.Tensor) else arg


def profile(
    args: argparse.Namespace, rows: Sequence[Mapping[str, Any]]
) -> Iterator[dict[str, Any]]:
    """Run launch_all under ncu, some rows at a time; yield each row with its columns.

    A launch that does not end under ncu has none, and so have those that failed.
    """
    waiting = [list(rows[i : i + args.slice]) for i in range(0, len(rows), args.slice)]
    while waiting:
        part = waiting.pop(0)
        found, launches = profile_part(args, part)
        if launches is None:
            unknown = (i for i, row in enumerate(part) if row["label"] not in found)
            ended = next(unknown, len(part) - 1)
            print(f"{part[ended]['label']}: does not end under ncu", flush=True)
            waiting[:0] = [some for some in (part[:ended], part[ended + 1 :]) if some]
            yield {**part[ended], "problem": "does not end under ncu", "columns": None}
            continue
        for row in part:
            outcome = found[row["label"]]
            columns = launches.pop(0) if outcome["launched"] else None
            # In the CSV it is "void scan<float, 32>(float *)", whatever the option for names.
            if columns and _bare(columns["Kernel Name"]) != row["function"]:
                raise SystemExit(f"ncu saw {columns['Kernel Name']} where {row['label']} should be")
            yield {**row, "problem": outcome["problem"], "columns": columns}
        if extra := [columns["Kernel Name"] for columns in launches]:
            raise SystemExit(f"ncu saw launches that are of no problem: {extra}")


def profile_part(
    args: argparse.Namespace, rows: Sequence[Mapping[str, Any]]
) -> tuple[dict[str, Any], list[dict[str, str]] | None]:
    """Return the outcomes by label, and ncu's columns; None for these where it did not end."""
    names = "|".join(sorted({re.escape(row["function"]) for row in rows}))
    metrics = {f"{metric}.sum" for name in COUNTERS for metric in trace_vs_ncu.COUNTERS[name][1]}
    options = [
        *("--kernel-name-base", "function", "-k", f"regex:^({names})$"),
        *("--print-metric-instances", "details"),
    ]
    with tempfile.TemporaryDirectory() as folder:
        outcomes, traces = Path(folder) / "outcomes", Path(folder) / "traces"
        traces.write_text(json.dumps([{"label": row["label"]} for row in rows]), encoding="utf-8")
        command: list[str | Path] = [sys.executable, Path(__file__).resolve(), "--launch"]
        command += ["--outcomes", outcomes, "--traces", traces]
        command += ["--random", str(args.random), "--seed", str(args.seed)]
        for name in REPOSITORIES:
            command += [f"--{name}", vars(args)[name]] if vars(args)[name] else []
        wanted = [*sorted(metrics), trace_vs_ncu.OPCODES]
        launches = None
        with contextlib.suppress(TimeoutError):
            launches = ncu.profile(command, wanted, options, seconds=args.seconds)
        lines = outcomes.read_text(encoding="utf-8").splitlines() if outcomes.exists() else []
    return {outcome["label"]: outcome for outcome in map(json.loads, lines)}, launches


# ----------------------------------------------------------------------------------- comparison


def _bare(kernel: str) -> str:
    """Return a kernel's name without its result, namespaces, template arguments and parameters."""
    return re.split(r"[<(]", kernel, maxsplit=1)[0].split()[-1].rpartition("::")[2]


def compare(row: Mapping[str, Any], cubin: Path | None) -> dict[str, Any]:
    """Return both counts of every counter, and the lines of those that differ."""
    result = {"label": row["label"], "problem": row["problem"], "counters": {}, "lines": []}
    columns = row["columns"]
    if not columns:
        return result
    executed = {
        name: ncu.number(count)
        for name, count in re.findall(r"([A-Z][\w.]*): ([\d,]+)", columns[trace_vs_ncu.OPCODES])
    }
    measured = trace_vs_ncu.measured_by_ncu([columns], COUNTERS, executed)
    for memory, opcode in ATOMICS.items():
        measured[f"{memory} atomics"] = sum(
            count for name, count in executed.items() if re.match(opcode, name)
        )
    loads = "shared load requests"
    merged = row["counts"]["merged"][loads] == measured[loads]
    counted = row["counts"]["merged" if merged else "written"]
    result["counters"] = {
        name: {"trace": count, "ncu": measured[name]} for name, count in counted.items()
    }
    differing = [name for name, pair in result["counters"].items() if difference(pair) > TOLERANCE]
    instructions = sass.by_line(cubin) if cubin and differing else []
    parts = {part for name in differing for part in PARTS if name.startswith(part)}
    result["lines"] = [
        text for part in PARTS if part in parts for text in _lines(row, part, instructions)
    ]
    return result


def _lines(
    row: Mapping[str, Any], part: str, instructions: Sequence[tuple[str, int, str, int]]
) -> list[str]:
    """Return texts with the trace's counts, and nvcc's instructions, of the lines of a part."""
    actions, memory, opcodes = PARTS[part]
    texts: dict[tuple[str, int], list[str]] = collections.defaultdict(list)
    for line in row["lines"]:
        space = "shared" if line["memory"] == "shared" else "global"
        if line["action"] in actions and memory in ("", space):
            counts = ", ".join(
                f"{line[name]} {name}"
                for name in ("requests", "sectors", "wavefronts")
                if line[name]
            )
            size = f"{line['bytes_a_lane']} bytes, " if line["bytes_a_lane"] else ""
            texts[line["file"], line["line"]].append(f"traced {size}{counts}")
    for file, number, opcode, count in instructions:
        if f"{opcode}.".startswith(opcodes):
            texts[Path(file).name, number].append(f"{count} {opcode}")
    return [
        f"{part}: {file}:{line}: {'; '.join(found)}"
        for (file, line), found in sorted(texts.items())
    ]


def show(results: Sequence[Mapping[str, Any]]) -> bool:
    """Print what is equal and what differs; return whether all computed what they should."""
    equal: collections.Counter[str] = collections.Counter()
    total: collections.Counter[str] = collections.Counter()
    for row in results:
        differing = []
        for name, pair in row["counters"].items():
            if not pair["trace"] and not pair["ncu"]:
                continue
            total[name] += 1
            equal[name] += pair["trace"] == pair["ncu"]
            if pair["trace"] != pair["ncu"]:
                off = difference(pair)
                differing.append(f"{name} {pair['trace']} / ncu {pair['ncu']} ({off:.1%})")
        print(
            "\n    ".join([f"{row['label']}: {len(differing)} differ", *differing, *row["lines"]])
        )
        if row["problem"]:
            print(f"    WRONG on the GPU: {row['problem'].splitlines()[0]}")
    print(f"\n{'counter':<26}{'equal':>7}{'different':>11}")
    for name, count in total.items():
        print(f"{name:<26}{equal[name]:>7}{count - equal[name]:>11}")
    exact = sum(
        all(pair["trace"] == pair["ncu"] for pair in row["counters"].values())
        for row in results
        if row["counters"]
    )
    launched = sum(bool(row["counters"]) for row in results)
    print(f"{exact} of {launched} launches agree in every counter")
    return not any(row["problem"] for row in results)


def main(argv: Sequence[str] | None = None) -> int:
    """Return 1 if a kernel computes something wrong on the GPU."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in REPOSITORIES:
        parser.add_argument(f"--{name}", type=Path, metavar="DIR", help="its folder")
    parser.add_argument("--random", type=int, default=4, metavar="N", help="rounds of random sizes")
    parser.add_argument("--seed", type=int, default=0, help="of the first round")
    parser.add_argument("--only", default="", help="only what has this in its label")
    parser.add_argument("--traces", type=Path, required=True, help="the traces' file")
    parser.add_argument("--trace-only", action="store_true", help="write it, on the CPU")
    parser.add_argument("--out", type=Path, help="write the results there, as JSON")
    parser.add_argument("--slice", type=int, default=30, metavar="N", help="launches under one ncu")
    parser.add_argument("--seconds", type=float, default=120, help="the most that one ncu may take")
    parser.add_argument("--launch", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--outcomes", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.trace_only:
        args.traces.write_text(json.dumps(trace_all(args)) + "\n", encoding="utf-8")
        return 0
    rows = json.loads(args.traces.read_text(encoding="utf-8"))
    rows = [row for row in rows if args.only in row["label"]]
    if args.launch:
        launch_all(args, rows)
        return 0
    cubins = compile_all(args, {row["label"] for row in rows})
    head, results = ncu.setting(), []
    for row in profile(args, rows):
        results.append(compare(row, cubins.get(row["label"])))
        print(f"{len(results)} of {len(rows)}: {row['label']}", flush=True)
        if args.out:  # now, since all of them take long
            text = json.dumps({**head, "rows": results}, indent=1)
            args.out.write_text(text + "\n", encoding="utf-8")
    return int(not show(results))


if __name__ == "__main__":
    sys.exit(main())
