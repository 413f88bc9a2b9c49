"""Runs g++, which speaks English whatever the user's language is."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path


def run(command: Sequence[str], folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder (None: where Python runs); return its status and what it said."""
    return subprocess.run(
        command,
        capture_output=True,
        cwd=folder,
        env=os.environ | {"LC_ALL": "C.UTF-8"},
        encoding="utf-8",
        errors="replace",
    )
