"""Output files of a command, checked to be writable before the work starts."""

from __future__ import annotations

import argparse
from pathlib import Path

from torch_smem_gemm.cli._strips import check_suffix


def picture_file(text: str) -> Path:
    """Parse the name of a picture to write."""
    path = Path(text)
    try:
        check_suffix(path)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return path


def check_writable(path: Path) -> None:
    """Make the folder of ``path``; raise OSError, naming the file, where it cannot be written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    is_new = not path.exists()
    path.open("ab").close()
    if is_new:
        path.unlink()
