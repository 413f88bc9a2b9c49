"""``trace``: any CUDA kernel, run on the CPU: its faults, its memory accesses, their cost."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from torch_smem_gemm.cli._trace_options import add_options
from torch_smem_gemm.cli._trace_run import RunError
from torch_smem_gemm.cli._trace_run import run as run_kernel

SUMMARY = "run a CUDA kernel of yours on the CPU, find its faults and count its memory accesses"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("file", type=Path, help="the source, such as my.cu")
    add_options(parser)


def run(args: argparse.Namespace) -> int:
    """Trace and print; returns 1 for faults, failed checks and kernels that do not compile."""
    try:
        done = run_kernel(args.file, args, {})
    except RunError as error:
        print(f"trace: error: {error}", file=sys.stderr)
        return error.status
    done.show()
    for path in filter(None, (args.html, args.json)):
        print(f"wrote {path}")
    return int(not done.is_right)
