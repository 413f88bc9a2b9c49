"""The resources of a kernel's code on an SM, as ptxas reported them at build time."""

from __future__ import annotations

import functools
import json
import re
from dataclasses import dataclass

import torch

from torch_smem_gemm import _C
from torch_smem_gemm._kernels import OPS, build_info, kernels
from torch_smem_gemm.cli._environment import serving_arch
from torch_smem_gemm.cli.info import PTXAS_REPORT


@dataclass(frozen=True)
class Resources:
    """One kernel's code for one architecture: registers of a thread, everything else in bytes.

    Spills are the loads and stores that ptxas inserted because of a lack of registers. They are
    counted in the code; how often they run is not known.
    """

    arch: str
    registers: int
    static_shared_bytes: int
    stack_bytes: int
    spill_store_bytes: int
    spill_load_bytes: int


def built_resources(
    op: str, kernel: str, dtype: torch.dtype, capability: tuple[int, int]
) -> Resources:
    """Return the resources of the code that a GPU of that compute capability runs.

    Raises LookupError with the reason if the build does not know them.
    """
    if op not in OPS:
        raise LookupError(f"the build has no report of {op}")
    archs = build_info()["archs"]
    if not archs:
        raise LookupError("the package was built without CUDA")
    major, minor = capability
    arch = serving_arch(archs, capability)
    if arch is None:
        raise LookupError(
            f"the package was built for {', '.join(archs)}, and none of it runs on {major}.{minor}"
        )
    if arch.startswith("compute"):
        raise LookupError(f"the driver compiles {arch} to code for {major}.{minor}")
    entry = _report().get((_symbol(op, kernel, dtype), arch))
    if entry is None:
        raise LookupError(f"the build kept no report of this kernel for {arch}")
    return entry


def _symbol(op: str, kernel: str, dtype: torch.dtype) -> str:
    """The name, plain, of the function that runs for ``dtype``."""
    built_for = f"{dtype.itemsize}-byte" if op == "transpose" else str(dtype).split(".")[1]
    for row in json.loads(_C.kernel_symbols()):
        if (row["op"], row["name"], row["dtype"]) == (op, kernel, built_for):
            return plain_name(row["symbol"])
    if any(row.name == kernel and row.variants for row in kernels(op)):
        raise LookupError(f"{op} kernel {kernel} is one of several functions, by its tile")
    raise LookupError(f"{op} kernel {kernel} is not built for {built_for}")


@functools.cache
def _report() -> dict[tuple[str, str], Resources]:
    """The build's report by plain name and architecture."""
    entries = json.loads(PTXAS_REPORT.read_text()) if PTXAS_REPORT.exists() else []
    return {
        (plain_name(entry["kernel"]), entry["arch"]): Resources(
            arch=entry["arch"],
            registers=entry["registers"],
            static_shared_bytes=entry["shared_bytes"],
            stack_bytes=entry["stack_bytes"],
            spill_store_bytes=entry["spill_store_bytes"],
            spill_load_bytes=entry["spill_load_bytes"],
        )
        for entry in entries
    }


# The host's compiler and nvcc call one type by different names.
_TYPES = {
    "__half": "Half",
    "__nv_bfloat16": "BFloat16",
    "long unsigned int": "unsigned long",
    "short unsigned int": "unsigned short",
    "long int": "long",
    "short int": "short",
}
_TYPE = re.compile("|".join(rf"\b{name}\b" for name in _TYPES))


def plain_name(function: str) -> str:
    """Return a kernel's name as both compilers agree on it.

    >>> plain_name("void smem::gemm::device_build::naive_kernel<__half>(smem::gemm::Problem)")
    'gemm::naive_kernel<Half>'

    The op's namespace stays: several ops have a kernel of one name.
    """
    name = re.sub(r"^void |\(.*", "", function)
    path, _, arguments = name.partition("<")
    op = re.sub(r"^smem::", "", path).split("::")[0]
    function_name = path.rpartition("::")[2]
    if arguments:
        arguments = _TYPE.sub(lambda match: _TYPES[match[0]], re.sub(r"\w+::", "", arguments))
        function_name += f"<{arguments}"
    return f"{op}::{function_name}"
