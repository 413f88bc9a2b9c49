"""What a results file was measured on: its head, and the line that a document shows of it."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

import torch

from torch_smem_gemm.cli._environment import versions


def origin() -> dict[str, Any]:
    """The head of a results file that is measured now, on this GPU."""
    return {
        "device": torch.cuda.get_device_name(),
        "date": datetime.date.today().isoformat(),
        "versions": versions(),
    }


def measured_on(found: Mapping[str, Any]) -> str:
    """The line for the results ``found``, without the stop at its end."""
    made_by = found["versions"]
    return (
        f"Measured on: {found['device']}, torch {made_by['torch']}, "
        f"torch_smem_gemm {made_by['torch_smem_gemm']}, {found['date']}"
    )
