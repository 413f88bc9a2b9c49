"""The environment of this process: versions, GPUs, driver, and the binary's architectures."""

from __future__ import annotations

import ctypes
import platform
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

import torch_smem_gemm
from torch_smem_gemm._kernels import build_info


def versions() -> dict[str, str | None]:
    """Return the versions of all components; None for a missing one."""
    build = build_info()
    return {
        "torch_smem_gemm": torch_smem_gemm.__version__,
        "commit": git_commit(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "torch at build": build["torch_built"],
        "oldest torch served": build["torch_target"],
        "compiler": build["compiler"],
        "CUDA of the binary": build["cuda"],
        "CUDA of torch": torch.version.cuda,
        "CUDA of the driver": driver_cuda(),
        "driver": nvidia_smi("driver_version"),
    }


def gpus() -> list[dict[str, Any]]:
    """Return every GPU that torch sees, with its shared memory limits."""
    archs = build_info()["archs"]
    found = []
    for index in range(torch.cuda.device_count()):
        device = torch.cuda.get_device_properties(index)
        capability = (device.major, device.minor)
        found.append(
            {
                "index": index,
                "name": device.name,
                "capability": f"{device.major}.{device.minor}",
                "sms": device.multi_processor_count,
                "shared_memory_per_block": device.shared_memory_per_block_optin,  # type: ignore[attr-defined]
                "shared_memory_per_sm": device.shared_memory_per_multiprocessor,
                "l2_bytes": device.L2_cache_size,
                "memory_bytes": device.total_memory,
                "served_by": serving_arch(archs, capability),
            }
        )
    return found


def serving_arch(archs: Sequence[str], capability: tuple[int, int]) -> str | None:
    """Return the code in the binary that a GPU runs.

    Args:
        archs: the build's names: ``sm_80`` and ``sm_90a`` are machine code, ``compute_80`` is
            PTX.
        capability: the GPU's compute capability.

    Returns:
        The newest fitting machine code, else the newest fitting PTX, else None. Machine code runs
        on its own major version from its minor version up, PTX on everything from its version up;
        the suffix ``f`` keeps both to the major version, ``a`` to that capability alone.
    """
    fitting = []
    for arch in archs:
        match = re.fullmatch(r"(sm|compute)_(\d+)(\d)([af]?)", arch)
        if match is None:
            raise ValueError(f"the build names an architecture {arch!r}")
        kind, major, minor, suffix = match.groups()
        wanted = (int(major), int(minor))
        newer_runs_it = wanted < capability and suffix != "a"
        if suffix == "f" or kind == "sm":
            newer_runs_it = newer_runs_it and wanted[0] == capability[0]
        if wanted == capability or newer_runs_it:
            fitting.append((kind == "sm", wanted, suffix, arch))
    return max(fitting)[-1] if fitting else None


def driver_cuda() -> str | None:
    """The newest CUDA version that the driver supports, such as ``"13.0"``; None without one."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    version = ctypes.c_int()
    if driver.cuDriverGetVersion(ctypes.byref(version)) != 0:
        return None
    return f"{version.value // 1000}.{version.value % 1000 // 10}"


def nvidia_smi(*fields: str, device: torch.device | None = None) -> str | None:
    """Return nvidia-smi's answers to ``--query-gpu=fields``; None if it does not run.

    Args:
        fields: names such as ``"driver_version"``.
        device: the GPU asked about; None asks about the machine's first.
    """
    which = 0 if device is None else f"GPU-{torch.cuda.get_device_properties(device).uuid}"
    command = ["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader"]
    try:
        answer = subprocess.run(
            [*command, f"--id={which}"], capture_output=True, text=True, timeout=20, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip()


def git_commit() -> str | None:
    """The checkout's commit, ``-dirty`` after edits; None if the package runs from no checkout."""
    root = Path(torch_smem_gemm.__file__).parent.parent
    if not (root / ".git").exists():
        return None
    command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip()
