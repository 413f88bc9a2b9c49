"""Runs programs under Nsight Compute, and reads what it prints.

``ncu`` must be on PATH and allowed to read the performance counters.
"""

from __future__ import annotations

import csv
import io
import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from origin import origin


def profile(
    command: Sequence[str | Path],
    metrics: Sequence[str],
    options: Sequence[str] = (),
    *,
    save: Path | None = None,
    seconds: float | None = None,
) -> list[dict[str, str]]:
    """Run ``command`` under ncu; a dict of its columns for each launch, in order.

    Args:
        command: the program and its arguments.
        metrics: what ncu measures; columns of these names are in every dict.
        options: more of ncu's options.
        save: where to keep what ncu printed.
        seconds: after these it is ended, and TimeoutError is raised.
    """
    watched = [
        *("ncu", "--clock-control", "none", "--csv", "--page", "raw", "--print-units", "base"),
        *(*options, "--metrics", ",".join(metrics), *map(str, command)),
    ]
    # A session of its own, so that the program ends with ncu.
    with subprocess.Popen(
        watched, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as running:
        try:
            printed, _ = running.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(running.pid, signal.SIGKILL)
            raise TimeoutError(f"not ended after {seconds} s: {' '.join(watched)}") from None
    if save:
        save.write_text(printed)
    if running.returncode != 0 or '"ID"' not in printed:
        raise SystemExit(f"ncu ended with {running.returncode}:\n{printed[-2000:]}")
    return parse(printed)


def parse(text: str) -> list[dict[str, str]]:
    """A dict of columns for each launch in what ncu printed."""
    csv.field_size_limit(sys.maxsize)  # a metric with an entry for each instruction is one field
    table = csv.DictReader(io.StringIO(text[text.index('"ID"') :]))
    return list(table)[1:]  # the first row holds the units


def number(text: str) -> int:
    """ncu's "1,024" or "1,024 (FFMA: 1,000; ...)"."""
    return round(float(re.match(r"[\d,.]+", text)[0].replace(",", "")))


def setting() -> dict[str, Any]:
    """What was measured on: the head of a results file."""
    version = subprocess.check_output(["ncu", "--version"], text=True)
    head = origin()
    head["versions"]["ncu"] = re.search(r"Version (\S+)", version)[1]
    return head
