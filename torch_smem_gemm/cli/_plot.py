"""``bench plot``: a picture of a results file."""

from __future__ import annotations

import argparse
from pathlib import Path

from torch_smem_gemm.bench import results
from torch_smem_gemm.cli._bench_plots import draw
from torch_smem_gemm.cli._files import check_writable, picture_file
from torch_smem_gemm.cli._strips import SUFFIXES
from torch_smem_gemm.cli._text import require_extra

SUMMARY = "draw a results file: ladders, speed-ups, rooflines and curves"


def add_parser(what: argparse._SubParsersAction) -> None:
    """Declare the command.

    Args:
        what: argparse's action that holds the subcommands of ``bench``.
    """
    suffixes = ", ".join(SUFFIXES)
    parser = what.add_parser("plot", help=SUMMARY, description=f"{SUMMARY.capitalize()}.")
    parser.add_argument("results", type=Path, metavar="RESULTS.json", help="of bench --json")
    parser.add_argument("out", type=picture_file, metavar="OUT", help=f"a name in {suffixes}")
    parser.set_defaults(run_what=run, parser=parser)


def run(args: argparse.Namespace) -> int:
    """Draw; returns 0."""
    require_extra("bench", "matplotlib")
    try:
        found = results.load(args.results)
        check_writable(args.out)
        draw(args.out, found)
    except (OSError, ValueError) as error:
        args.parser.error(str(error))
    print(f"wrote {args.out}")
    return 0
