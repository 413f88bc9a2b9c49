"""A compiled kernel, loaded into this process."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy

from torch_smem_gemm import _C
from torch_smem_gemm.raw_kernel.arguments import (
    Arguments,
    CParameter,
    Parameter,
    parameter_of,
)
from torch_smem_gemm.raw_kernel.compiler import INCLUDE, Unit
from torch_smem_gemm.raw_kernel.guarded import Guarded
from torch_smem_gemm.raw_kernel.symbols import Place, places

Dim = tuple[int, int, int]
MAX_SHARED_BYTES = 227 * 1024
MAX_STATIC_SHARED_BYTES = 48 * 1024  # CUDA C++ Programming Guide, "Shared Memory"


class LoadedUnit:
    """A compiled kernel and what this process knows of it: addresses, parameters, variables."""

    def __init__(self, unit: Unit) -> None:
        self.unit = unit
        library = ctypes.CDLL(str(unit.library))
        self._entry = _address(library.smem_entry)
        self._shared_memory = _address(library.smem_shared_memory)
        self._base = self._entry - unit.entry
        count = ctypes.c_int()
        library.smem_parameters.restype = ctypes.POINTER(CParameter)
        described = library.smem_parameters(ctypes.byref(count))
        names = unit.parameter_names
        if len(names) != count.value:
            names = [""] * count.value
        self.parameters: list[Parameter] = [
            parameter_of(described[i], i, names[i]) for i in range(count.value)
        ]
        self._variables = [
            (variable, self._base + address, size, 0, constant)
            for variable, address, size, constant in unit.variables
        ]
        self._places: dict[int, Place] = {}

    def run(
        self,
        name: str,
        grid: Dim,
        block: Dim,
        arguments: Arguments,
        *,
        shared_bytes: int,
        blocks: Sequence[int],
        counts: bool,
        max_steps: int,
        is_trial: bool,
    ) -> dict[str, Any]:
        """Run the kernel and return the report of bindings/trace_report.h.

        A trial leaves the tensors as they are; variables of the source are changed by it, too.
        """
        if shared_bytes > MAX_SHARED_BYTES:
            raise ValueError(
                f"smem.RawKernel: shared_mem is {shared_bytes} bytes, and a block has at most "
                f"{MAX_SHARED_BYTES} on an H200"
            )
        unit = self.unit
        arrays = [
            (array, offset, shared_bytes if dynamic else size, dynamic)
            for array, offset, size, dynamic in unit.arrays
            if not dynamic or shared_bytes
        ]
        guarded = Guarded([buffer for buffer in arguments.buffers if buffer])
        values = list(arguments.values)
        buffers = list(self._variables)
        for i, buffer in enumerate(arguments.buffers):
            if buffer:
                address = guarded.address(buffer)
                values[i] = ctypes.c_void_p(address)
                buffers.append((buffer.name, address, buffer.bytes, buffer.offset, False))
        pointers = (ctypes.c_void_p * max(1, len(values)))(*map(ctypes.addressof, values))
        guarded.load()
        text = _C.run_kernel(
            name,
            self._entry,
            ctypes.addressof(pointers),
            grid,
            block,
            (self._base, self._base + unit.end, self._shared_memory),
            arrays,
            buffers,
            list(blocks),
            counts,
            max_steps,
        )
        report = json.loads(text) if text is not None else None
        if report is not None:
            static = report["launches"][0]["static_shared_bytes"]
            _check_static_shared(name, static, shared_bytes)
        if not is_trial:
            guarded.store()
        if report is None:
            raise _C.take_interruption() or KeyboardInterrupt
        return report

    def places(self, addresses: set[int]) -> dict[int, Place]:
        """Return the source line of each return address in memory."""
        unknown = {address for address in addresses if address not in self._places}
        if unknown:
            in_library = {address - self._base for address in unknown}
            found = places(self.unit.library, in_library, _is_the_users)
            self._places |= {address + self._base: place for address, place in found.items()}
        return self._places

    def variable(self, name: str, dtype: Any) -> numpy.ndarray:
        """Return a ``__device__`` or ``__constant__`` variable's memory as an array."""
        for variable, address, size, _ in self.unit.variables:
            if variable == name:
                memory = (ctypes.c_uint8 * size).from_address(self._base + address)
                return numpy.ctypeslib.as_array(memory).view(dtype)
        known = ", ".join(variable for variable, *_ in self.unit.variables) or "none"
        raise KeyError(f"smem.RawKernel: there is no variable {name!r}; there are: {known}")


def _check_static_shared(name: str, static: int, dynamic: int) -> None:
    if static > MAX_STATIC_SHARED_BYTES:
        raise ValueError(
            f"smem.RawKernel: {name}: its __shared__ arrays have {static} bytes, and nvcc compiles "
            f"at most {MAX_STATIC_SHARED_BYTES}: use extern __shared__, and shared_mem"
        )
    if static + dynamic > MAX_SHARED_BYTES:
        raise ValueError(
            f"smem.RawKernel: {name}: shared_mem is {dynamic} bytes beside {static} of its "
            f"__shared__ arrays, and a block has at most {MAX_SHARED_BYTES} on an H200"
        )


def _is_the_users(file: str) -> bool:
    is_system = file.startswith("/usr/include/") or "/include/c++/" in file
    return not is_system and not Path(file).is_relative_to(INCLUDE)


def _address(function: Any) -> int:
    address = ctypes.cast(function, ctypes.c_void_p).value
    assert address is not None
    return address
