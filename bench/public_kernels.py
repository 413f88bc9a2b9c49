"""Run the kernels of public repositories, unmodified, on the CPU, and check what they compute.

    python bench/public_kernels.py --sgemm DIR --samples DIR --llmc DIR [--only NAME] [--json FILE]
    PYTHONPATH=. python bench/public_kernels.py            # rewrite docs/public_kernels.md's tables
    PYTHONPATH=. python bench/public_kernels.py --check    # exit with 1 if they are stale

The folders are clones of github.com/siboehm/SGEMM_CUDA, github.com/NVIDIA/cuda-samples and
github.com/karpathy/llm.c, which are not a part of this project. Exits with 1 if a kernel is wrong.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import public_llmc
import public_samples
import public_sgemm
import torch
from public_case import Case, Result, as_dict, run, table

from torch_smem_gemm.bench.report import between, write_or_check

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs" / "public_kernels.md"
RESULTS = ROOT / "bench" / "results" / "public_kernels.json"

REPOSITORIES: dict[str, Callable[[], Iterator[Case]]] = {
    "sgemm": public_sgemm.cases,
    "samples": public_samples.cases,
    "llmc": public_llmc.cases,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Return 1 if a kernel is wrong, or the document is stale."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in REPOSITORIES:
        parser.add_argument(f"--{name}", type=Path, metavar="DIR", help="its folder")
    parser.add_argument("--only", default="", help="run only kernels whose label has this")
    parser.add_argument("--json", type=Path, help="write the results there")
    parser.add_argument("--check", action="store_true", help="only say if the document is stale")
    args = parser.parse_args(argv)
    folders = {name: vars(args)[name] for name in REPOSITORIES if vars(args)[name]}
    if not folders:
        found = json.loads(RESULTS.read_text(encoding="utf-8"))
        wanted = document(DOCUMENT.read_text(encoding="utf-8"), found)
        return write_or_check(DOCUMENT, wanted, "the results", check=args.check)
    results = list(measure(folders, args.only))
    if args.json:
        text = json.dumps([as_dict(result) for result in results], indent=1)
        args.json.write_text(text + "\n", encoding="utf-8")
    print(summary([as_dict(result) for result in results]))
    return int(any(result.outcome == "wrong" for result in results))


def measure(folders: Mapping[str, Path], only: str = "") -> Iterator[Result]:
    """Yield the results of all cases, compiled anew, and print a line for each."""
    with tempfile.TemporaryDirectory() as cache:
        os.environ["SMEM_CACHE_DIR"] = cache
        for name, folder in folders.items():
            torch.manual_seed(0)
            for case in REPOSITORIES[name]():
                if only not in case.label:
                    continue
                result = run(case, name, folder.resolve())
                print(_line(result), flush=True)
                yield result


def _line(result: Result) -> str:
    text = f"{result.outcome:8}{result.kernel}"
    if result.accesses:
        text += (
            f" ({result.accesses} accesses, compiled in {result.compile_seconds:.2f} s and "
            f"{result.cached_seconds:.3f} s, run in {result.seconds:.2f} s)"
        )
    return "\n    ".join([text, *filter(None, [result.problem, *result.faults])])


def summary(results: Sequence[Mapping[str, Any]]) -> str:
    """Return sentences on how many kernels ran, and how fast."""
    outcomes = collections.Counter(values["outcome"] for values in results)
    ran = [Result(**values) for values in results if values["accesses"]]
    outcome = (
        f"Of {len(results)} kernels {outcomes['right']} are right, {outcomes['refused']} are "
        f"refused with an error that says why, {outcomes['differs']} depend on the order of "
        f"threads and compute something else, and {outcomes['wrong']} are wrong."
    )
    if not ran:
        return outcome
    accesses = sum(result.accesses for result in ran)
    cpu = sum(result.cpu_ns_per_access * result.accesses for result in ran)
    compiles = sorted(result.compile_seconds for result in ran)
    cached = max(result.cached_seconds for result in ran)
    return (
        f"{outcome} A compilation takes {compiles[len(compiles) // 2]:.1f} s in the median and at "
        f"most {compiles[-1]:.1f} s, from the cache at most {cached:.3f} s. {accesses / 1e6:.0f} "
        f"million accesses of threads take {cpu / accesses:.0f} ns of processor time each."
    )


def document(text: str, found: Sequence[Mapping[str, Any]]) -> str:
    """Return the document with the tables of such results."""
    for name in REPOSITORIES:
        rows = [values for values in found if values["repository"] == name]
        text = between(text, name, f"\n{table(rows)}\n")
    return between(text, "summary", f"\n{summary(found)}\n")


if __name__ == "__main__":
    sys.exit(main())
