"""The command of a program that measures on a GPU and puts tables into a document."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from torch_smem_gemm.bench.report import write_or_check


def command(
    description: str,
    *,
    document: Path,
    results: Path,
    measure: Callable[[], Mapping[str, Any]],
    shown: Callable[[str, Mapping[str, Any]], str],
) -> int:
    """Measure, rewrite or check; returns the exit status.

    Args:
        description: what the program does; its first line is shown.
        document: the file that has the tables.
        results: what they are made from.
        measure: returns what the results file holds.
        shown: the document's text with the tables of such results.
    """
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--out", type=Path, help="measure, and write the results there, as JSON")
    parser.add_argument("--check", action="store_true", help="only say if it is up to date")
    args = parser.parse_args()
    if args.out:
        args.out.write_text(json.dumps(measure(), indent=1) + "\n", encoding="utf-8")
        return 0
    found = json.loads(results.read_text(encoding="utf-8"))
    wanted = shown(document.read_text(encoding="utf-8"), found)
    return write_or_check(document, wanted, "the results", check=args.check)
