"""Which GPU architectures are compiled for: TORCH_CUDA_ARCH_LIST says so.

- `all`, and nothing: everything in ALL, since a package is installed to run on any machine.
- `native`: the GPUs of this machine. `make` asks for it.
- A list as torch reads it: "8.0;9.0a".
"""

import os
import re
import subprocess

import torch
from torch.utils import cpp_extension

from build_tools.toolchain import CudaToolkit

# sm_75 is the T4 of free notebooks. sm_80 also runs on 8.6 and 8.9, and its PTX on all newer GPUs.
# sm_90a has wgmma, which plain 90 lacks. The PTX is that of 80 and not of plain 90 because that
# would cost one more pass of the compiler over everything.
ALL = (("sm_75",), ("sm_80", "compute_80"), ("sm_90a",))


def gencode_flags(cuda: CudaToolkit) -> list[str]:
    """nvcc's flags; none where this machine has no GPU that they could name."""
    wanted = os.environ.get("TORCH_CUDA_ARCH_LIST") or "all"
    if wanted == "native":
        codes = {code_for(capability) for capability in visible_capabilities()}
        return [_flag((code,)) for code in sorted(filter(None, codes))]
    if wanted == "all":
        known = subprocess.check_output([*cuda.nvcc, "--list-gpu-arch"], text=True).split()
        return [_flag(codes) for codes in ALL if _arch(codes[0]).rstrip("a") in known]
    return sorted({with_wgmma(flag) for flag in cpp_extension._get_cuda_arch_flags()})


def code_for(capability: tuple[int, int]) -> str | None:
    """The best code among ALL that a GPU of this compute capability runs; None before 7.5."""
    if capability == (9, 0):
        return "sm_90a"
    if capability >= (9, 0):
        return "compute_80"
    if capability >= (8, 0):
        return "sm_80"
    return "sm_75" if capability == (7, 5) else None


def with_wgmma(flag: str) -> str:
    """The same flag, but machine code for 9.0 is made for 9.0a: wgmma exists in the latter only."""
    return _flag(("sm_90a",)) if flag == "-gencode=arch=compute_90,code=sm_90" else flag


def visible_capabilities() -> set[tuple[int, int]]:
    """The compute capabilities of this machine's GPUs.

    A torch without CUDA sees none, but may be replaced by one that does: then nvidia-smi is asked.
    """
    if torch.version.cuda:
        return set(map(torch.cuda.get_device_capability, range(torch.cuda.device_count())))
    command = ["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return set()
    found = re.findall(r"^(\d+)\.(\d+)", answer.stdout, re.MULTILINE)
    return {(int(major), int(minor)) for major, minor in found}


def built_codes(gencode: list[str]) -> list[str]:
    """["sm_80", "compute_80"], say, where nvcc is told code=[sm_80,compute_80]."""
    return [code for flag in gencode for code in flag.rpartition("=")[2].strip("[]").split(",")]


def _flag(codes: tuple[str, ...]) -> str:
    return f"-gencode=arch={_arch(codes[0])},code=[{','.join(codes)}]"


def _arch(code: str) -> str:
    return code.replace("sm", "compute")
