"""Tables and messages for a terminal: drawn by rich where it is installed, else plain text."""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence

import torch

from torch_smem_gemm._kernels import build_info
from torch_smem_gemm.analysis import Device, device

# The width for a file or a pipe, enough for every table here; rich would assume 80 columns.
PIPE_WIDTH = 160


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table. A column whose head begins with ``>`` is set flush right.

    Args:
        title: the line above the table.
        columns: the heads; no line of heads is drawn if all are empty.
        rows: the cells, as many in each row as there are columns.
    """
    if importlib.util.find_spec("rich") is None:
        print(plain_table(title, columns, rows), end="\n\n")
        return

    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    drawn = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        show_header=any(columns),
    )
    for head in columns:
        drawn.add_column(head.removeprefix(">"), justify="right" if head[:1] == ">" else "left")
    for row in rows:
        drawn.add_row(*map(Text, row))
    # Text in notebooks as well: a magic captures what is printed.
    Console(width=output_width(), force_jupyter=False).print(drawn)
    print()


def output_width() -> int:
    """Characters in a line of output: COLUMNS where it is set, the terminal's, or a pipe's."""
    return shutil.get_terminal_size((PIPE_WIDTH, 0)).columns


def plain_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return the same table as text, columns two spaces apart."""
    heads = [head.removeprefix(">") for head in columns]
    right = [head.startswith(">") for head in columns]
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    lines = [heads, ["-" * width for width in widths], *rows] if any(heads) else rows
    aligned = (
        [
            cell.rjust(width) if flush_right else cell.ljust(width)
            for cell, width, flush_right in zip(line, widths, right, strict=True)
        ]
        for line in lines
    )
    return "\n".join([title, *("  ".join(line).rstrip() for line in aligned)])


@contextlib.contextmanager
def progress(total: float) -> Iterator[Callable[[float, str], None]]:
    """A bar with the time left, on the error stream; nothing where that is no terminal or no rich.

    Args:
        total: of the work, in any unit.

    Yields:
        a function of the work done since it was called last, and what is being done.
    """
    if importlib.util.find_spec("rich") is None or not sys.stderr.isatty():
        yield lambda work, doing: None
        return

    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn())
    left = TimeRemainingColumn()
    # Its prints go above the bar, so that the tables and the bar do not mix.
    with Progress(*columns, left, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total)
        yield lambda work, doing: bar.update(task, advance=work, description=doing)


def require_extra(extra: str, *modules: str) -> None:
    """End the command with one line if one of ``modules`` is not installed."""
    missing = [module for module in modules if importlib.util.find_spec(module) is None]
    if missing:
        raise SystemExit(
            f"this command needs {', '.join(missing)}: pip install 'torch-smem-gemm[{extra}]'"
        )


def gpu_argument(text: str) -> Device:
    """Parse ``--device``, the name of a GPU to judge for."""
    try:
        return device(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def device_argument(text: str) -> torch.device:
    """Parse ``--device``."""
    try:
        device = torch.device(text)
    except RuntimeError as error:
        raise argparse.ArgumentTypeError(str(error).splitlines()[0]) from None
    if device.type not in ("cpu", "cuda"):
        raise argparse.ArgumentTypeError(f"{device} is not served: cpu or cuda")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise argparse.ArgumentTypeError(f"torch sees no {device}")
    return device


def positive(text: str) -> int:
    """Parse a number that is 1 or more."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is less than 1")
    return number


def default_device() -> str:
    """``"cuda"`` where torch sees a GPU and the binary has GPU code, else ``"cpu"``."""
    return "cuda" if torch.cuda.is_available() and build_info()["cuda"] else "cpu"


def rate_text(rate: float) -> str:
    """``rate`` in three digits or to the unit."""
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"


def device_name(device: torch.device) -> str:
    """Return the display name of ``device``."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"CPU, {os.cpu_count()} cores"
