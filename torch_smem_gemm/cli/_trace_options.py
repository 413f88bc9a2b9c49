"""The options of ``trace`` and of the magic ``%%smem_trace``."""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from torch_smem_gemm._trace_size import MAX_ACCESSES
from torch_smem_gemm.cli._text import gpu_argument, positive
from torch_smem_gemm.cli._trace_arguments import parse_argument
from torch_smem_gemm.cli._trace_check import Check
from torch_smem_gemm.cli._trace_expression import ExpressionError

_Parsed = TypeVar("_Parsed")


def add_options(parser: argparse.ArgumentParser, *, variables: bool = False) -> None:
    """Declare the options.

    Args:
        parser: the command's or the magic's.
        variables: whether ``--arg`` may name a variable.
    """
    parse = functools.partial(parse_argument, variables=variables)
    add = parser.add_argument
    add(
        "--kernel",
        metavar="NAME",
        help="its name, with template arguments 'transpose<float, 32>' (default: the only kernel)",
    )
    add("--grid", type=_sizes, required=True, metavar="X[,Y[,Z]]", help="blocks")
    add("--block", type=_sizes, required=True, metavar="X[,Y[,Z]]", help="threads of a block")
    add(
        "--arg",
        type=_parsed(parse),
        action="append",
        default=[],
        metavar="[NAME=]VALUE",
        help="the kernel's arguments in order: 'randn(256, 256)', 'empty(64, dtype=float16)', 256; "
        "also rand, zeros, ones, full, arange, randint, eye, tensor([...]). A tensor has the "
        "parameter's dtype unless it says another. A number that begins with a minus: --arg=-1e-3",
    )
    add(
        "--check",
        type=_parsed(Check),
        action="append",
        default=[],
        metavar="COMPARISON",
        help="what should hold after the run: 'out == a.T', 'out == softmax(a, 1) and n < 9', "
        "'a == 2 * a.before'",
    )
    add("--shared-mem", type=natural, default=0, metavar="BYTES", help="dynamic shared memory")
    add("--blocks", type=_blocks, metavar="0,5-7", help="run these blocks only")
    add("-D", action="append", default=[], dest="macros", metavar="NAME=VALUE", help="a macro")
    add("-I", action="append", default=[], dest="folders", metavar="DIR", help="for #include")
    add("--seed", type=natural, default=0, metavar="N", help="of random numbers (default: 0)")
    add(
        "--max-accesses",
        type=positive,
        default=MAX_ACCESSES,
        metavar="N",
        help=f"refuse a grid that makes more accesses (default: {MAX_ACCESSES:,})",
    )
    add("--device", type=gpu_argument, default="H200", help="the GPU to judge for (default: H200)")
    add("--html", type=Path, metavar="FILE", help="write a page with the source and pictures")
    add("--json", type=Path, metavar="FILE", help="write everything as JSON")


def _parsed(parse: Callable[[str], _Parsed]) -> Callable[[str], _Parsed]:
    """Return a parser of expressions as argparse wants it."""

    def parse_option(text: str) -> _Parsed:
        try:
            return parse(text)
        except ExpressionError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return parse_option


def _sizes(text: str) -> tuple[int, ...]:
    try:
        sizes = tuple(int(part) for part in text.split(","))
    except ValueError:
        sizes = ()
    if not 1 <= len(sizes) <= 3 or min(sizes) < 1:
        raise argparse.ArgumentTypeError(f"expected one to three sizes, such as 8,8; got {text!r}")
    return sizes


def natural(text: str) -> int:
    """Parse a number that is 0 or more."""
    try:
        number = int(text)
    except ValueError:
        number = -1
    if not 0 <= number < 2**63:
        raise argparse.ArgumentTypeError(f"expected 0 or more, got {text!r}")
    return number


def _blocks(text: str) -> list[int]:
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        try:
            numbers = range(int(first), int(last or first) + 1)
        except ValueError:
            numbers = range(0)
        if not 0 < len(numbers) <= 2**20:
            raise argparse.ArgumentTypeError(f"expected numbers of blocks: 0,5-7; got {text!r}")
        found.update(numbers)
    return sorted(found)
