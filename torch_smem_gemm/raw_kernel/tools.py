"""Runs g++ and binutils, which speak English whatever the user's language is."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path


def run(
    command: Sequence[str], folder: Path | None = None, *, given: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder and return its status and what it said.

    Args:
        command: the program and its arguments.
        folder: where it runs; None is where Python does.
        given: its standard input.
    """
    return subprocess.run(
        command,
        input=given,
        capture_output=True,
        cwd=folder,
        env=os.environ | {"LC_ALL": "C.UTF-8"},
        encoding="utf-8",
        errors="replace",
    )


def output(command: Sequence[str], *, given: str | None = None) -> str:
    """Run a command that must succeed and return its output."""
    done = run(command, given=given)
    done.check_returncode()
    return done.stdout
