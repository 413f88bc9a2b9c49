"""What of the CUDA toolkit compiles kernels here: NVRTC, the driver's interface, headers."""

from __future__ import annotations

import functools
import importlib.util
import os
import shutil
from pathlib import Path
from typing import Any

_MISSING = (
    "smem.RawKernel: a kernel on CUDA tensors is compiled by NVRTC, through cuda.bindings: pip "
    "install torch_smem_gemm[nvrtc] (torch's CUDA wheels bring both since 2.10)"
)

# A folder of headers has one of these.
_HEADERS = ("cuda_fp16.h", "cuda/std/cstdint", "crt/mma.h", "curand_kernel.h")


@functools.cache
def nvrtc() -> Any:
    """Return the module cuda.bindings.nvrtc, whose library can be loaded.

    Raises ModuleNotFoundError that says what to install.
    """
    try:
        from cuda.bindings import nvrtc

        nvrtc.nvrtcVersion()  # loads the library
    except (ImportError, RuntimeError) as error:
        raise ModuleNotFoundError(f"{_MISSING}: {error}") from error
    return nvrtc


@functools.cache
def driver() -> Any:
    """Return the module cuda.bindings.driver.

    Raises ModuleNotFoundError that says what to install.
    """
    try:
        from cuda.bindings import driver
    except ImportError as error:
        raise ModuleNotFoundError(f"{_MISSING}: {error}") from error
    return driver


def result(returned: tuple[Any, ...], what: str) -> Any:
    """Return what a function of the driver or of NVRTC gave, without its status.

    Raises RuntimeError with ``what``, the error's name and its description, if it failed.
    """
    status, *values = returned
    if status:
        explain = driver().cuGetErrorString
        # NVRTC's errors say themselves what they are.
        text = explain(status)[1] if isinstance(status, driver().CUresult) else None
        reason = f" ({text.decode()})" if text else ""
        raise RuntimeError(f"smem.RawKernel: {what}: {status.name}{reason}")
    return values[0] if len(values) == 1 else values


@functools.cache
def include_folders() -> tuple[Path, ...]:
    """Return the folders of the toolkit's headers, those of NVRTC's own version first.

    They are NVIDIA's wheels (torch's own have cuda_fp16.h; cuda/std and cooperative_groups.h need
    those of the extra ``nvrtc``), and the toolkit of ``CUDA_HOME``, of nvcc on PATH, or in
    /usr/local/cuda.
    """
    wheels = importlib.util.find_spec("nvidia")
    packages = wheels.submodule_search_locations or () if wheels else ()
    found = [path for package in packages for path in sorted(Path(package).glob("*/include"))]
    roots = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH")]
    nvcc = shutil.which("nvcc")
    roots += [str(Path(nvcc).resolve().parent.parent)] if nvcc else []
    found += [Path(root) / "include" for root in (*roots, "/usr/local/cuda") if root]
    folders = [folder for path in found for folder in (path, path / "cccl")]
    with_headers = (f for f in folders if any((f / header).is_file() for header in _HEADERS))
    return tuple(dict.fromkeys(with_headers))
