"""smem.trace: the memory accesses of a kernel, line by line, found by running it on the CPU."""

from __future__ import annotations

import bisect
import functools
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from torch_smem_gemm import _C
from torch_smem_gemm._trace_size import MAX_ACCESSES, accesses
from torch_smem_gemm.ops._arguments import (
    check_dims,
    check_dtype,
    check_tensors,
    dims_of,
    real_number,
)
from torch_smem_gemm.ops._autocast import autocast
from torch_smem_gemm.ops._codes import activation_code, precision_code
from torch_smem_gemm.ops._dispatch import raise_interruption
from torch_smem_gemm.ops.extrema import amax, amin
from torch_smem_gemm.ops.gemm import beta_or_default, gemm
from torch_smem_gemm.ops.linear import linear
from torch_smem_gemm.ops.sum import mean
from torch_smem_gemm.ops.sum import sum as smem_sum
from torch_smem_gemm.ops.transpose import transpose
from torch_smem_gemm.raw_kernel.report import launch_of
from torch_smem_gemm.raw_kernel.symbols import Place
from torch_smem_gemm.trace_report import Launch, Trace


def trace(
    op: str | Callable,
    *args: Any,
    kernel: str = "auto",
    max_accesses: int | None = MAX_ACCESSES,
    **options: Any,
) -> Trace:
    """Run an op's kernel on the CPU and return its memory accesses.

    The source that is compiled for the GPU runs on the CPU, one thread after the other, and every
    memory access is counted as the GPU's warps would execute it. A trace takes about a second per
    50 million accesses. Ctrl-C interrupts it.

    >>> import torch, torch_smem_gemm as smem
    >>> report = smem.trace("transpose", torch.ones(64, 64), kernel="tiled")
    >>> report.wavefronts, report.conflicts
    (4224, 3968)

    Args:
        op: "gemm", "linear", "transpose", "sum", "mean", "amax" or "amin", or the function of that
            name.
        args: the op's arguments; CUDA tensors are copied to the CPU. Under autocast they are cast
            as the op casts them.
        kernel: a name of ``smem.kernels(op)``; "auto" is the choice for an H200 without its tensor
            cores. Those that use them count the boxes of TMA and the products of wgmma, too.
        max_accesses: a problem whose estimated accesses exceed this is rejected before it runs;
            None is no limit.
        options: the op's keyword arguments, without ``out``.

    Returns:
        A :class:`Trace`; check its ``faults`` if the kernel is new.

    Raises the op's errors, ValueError for an unknown op or kernel or a problem beyond
    ``max_accesses``, TypeError for a named kernel of
    "linear", which always selects its kernel itself.
    """
    name = op if isinstance(op, str) else getattr(op, "__name__", repr(op))
    if name not in _OPS:
        raise ValueError(f"smem.trace: op is {name!r}, expected one of {', '.join(_OPS)}")
    if "out" in options:
        raise TypeError("smem.trace: out is not taken, the result is dropped")
    function, run = _OPS[name]
    arguments = _cast(name, _bound(name, function, args, options))
    needed = accesses(name, arguments)
    if max_accesses is not None and needed > max_accesses:
        raise ValueError(
            f"smem.trace: {name} of these sizes needs about {needed:.2g} accesses of threads, and "
            f"max_accesses is {max_accesses:.2g}: choose smaller sizes, or raise max_accesses to "
            "wait for it (a second for each 50 million)"
        )
    for key, value in arguments.items():
        if isinstance(value, Tensor) and value.is_meta:
            raise ValueError(f"smem.trace: {name}: {key} is on meta, expected a tensor with values")
    storages: set[int] = set()
    arguments = {key: _on_cpu(value, storages) for key, value in arguments.items()}
    begin()
    try:
        with torch.no_grad(), torch.autocast("cpu", enabled=False):
            run(kernel, arguments)
    except RuntimeError as error:
        raise_interruption(error)
        raise
    finally:
        launches, tensor_bytes = end()
    # Named as in the call: the first arguments by position.
    keys = [str(i) if i < len(args) else key for i, key in enumerate(arguments)]
    given = dict(zip(keys, arguments.values(), strict=True))
    tensors = {key: value for key, value in given.items() if isinstance(value, Tensor)}
    return Trace(
        op=name,
        kernel=launches[0].kernel if kernel == "auto" and launches else kernel.partition(":")[0],
        dtype=str(next(iter(tensors.values())).dtype).removeprefix("torch."),
        shapes={key: tuple(value.shape) for key, value in tensors.items()},
        tensor_bytes=tensor_bytes,
        launches=launches,
    )


def _bound(
    op: str, function: Callable, args: Sequence[Any], options: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the op's arguments by name, in the order of its signature, after type checks."""
    try:
        arguments = dict(inspect.signature(function).bind(*args, **options).arguments)
    except TypeError as error:
        raise TypeError(f"smem.trace: {op}: {error}") from None
    tensors = {"gemm": ("a", "b"), "linear": ("x", "weight")}.get(op, ("x",))
    check_tensors(
        op,
        required={name: arguments[name] for name in tensors},
        optional={name: arguments.get(name) for name in ("bias", "c")},
    )
    check_dims(op, {name: arguments.get(name) for name in ("dim", "dim0", "dim1")})
    for name in ("dtype", "out_dtype"):
        check_dtype(op, name, arguments.get(name))
    return arguments


def _cast(op: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments as the op casts them under autocast."""
    names = {"gemm": ["a", "b", "bias", "c"], "linear": ["x", "weight", "bias"]}.get(op, [])
    if arguments.get("out_dtype") is not None and "c" in names:
        names.remove("c")  # which may be of that dtype
    given = [name for name in names if arguments.get(name) is not None]
    if not given:
        return arguments
    cast = autocast(*(arguments[name] for name in given))
    return arguments | dict(zip(given, cast, strict=True))


def _on_cpu(value: Any, storages: set[int]) -> Any:
    """Return a tensor on the CPU with its own memory, because accesses are counted by address.

    ``storages`` has the addresses of the storages already in use.
    """
    if not isinstance(value, Tensor):
        return value
    value = value.detach().cpu()
    storage = value.untyped_storage()
    if storage.data_ptr() in storages:
        storage = storage.clone()
        place = value.storage_offset(), value.shape, value.stride()
        value = torch.empty(0, dtype=value.dtype, device="cpu").set_(storage, *place)
    storages.add(storage.data_ptr())
    return value


def _run_gemm(kernel: str, arguments: Mapping[str, Any]) -> None:
    if kernel == "auto":
        torch.ops.smem._gemm(**_with_codes("gemm", arguments))
    else:
        gemm(**arguments, kernel=kernel)


def _run_linear(kernel: str, arguments: Mapping[str, Any]) -> None:
    if kernel != "auto":
        raise TypeError("smem.trace: linear chooses its kernel itself, trace gemm for a named one")
    torch.ops.smem._linear(**_with_codes("linear", arguments))


def _with_codes(op: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of the Python function as the op's schema takes them."""
    coded = dict(arguments)
    if op == "gemm":
        coded["alpha"] = real_number(op, "alpha", coded.get("alpha", 1.0))
        coded["beta"] = beta_or_default(coded.get("beta"), coded.get("c"))
    for name, code in (("activation", activation_code), ("precision", precision_code)):
        coded[name] = code(op, coded.get(name))
    return coded


def _run_transpose(kernel: str, arguments: Mapping[str, Any]) -> None:
    if kernel == "auto":
        torch.ops.smem._transpose(**arguments)
    else:
        transpose(**arguments, kernel=kernel)


def _run_reduction(op: Callable) -> Callable[[str, Mapping[str, Any]], None]:
    """Return what runs a reduction; its bare op selects a kernel for each pass."""
    bare = getattr(torch.ops.smem, f"_{op.__name__}")

    def run(kernel: str, arguments: Mapping[str, Any]) -> None:
        if kernel != "auto":
            op(**arguments, kernel=kernel)
            return
        others = dict(arguments)
        dim = others.pop("dim", None)
        bare(others.pop("x"), dims_of(dim), **others)

    return run


# The op's function, and the function that runs a kernel with its arguments.
_OPS: dict[str, tuple[Callable, Callable[[str, Mapping[str, Any]], None]]] = {
    "gemm": (gemm, _run_gemm),
    "linear": (linear, _run_linear),
    "transpose": (transpose, _run_transpose),
    **{op.__name__: (op, _run_reduction(op)) for op in (smem_sum, mean, amax, amin)},
}


@functools.cache
def sources() -> dict[str, list[str]]:
    """Return the lines of every kernel source in csrc/, as they were compiled."""
    path = Path(__file__).with_name("_sources.json")
    texts = json.loads(path.read_text()) if path.exists() else {}
    return {name: text.splitlines() for name, text in texts.items()}


@functools.cache
def _built() -> dict[str, Any]:
    """Return what build_tools/places.py noted of the extension."""
    return json.loads(Path(__file__).with_name("_places.json").read_text())


@functools.cache
def _places() -> tuple[list[int], list[Place]]:
    """Return where in the extension calls of the emulator return to, and the lines of these."""
    found = {
        address: Place(file, int(line))
        for file, lines in _built()["lines"].items()
        for line, addresses in lines.items()
        for address in addresses
    }
    addresses = sorted(found)
    return addresses, [found[address] for address in addresses]


def _place(address: int) -> Place:
    """Return the line of an address; for one that no call returns to, that of the call before it.

    The processor's own faults have such addresses: the call that reports an access precedes it.
    """
    addresses, places = _places()
    return places[max(bisect.bisect_right(addresses, address) - 1, 0)]


def begin() -> None:
    """Record the kernels that this thread runs on CPU tensors from here on.

    Raises RuntimeError if a trace is in progress.
    """
    _C.begin_trace(_built()["size"], list(map(tuple, _built()["arrays"])))


def end() -> tuple[tuple[Launch, ...], dict[str, int]]:
    """Return the launches since :func:`begin`, and the bytes of each tensor.

    Raises RuntimeError if no trace is in progress.
    """
    report = json.loads(_C.end_trace())

    def resolve(addresses: set[int]) -> dict[int, Place]:
        return {address: _place(address - report["begin"]) for address in addresses}

    def source(file: str) -> list[str]:
        return sources().get(file, [])

    tensors = report["tensors"]
    return tuple(launch_of(x, tensors, resolve, source) for x in report["launches"]), tensors
