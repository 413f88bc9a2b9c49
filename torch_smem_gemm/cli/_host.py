"""``bench host``: the host's time for a call, and import time, as ratios to torch's."""

from __future__ import annotations

import argparse
import dataclasses
import json
from pathlib import Path
from typing import Any

import torch

from torch_smem_gemm.bench.host import (
    IMPORTS,
    ROUNDS,
    HostTime,
    ImportTime,
    host_times,
    import_time,
)
from torch_smem_gemm.bench.results import rounded
from torch_smem_gemm.cli._environment import versions
from torch_smem_gemm.cli._text import default_device, device_argument, device_name, table

SUMMARY = "time the host's part of a call, and the import, as ratios to torch's"


def add_parser(what: Any) -> None:
    """Declare the command.

    Args:
        what: argparse's action that holds the subcommands of ``bench``.
    """
    parser = what.add_parser(
        "host",
        help=SUMMARY,
        description=f"{SUMMARY.capitalize()}. A call's ratio is the median of {ROUNDS} rounds that "
        f"time both in turn; the import's, of {IMPORTS} fresh processes that import both.",
    )
    parser.add_argument("--device", type=device_argument, help="default: cuda where there is one")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the figures to this file")
    parser.set_defaults(run_what=run)


def run(args: argparse.Namespace) -> int:
    """Measure and print; returns 0, whatever the figures are."""
    device = args.device or torch.device(default_device())
    print(f"{device_name(device)}, torch {torch.__version__}\n")
    imported = import_time()
    print_import(imported)
    calls = list(host_times(device))
    print_calls(calls)
    if args.json:
        found = {
            "command": args.command_line,
            "device": device_name(device),
            "versions": versions(),
            "import": dataclasses.asdict(imported),
            "calls": [dataclasses.asdict(call) for call in calls],
        }
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps(rounded(found), indent=1) + "\n", encoding="utf-8")
        print(f"wrote {args.json}")
    return 0


def print_import(imported: ImportTime) -> None:
    """Print one line."""
    print(
        f"import torch_smem_gemm: {imported.ms:.0f} ms after torch's {imported.torch_ms:.0f} ms, "
        f"{imported.ratio.median:.3f} of it ({imported.ratio.p20:.3f} - {imported.ratio.p80:.3f})\n"
    )


def print_calls(calls: list[HostTime]) -> None:
    """Print a line for each op and mode."""
    lines = [
        [
            call.op,
            call.mode,
            f"{call.us:.2f}",
            f"{call.torch_us:.2f}",
            f"{call.ratio.median:.2f}",
            f"{call.ratio.p20:.2f} - {call.ratio.p80:.2f}",
        ]
        for call in calls
    ]
    heads = ["op", "mode", ">us", ">torch us", ">ratio", ">p20 - p80"]
    table("Host time of a call, and its ratio to torch's", heads, lines)
