"""What the tests of ``explain`` share: its ops and kernels, and how they call it."""

import json
from typing import Any

import pytest
from helpers import GEMMS, SUMS, TRANSPOSES

from torch_smem_gemm.cli import main

LADDERS = {"gemm": GEMMS, "transpose": TRANSPOSES, "sum": SUMS}
SMALL = {
    "gemm": ["-m", "40", "-n", "36", "-k", "32"],
    "transpose": ["-m", "40", "-n", "36"],
    "sum": ["-m", "3", "-n", "500"],
}
every_kernel = pytest.mark.parametrize(
    ("op", "kernel"), [(op, name) for op, names in LADDERS.items() for name in names]
)


def report(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    """What the command prints as JSON."""
    assert main(["explain", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def text(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> str:
    """What the command prints for people."""
    assert main(["explain", *arguments]) == status
    return capsys.readouterr().out
