"""A kernel compiled for a GPU, loaded on it: its launches and its variables."""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from torch_smem_gemm.raw_kernel import cubin, toolkit
from torch_smem_gemm.raw_kernel.arguments import convert_for_gpu, count_changes
from torch_smem_gemm.raw_kernel.nvrtc import Cubin
from torch_smem_gemm.raw_kernel.toolkit import result
from torch_smem_gemm.raw_kernel.unit import Dim

# Never unloaded: a captured graph may launch a kernel later than any RawKernel lives.
_loaded: dict[tuple[Path, torch.device], GpuUnit] = {}
_loading = threading.Lock()


def load(compiled: Cubin, device: torch.device) -> GpuUnit:
    """Return the kernel on a GPU, loaded once, so that all who use it share its variables."""
    key = compiled.file, device
    with _loading:
        if key not in _loaded:
            _loaded[key] = GpuUnit(compiled, device)
        return _loaded[key]


class GpuUnit:
    """A kernel on one GPU.

    Its ``parameters`` are those of LoadedUnit. All calls are to the driver, in the device's primary
    context, which is torch's: a thread that has not used the GPU has no current one.
    """

    def __init__(self, compiled: Cubin, device: torch.device) -> None:
        self.device = device
        self._driver = driver = toolkit.driver()
        code = compiled.file.read_bytes()
        self.parameters = cubin.parameters(code, compiled.parameter_names)
        self._symbols = compiled.variables
        torch.cuda.init()
        number = result(driver.cuDeviceGet(device.index), "cuDeviceGet")
        self._context = result(driver.cuDevicePrimaryCtxRetain(number), "cuDevicePrimaryCtxRetain")
        with self._current(), _allowed_in_capture(driver):
            self._library = result(
                driver.cuLibraryLoadData(code, [], [], 0, [], [], 0), "cuLibraryLoadData"
            )
            kernel = result(
                driver.cuLibraryGetKernel(self._library, compiled.entry.encode()),
                "cuLibraryGetKernel",
            )
            self._function = result(driver.cuKernelGetFunction(kernel), "cuKernelGetFunction")
            attribute = driver.CUfunction_attribute
            self._max_threads = self._attribute(attribute.CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)
            self._static_shared = self._attribute(attribute.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)
            self._gpu_name = torch.cuda.get_device_name(device)
            limit = driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
            shared = result(driver.cuDeviceGetAttribute(limit, number), limit.name)
            # 48 KiB are allowed, more only to kernels that ask for it.
            self._max_dynamic = shared - self._static_shared
            result(
                driver.cuFuncSetAttribute(
                    self._function,
                    attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                    self._max_dynamic,
                ),
                "cuFuncSetAttribute",
            )

    def launch(
        self,
        name: str,
        grid: Dim,
        block: Dim,
        args: Sequence[Any],
        shared_bytes: int,
        cooperative: bool,
    ) -> None:
        """Launch the kernel on torch's current stream of the device, and do not wait for it."""
        values = convert_for_gpu(name, self.parameters, args, self.device)
        self._check_limits(name, block, shared_bytes)
        pointers = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, values))
        stream = torch.cuda.current_stream(self.device).cuda_stream
        driver = self._driver
        launch = driver.cuLaunchCooperativeKernel if cooperative else driver.cuLaunchKernel
        extra = () if cooperative else (0,)
        with self._current():
            launched = launch(
                self._function,
                *grid,
                *block,
                shared_bytes,
                stream,
                ctypes.addressof(pointers),
                *extra,
            )
        if launched[0]:
            size = f"grid {grid}, block {block}, {shared_bytes} bytes of dynamic shared memory"
            result(launched, f"{name}: launch on {self.device} ({size})")
        count_changes(self.parameters, args)

    def variable(self, name: str, dtype: torch.dtype) -> Tensor:
        """Return a ``__device__`` or ``__constant__`` variable's memory as a tensor."""
        if name not in self._symbols:
            known = ", ".join(self._symbols) or "none"
            raise KeyError(f"smem.RawKernel: there is no variable {name!r}; there are: {known}")
        symbol = self._symbols[name].encode()
        with self._current(), _allowed_in_capture(self._driver):
            found = self._driver.cuLibraryGetGlobal(self._library, symbol)
            address, size = result(found, f"variable {name!r}")
        return torch.as_tensor(_Memory(int(address), size), device=self.device).view(dtype)

    def _attribute(self, attribute: Any) -> int:
        return result(self._driver.cuFuncGetAttribute(attribute, self._function), attribute.name)

    def _check_limits(self, name: str, block: Dim, shared_bytes: int) -> None:
        threads = block[0] * block[1] * block[2]
        if threads > self._max_threads:
            raise ValueError(
                f"smem.RawKernel: block is {block}, {threads} threads, and {name} takes at most "
                f"{self._max_threads} on {self._gpu_name}, by its registers or __launch_bounds__"
            )
        if shared_bytes > self._max_dynamic:
            beside = f" beside its {self._static_shared} static ones" if self._static_shared else ""
            raise ValueError(
                f"smem.RawKernel: shared_mem is {shared_bytes} bytes, and a block of {name} has at "
                f"most {self._max_dynamic}{beside} on {self._gpu_name}"
            )

    @contextlib.contextmanager
    def _current(self) -> Iterator[None]:
        """Make the device's context the thread's current one."""
        result(self._driver.cuCtxPushCurrent(self._context), "cuCtxPushCurrent")
        try:
            yield
        finally:
            self._driver.cuCtxPopCurrent()


class _Memory:
    """Memory of a loaded module, as torch.as_tensor takes it without a copy."""

    def __init__(self, address: int, size: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (size,),
            "typestr": "|u1",
            "data": (address, False),
            "version": 3,
        }


@contextlib.contextmanager
def _allowed_in_capture(driver: Any) -> Iterator[None]:
    """Let the thread load code while it, or another one, captures a graph.

    That is no work on a stream, and so not a part of the graph.
    """
    relaxed = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
    before = result(driver.cuThreadExchangeStreamCaptureMode(relaxed), "stream capture mode")
    try:
        yield
    finally:
        driver.cuThreadExchangeStreamCaptureMode(before)
