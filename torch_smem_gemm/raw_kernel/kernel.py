"""smem.RawKernel: any CUDA kernel, run on any tensors, checked and traced without a GPU."""

from __future__ import annotations

import functools
import math
import re
import shutil
import struct
from collections.abc import Callable, Sequence
from numbers import Integral
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

import numpy
import torch

from torch_smem_gemm._trace_size import MAX_ACCESSES
from torch_smem_gemm.raw_kernel import arguments, gpu_unit, nvrtc
from torch_smem_gemm.raw_kernel.compiler import Unit, compile_kernel
from torch_smem_gemm.raw_kernel.gpu_unit import GpuUnit
from torch_smem_gemm.raw_kernel.report import launch_of
from torch_smem_gemm.raw_kernel.unit import Dim, LoadedUnit
from torch_smem_gemm.trace_report import Fault, Launch, Trace

# Accesses and basic blocks of one thread: some seconds of one that does not end.
MAX_STEPS = 100_000_000

# A grid of more threads is tried with a few blocks first, to say how long it would take.
_SMALL_GRID = 2**16
_MAX_THREADS = 1024
_MAX_BLOCK = (1024, 1024, 64)
_MAX_GRID = (2**31 - 1, 65535, 65535)

Compiled = TypeVar("Compiled")
Loaded = TypeVar("Loaded")


class KernelFault(RuntimeError):
    """A kernel did what is an error on a GPU; ``faults`` has all of them."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        others = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        super().__init__(f"smem.RawKernel: {faults[0]}{others}")
        self.faults = tuple(faults)

    def __reduce__(self) -> tuple[type, tuple]:
        """Pickle the faults, of which the text is made."""
        return type(self), (self.faults,)


class RawKernel:
    """A CUDA kernel, after CuPy's class of that name, that runs on CUDA tensors and on the CPU's.

    >>> import torch, torch_smem_gemm as smem
    >>> k = smem.RawKernel("__global__ void twice(float* x) { x[threadIdx.x] *= 2; }", "twice")
    >>> x = torch.ones(32)
    >>> k(1, 32, (x,))
    >>> x.sum().item()
    64.0
    >>> k.trace(1, 32, (x,)).count("sectors", memory="x")
    8

    For CPU tensors the source is compiled by the system's g++ (``CXX`` names another GCC), for CUDA
    tensors by NVRTC (through cuda.bindings; torch's CUDA wheels bring both), once, into a cache:
    ``$SMEM_CACHE_DIR``, or ``torch_smem_gemm/kernels`` in ``$XDG_CACHE_HOME``.

    Args:
        code_or_path: the source, or the path of a file (``.cu``, ``.cuh``, ``.h``). Functions of
            the host in it are ignored.
        name: the kernel's name; with template arguments, ``"transpose<float, 32>"``.
        options: of the compiler: ``("-DTILE=16", "-Iinclude")``.

    Raises ValueError for a path that is no file, or a C++ before 14; at the first use CompileError,
    a RuntimeError with the compiler's first error at its line, or ModuleNotFoundError if there is
    no NVRTC.
    """

    def __init__(
        self, code_or_path: str | PathLike[str], name: str, *, options: Sequence[str] = ()
    ) -> None:
        if not isinstance(name, str):
            raise TypeError(f"smem.RawKernel: name is {name!r}, expected a string")
        if not re.fullmatch(r"\s*[\w:]+\s*(?:<.*>)?\s*", name, re.DOTALL):
            raise ValueError(
                f"smem.RawKernel: {name!r} is no name of a kernel, such as 'transpose<float, 32>'"
            )
        if isinstance(options, str) or not all(isinstance(option, str) for option in options):
            raise TypeError(
                f"smem.RawKernel: options is {options!r}, expected a sequence of strings"
            )
        for option in options:
            if re.fullmatch(r"--?std=(?:c|gnu)\+\+(?:98|03|0x|11)", option):
                raise ValueError(
                    f"smem.RawKernel: options has {option!r}, expected C++14 or a later standard"
                )
        self.name = name
        self.options = tuple(options)
        self.path, self.code = _read(code_or_path)
        self._unit: LoadedUnit | None = None
        self._gpu_units: dict[torch.device, GpuUnit] = {}

    def __repr__(self) -> str:
        return f"RawKernel({self.path!r}, {self.name!r})"

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what only this process has loaded."""
        return self.__dict__ | {"_unit": None, "_gpu_units": {}}

    def compile(self, device: torch.device | str = "cpu") -> LoadedUnit | GpuUnit:
        """Compile the kernel for a device and load it, if that has not been done.

        Args:
            device: ``"cpu"``, or a GPU such as ``"cuda:0"``.
        """
        gpu = _gpu(device)
        return self._on_gpu(gpu) if gpu else self._on_cpu()

    def _on_cpu(self) -> LoadedUnit:
        if self._unit is None:
            self._unit = _loaded(self._compile, LoadedUnit, lambda unit: unit.library)
        return self._unit

    def _compile(self) -> Unit:
        return compile_kernel(self.code, self.name, self.path, self.options)

    def _on_gpu(self, device: torch.device) -> GpuUnit:
        unit = self._gpu_units.get(device)
        if unit is None:
            capability = torch.cuda.get_device_capability(device)
            identity = self.code, self.name, self.path, self.options, capability
            unit = self._gpu_units[device] = _loaded(
                lambda: nvrtc.compile_kernel(*identity),
                lambda compiled: gpu_unit.load(compiled, device),
                lambda compiled: compiled.file,
            )
        return unit

    def __call__(
        self,
        grid: int | Sequence[int],
        block: int | Sequence[int],
        args: Sequence[Any],
        *,
        shared_mem: int = 0,
        cooperative: bool = False,
        device: torch.device | str | None = None,
        max_steps: int = MAX_STEPS,
    ) -> None:
        """Run the kernel: on the CPU, or on torch's current stream of the CUDA tensors' device.

        Args:
            grid: blocks in x, y, z.
            block: threads of a block in x, y, z; at most 1024.
            args: for pointers tensors of the pointer's dtype, all on one device, or (on the CPU)
                NumPy arrays; numbers; None for a null pointer; for a struct, its bytes.
            shared_mem: bytes of dynamic shared memory.
            cooperative: on a GPU, launch all blocks at once, for ``grid.sync()``.
            device: where it runs; None is where the tensors are, and the CPU where there are none.
            max_steps: on the CPU, accesses and basic blocks after which a thread counts as endless.

        Raises TypeError and ValueError for arguments that do not fit; on the CPU KernelFault for
        what is an error on a GPU (the other threads run on, but an endless loop ends the launch);
        on a GPU RuntimeError for a launch that the driver refuses. A launch on a GPU is not waited
        for, and its memory accesses are not checked: as in CUDA, a wrong one is an error of a later
        call.
        """
        of_tensors = arguments.gpu_of(args)
        gpu = of_tensors if device is None else _gpu(device)
        if gpu is not None:
            size = _launch_size(_hashable(grid), _hashable(block))
            _check_shared_bytes(shared_mem)
            self._on_gpu(gpu).launch(self.name, *size, args, shared_mem, cooperative)
            return
        report, _ = self._run(grid, block, args, shared_mem, (), False, max_steps)
        if report["launches"][0]["faults"] and (faults := self._launch_of(report)[0].faults):
            raise KernelFault(faults)

    def trace(
        self,
        grid: int | Sequence[int],
        block: int | Sequence[int],
        args: Sequence[Any],
        *,
        shared_mem: int = 0,
        blocks: Sequence[int] | None = None,
        max_accesses: int | None = MAX_ACCESSES,
        max_steps: int = MAX_STEPS,
    ) -> Trace:
        """Run the kernel and return its memory accesses, line by line, and its faults.

        Args:
            blocks: run only the blocks of these numbers (x first), a sample of a large grid; the
                counts are those of the sample.
            max_accesses: a launch that would make more accesses of threads is refused, with the
                time that it would take; None is no limit. How many it would make is measured by
                three blocks, if there are several and together more than 65,536 threads.

        The other arguments and errors are those of a call on CPU tensors, but faults are in the
        Trace.
        """
        if (gpu := arguments.gpu_of(args)) is not None:
            raise TypeError(
                f"smem.RawKernel: {self.name}: a trace runs on the CPU, and there are tensors on "
                f"{gpu}: pass copies (tensor.cpu())"
            )
        sizes = _dims("grid", grid, _MAX_GRID), _dims("block", block, _MAX_BLOCK)
        chosen = _block_numbers(blocks, math.prod(sizes[0]))
        if max_accesses is not None:
            self._refuse_if_too_large(*sizes, args, shared_mem, chosen, max_accesses, max_steps)
        report, converted = self._run(*sizes, args, shared_mem, chosen, True, max_steps)
        launch, sources = self._launch_of(report)
        return Trace(
            op=self.name,
            kernel=self.name,
            dtype=converted.dtype,
            shapes=converted.shapes,
            tensor_bytes={buffer.name: buffer.bytes for buffer in converted.buffers if buffer},
            launches=(launch,),
            sources=sources,
        )

    def variable(self, name: str, dtype: Any, *, device: torch.device | str = "cpu") -> Any:
        """Return a ``__device__`` or ``__constant__`` variable, to read or write.

        Args:
            name: without its namespace.
            dtype: of the elements: NumPy's; on a GPU also torch's.
            device: a GPU's variables are others than the CPU's, and than another GPU's.

        Returns a one-dimensional NumPy array, or for a GPU a tensor there, which share the
        variable's memory.

        Raises KeyError for an unknown name.
        """
        gpu = _gpu(device)
        if gpu is None:
            return self._on_cpu().variable(name, dtype)
        if not isinstance(dtype, torch.dtype):
            dtype = torch.from_numpy(numpy.empty(0, dtype)).dtype
        return self._on_gpu(gpu).variable(name, dtype)

    def _run(
        self,
        grid: int | Sequence[int],
        block: int | Sequence[int],
        args: Sequence[Any],
        shared_mem: int,
        blocks: Sequence[int],
        counts: bool,
        max_steps: int,
        is_trial: bool = False,
    ) -> tuple[dict[str, Any], arguments.Arguments]:
        """Run the kernel on the CPU; return its report and the arguments."""
        unit = self._on_cpu()
        converted = arguments.convert(self.name, unit.parameters, args)
        _check_shared_bytes(shared_mem)
        report = unit.run(
            self.name,
            _dims("grid", grid, _MAX_GRID),
            _block_dims(block),
            converted,
            shared_bytes=shared_mem,
            blocks=blocks,
            counts=counts,
            max_steps=max_steps,
            is_trial=is_trial,
        )
        if not is_trial:
            arguments.count_changes(unit.parameters, args)
        report["launches"][0] |= {
            "dynamic_shared_bytes": shared_mem,
            "sample": len(blocks) or None,
        }
        return report, converted

    def _launch_of(self, report: dict[str, Any]) -> tuple[Launch, dict[str, list[str]]]:
        """Return the launch that a report tells of, and the lines of its source files."""
        sources = {self.path: self.code.splitlines()}

        def source(file: str) -> list[str]:
            if file not in sources:
                path = Path(file)
                known = path.is_file()
                sources[file] = path.read_text(errors="replace").splitlines() if known else []
            return sources[file]

        unit = self._on_cpu()
        if not unit.unit.library.exists():  # the cache has been cleared since: the same once more
            self._compile()
        launch, tensors = report["launches"][0], report["tensors"]
        return launch_of(launch, tensors, unit.places, source), sources

    def _refuse_if_too_large(
        self,
        grid: Dim,
        block: Dim,
        args: Sequence[Any],
        shared_mem: int,
        chosen: Sequence[int],
        max_accesses: int,
        max_steps: int,
    ) -> None:
        """Raise ValueError if the blocks would make too many accesses, by those of three."""
        blocks = len(chosen) or math.prod(grid)
        if blocks < 2 or blocks * math.prod(block) <= _SMALL_GRID:
            return
        places = (0, blocks // 2, blocks - 1)
        sample = sorted({chosen[place] if chosen else place for place in places})
        report, _ = self._run(
            grid, block, args, shared_mem, sample, counts=True, max_steps=max_steps, is_trial=True
        )
        # A thread takes as long as an access, and those out of bounds are not in the rows.
        accesses = sum(row["lanes"] for row in report["launches"][0]["rows"]) / len(sample)
        needed = blocks * max(accesses, math.prod(block))
        if needed > max_accesses:
            raise ValueError(
                f"smem.RawKernel: {self.name}: {blocks} blocks make about {needed:.2g} accesses of "
                f"threads, which take some {needed / 2e7:.0f} s, and max_accesses is "
                f"{max_accesses:.2g}: trace a sample (blocks=range(4)), or raise max_accesses"
            )


def _loaded(
    compile_: Callable[[], Compiled],
    load: Callable[[Compiled], Loaded],
    file: Callable[[Compiled], Path],
) -> Loaded:
    """Load what was compiled; if its entry in the cache is damaged, compile it once more."""
    compiled = compile_()
    try:
        return load(compiled)
    except (OSError, ValueError, struct.error):
        shutil.rmtree(file(compiled).parent, ignore_errors=True)
        return load(compile_())


def _gpu(device: torch.device | str) -> torch.device | None:
    """Return a GPU with its index, or None for the CPU."""
    named = torch.device(device)
    if named.type not in ("cpu", "cuda"):
        raise ValueError(f"smem.RawKernel: device is {device}, expected cpu or cuda")
    if named.type == "cpu":
        return None
    if not torch.cuda.is_available():
        raise RuntimeError(f"smem.RawKernel: device is {device}, and torch finds no CUDA GPU")
    return named if named.index is not None else torch.device("cuda", torch.cuda.current_device())


def _read(code_or_path: str | PathLike[str]) -> tuple[str, str]:
    """Return the path, for messages, and the text of a source."""
    text = str(code_or_path)
    if isinstance(code_or_path, str) and ("{" in text or "\n" in text):
        return "kernel.cu", text.removeprefix("\ufeff").replace("\r\n", "\n")
    path = Path(text)
    if not path.is_file():
        raise ValueError(f"smem.RawKernel: {text!r} is neither a source nor the path of a file")
    if "\n" in text:
        raise ValueError(f"smem.RawKernel: {text!r} has a line break in its name")
    # Comments may be in any encoding.
    return str(path.resolve()), path.read_text(encoding="utf-8-sig", errors="replace")


def _dims(argument: str, given: int | Sequence[int], largest: Sequence[int]) -> Dim:
    values = tuple(given) if isinstance(given, Sequence) else (given,)
    valid = 1 <= len(values) <= 3 and all(isinstance(value, Integral) for value in values)
    if not valid:
        raise TypeError(f"smem.RawKernel: {argument} is {given!r}, expected one to three integers")
    x, y, z = (*map(int, values), 1, 1)[:3]
    for value, limit in zip((x, y, z), largest, strict=True):
        if not 1 <= value <= limit:
            raise ValueError(
                f"smem.RawKernel: {argument} is {given!r}, expected 1 to {limit} where {value} is"
            )
    return x, y, z


def _block_dims(block: int | Sequence[int]) -> Dim:
    dims = _dims("block", block, _MAX_BLOCK)
    if math.prod(dims) > _MAX_THREADS:
        raise ValueError(
            f"smem.RawKernel: block is {block!r}, {math.prod(dims)} threads, and a block has at "
            f"most {_MAX_THREADS}"
        )
    return dims


@functools.lru_cache(maxsize=1024)
def _launch_size(grid: int | tuple[int, ...], block: int | tuple[int, ...]) -> tuple[Dim, Dim]:
    return _dims("grid", grid, _MAX_GRID), _block_dims(block)


def _hashable(size: Any) -> Any:
    return tuple(size) if isinstance(size, list) else size


def _block_numbers(blocks: Sequence[int] | None, count: int) -> list[int]:
    if not isinstance(blocks, Sequence | None):
        raise TypeError(f"smem.RawKernel: blocks is {blocks!r}, expected numbers of blocks")
    numbers = [] if blocks is None else list(blocks)
    seen: set[int] = set()
    for number in numbers:
        if not 0 <= number < count:
            raise ValueError(
                f"smem.RawKernel: blocks names block {number}, and the grid has {count}"
            )
        if number in seen:
            raise ValueError(f"smem.RawKernel: blocks names block {number} twice")
        seen.add(number)
    if blocks is not None and not numbers:
        raise ValueError("smem.RawKernel: blocks is empty, expected numbers of blocks")
    return numbers


def _check_shared_bytes(shared_mem: int) -> None:
    if not isinstance(shared_mem, Integral) or shared_mem < 0:
        raise ValueError(
            f"smem.RawKernel: shared_mem is {shared_mem!r}, expected a number of bytes"
        )
