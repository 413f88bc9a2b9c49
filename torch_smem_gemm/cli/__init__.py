"""The command line: ``python -m torch_smem_gemm COMMAND``."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence

from torch_smem_gemm._version import __version__
from torch_smem_gemm.cli import bench, check_invariance, demo, exercise, explain, info, trace

COMMANDS = {
    "info": info,
    "demo": demo,
    "bench": bench,
    "explain": explain,
    "trace": trace,
    "exercise": exercise,
    "check-invariance": check_invariance,
}
INTERRUPTED = bench.INTERRUPTED


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: the arguments after the program's name; None takes them from ``sys.argv``.

    Returns:
        The exit status: 0, or 1 if a check of the command failed, 2 for arguments that do not fit.
        Arguments that cannot be parsed, and extras that are missing, end in ``SystemExit`` with a
        message.
    """
    parser = argparse.ArgumentParser(
        prog="python -m torch_smem_gemm",
        description="GEMM, transpose and sum in CUDA shared memory, as PyTorch ops.",
    )
    parser.add_argument("--version", action="version", version=f"torch_smem_gemm {__version__}")
    subparsers = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, module in COMMANDS.items():
        subparser = subparsers.add_parser(
            name, help=module.SUMMARY, description=module.SUMMARY.capitalize() + "."
        )
        module.add_arguments(subparser)
        subparser.set_defaults(run=module.run)
    argv = sys.argv[1:] if argv is None else argv
    args = parser.parse_args(argv)
    args.command_line = shlex.join(["python", "-m", "torch_smem_gemm", *argv])
    return args.run(args)
