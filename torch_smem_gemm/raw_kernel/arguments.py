"""The arguments of a kernel: checked against its parameters, and laid out for the call."""

from __future__ import annotations

import ctypes
import functools
import numbers
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy
import torch
from torch import Tensor


class CType(ctypes.Structure):
    """smem_type of csrc/cpu_emulator/cuda/smem_parameters.h."""

    _fields_ = (("bytes", ctypes.c_int), ("kind", ctypes.c_char), ("is_const", ctypes.c_bool))


class CParameter(ctypes.Structure):
    """smem_parameter of the same header."""

    _fields_ = (("type", CType), ("pointee", CType), ("name", ctypes.c_char * 144))


@dataclass(frozen=True)
class Parameter:
    """A parameter of a kernel."""

    name: str  # empty if the source does not tell
    position: int
    type_name: str
    kind: str  # see smem_type
    bytes: int
    pointee_kind: str
    pointee_bytes: int
    is_const: bool  # of what a pointer points to

    @property
    def label(self) -> str:
        """How messages call it."""
        named = f" ({self.name})" if self.name else ""
        return f"argument {self.position}{named}"

    @property
    def key(self) -> str:
        """The name of its memory in a trace."""
        return self.name or str(self.position)

    @functools.cached_property
    def dtypes(self) -> frozenset[torch.dtype]:
        """The known dtypes that what a pointer points to may have."""
        return frozenset(
            dtype for dtype, kind in KINDS.items() if _fits(self, kind, dtype.itemsize)
        )

    @property
    def dtype(self) -> torch.dtype | None:
        """The dtype of what a pointer points to; None for void and structs, which take any."""
        wanted = self.pointee_kind, self.pointee_bytes
        found = (dtype for dtype, kind in KINDS.items() if (kind, dtype.itemsize) == wanted)
        return next(found, None)


def parameter_of(described: CParameter, position: int, name: str) -> Parameter:
    """Return a parameter as the compiled kernel describes it."""
    type_name = described.name.decode().partition("= ")[2].removesuffix("]")
    return Parameter(
        name=name,
        position=position,
        # NVRTC writes "float *" and "__nv_bool".
        type_name=type_name.replace(" *", "*").replace("__nv_bool", "bool"),
        kind=described.type.kind.decode(),
        bytes=described.type.bytes,
        pointee_kind=described.pointee.kind.decode(),
        pointee_bytes=described.pointee.bytes,
        is_const=described.pointee.is_const,
    )


@dataclass(frozen=True)
class Buffer:
    """The memory of a tensor or an array."""

    name: str
    address: int
    bytes: int
    offset: int  # bytes from the begin of its allocation
    is_writable: bool = True


@dataclass
class Arguments:
    """What a call of the compiled kernel needs; it keeps the memory alive."""

    values: list[Any]  # of the parameters, as ctypes
    buffers: list[Buffer | None]  # of those that are pointers, else None
    shapes: dict[str, tuple[int, ...]]
    dtype: str


def convert(kernel: str, parameters: Sequence[Parameter], args: Sequence[Any]) -> Arguments:
    """Return the arguments of a call on CPU tensors, NumPy arrays and numbers.

    Raises TypeError or ValueError that names the parameter, what it expects and what came.
    """
    _check_count(kernel, parameters, args)
    values: list[Any] = []
    buffers: list[Buffer | None] = []
    shapes: dict[str, tuple[int, ...]] = {}
    dtype = ""
    for parameter, value in zip(parameters, args, strict=True):
        if parameter.kind == "p":
            address, buffer, kind = _pointer(kernel, parameter, value)
            values.append(ctypes.c_void_p(address))
            buffers.append(buffer)
            if buffer:
                shapes[parameter.key] = tuple(value.shape)
                dtype = dtype or kind
        else:
            values.append(_value(kernel, parameter, value))
            buffers.append(None)
    return Arguments(values, buffers, shapes, dtype)


def gpu_of(args: Sequence[Any]) -> torch.device | None:
    """Return the device of the first CUDA tensor among the arguments, or None.

    Raises TypeError if there is no sequence of arguments; a tensor counts as one argument.
    """
    if not isinstance(args, Sequence):
        raise TypeError(f"smem.RawKernel: args is of type {type(args).__name__}, expected a tuple")
    return next((arg.device for arg in args if isinstance(arg, Tensor) and arg.is_cuda), None)


def convert_for_gpu(
    kernel: str, parameters: Sequence[Parameter], args: Sequence[Any], device: torch.device
) -> list[Any]:
    """Return, as ctypes, the arguments of a call on tensors on a GPU and numbers.

    Raises what convert raises.
    """
    _check_count(kernel, parameters, args)
    return [
        _address_on_gpu(kernel, parameter, value, device)
        if parameter.kind == "p"
        else _value(kernel, parameter, value)
        for parameter, value in zip(parameters, args, strict=True)
    ]


def count_changes(parameters: Sequence[Parameter], args: Sequence[Any]) -> None:
    """Tell autograd that a kernel has written the tensors, as an operator in place does."""
    for parameter, value in zip(parameters, args, strict=True):
        is_written = parameter.kind == "p" and not parameter.is_const
        if is_written and isinstance(value, Tensor) and not value.is_inference():
            torch.autograd.graph.increment_version(value)


def _check_count(kernel: str, parameters: Sequence[Parameter], args: Sequence[Any]) -> None:
    if len(args) != len(parameters):
        expected = ", ".join(f"{p.type_name} {p.name}".strip() for p in parameters)
        raise TypeError(
            f"smem.RawKernel: {kernel} takes {len(parameters)} arguments ({expected}), and "
            f"{len(args)} came"
        )


def _fail(kernel: str, parameter: Parameter, expected: str, came: str) -> TypeError:
    return TypeError(
        f"smem.RawKernel: {kernel}: {parameter.label} is {parameter.type_name}: expected "
        f"{expected}, got {came}"
    )


def _pointer(kernel: str, parameter: Parameter, value: Any) -> tuple[int, Buffer | None, str]:
    """Return the address of a tensor or an array, its memory and the name of its dtype."""
    if value is None:
        return 0, None, ""
    if isinstance(value, Tensor):
        return _tensor(kernel, parameter, value)
    if isinstance(value, numpy.ndarray):
        return _array(kernel, parameter, value)
    raise _fail(kernel, parameter, "a tensor, a NumPy array or None", type(value).__name__)


def _tensor(kernel: str, parameter: Parameter, value: Tensor) -> tuple[int, Buffer, str]:
    # What fits is seen at once: a small kernel takes some microseconds.
    if not value.is_cpu or value.dtype not in parameter.dtypes or value.layout != torch.strided:
        _check_tensor(kernel, parameter, value, value.is_cpu, "on the CPU")
    _check_values(kernel, parameter, value)
    extent = value.nbytes
    if not value.is_contiguous():
        last = sum(
            (size - 1) * step for size, step in zip(value.shape, value.stride(), strict=True)
        )
        extent = (last + 1) * value.element_size()
    offset = int(value.storage_offset()) * value.element_size()
    is_writable = not parameter.is_const
    buffer = Buffer(parameter.key, value.data_ptr(), extent, offset, is_writable)
    if extent and not buffer.address:
        raise _fail(kernel, parameter, "a tensor that has memory", type(value).__name__)
    return buffer.address, buffer, str(value.dtype).removeprefix("torch.")


def _address_on_gpu(
    kernel: str, parameter: Parameter, value: Any, device: torch.device
) -> ctypes.c_void_p:
    if isinstance(value, Tensor):
        is_there = value.device == device
        # What fits is seen at once: a launch takes microseconds.
        if not is_there or value.dtype not in parameter.dtypes or value.layout != torch.strided:
            _check_tensor(kernel, parameter, value, is_there, f"on {device}, where the kernel runs")
        _check_values(kernel, parameter, value)
        return ctypes.c_void_p(value.data_ptr())
    if value is None:
        return ctypes.c_void_p()
    expected = f"a tensor on {device}, where the kernel runs, or None"
    raise _fail(kernel, parameter, expected, type(value).__name__)


def _check_values(kernel: str, parameter: Parameter, value: Tensor) -> None:
    if value.is_neg() or value.is_conj():
        expected = "a tensor whose memory has its values (resolve_neg(), resolve_conj())"
        raise _fail(kernel, parameter, expected, "one that is negated or conjugated when read")


def _check_tensor(
    kernel: str, parameter: Parameter, value: Tensor, is_there: bool, wanted: str
) -> None:
    if not is_there or value.layout != torch.strided:
        where = value.device if value.layout == torch.strided else value.layout
        raise _fail(kernel, parameter, f"a dense tensor {wanted}", f"one on {where}")
    dtype = value.dtype
    _check_dtype(kernel, parameter, KINDS.get(dtype, "s"), dtype.itemsize, dtype)


def _array(kernel: str, parameter: Parameter, value: numpy.ndarray) -> tuple[int, Buffer, str]:
    if not value.flags.writeable and not parameter.is_const:
        raise _fail(kernel, parameter, "an array that can be written", "a read-only one")
    if not value.dtype.isnative:
        raise _fail(kernel, parameter, "numbers in this machine's byte order", value.dtype.str)
    kind = {"i": "i", "u": "u", "b": "b", "f": "f"}.get(value.dtype.kind, "s")
    if value.dtype == numpy.float16:
        kind = "h"
    _check_dtype(kernel, parameter, kind, value.itemsize, value.dtype.name)
    low, high = numpy.lib.array_utils.byte_bounds(value)
    address = value.ctypes.data
    if low != address:
        raise _fail(kernel, parameter, "an array of no negative strides", "one that has some")
    buffer = Buffer(parameter.key, address, high - low, 0, not parameter.is_const)
    return address, buffer, value.dtype.name


# The dtypes that a pointer's type may have, each with its kind.
KINDS = {
    torch.float64: "f",
    torch.float32: "f",
    torch.float16: "h",
    torch.bfloat16: "B",
    torch.bool: "b",
    torch.uint8: "u",
    torch.uint16: "u",
    torch.uint32: "u",
    torch.uint64: "u",
    torch.int8: "i",
    torch.int16: "i",
    torch.int32: "i",
    torch.int64: "i",
}


def _check_dtype(kernel: str, parameter: Parameter, kind: str, size: int, dtype: object) -> None:
    """Refuse memory of another type."""
    if _fits(parameter, kind, size):
        return
    expected = f"memory of {_dtype_name(parameter.pointee_kind, parameter.pointee_bytes)}"
    raise _fail(kernel, parameter, expected, str(dtype).removeprefix("torch."))


def _fits(parameter: Parameter, kind: str, size: int) -> bool:
    """Return whether a pointer may point to such numbers; structs and void take any."""
    wanted = parameter.pointee_kind
    if wanted in ("s", "v", "p"):
        return True
    same_kind = kind == wanted or (kind in "iub" and wanted in "iub")
    return same_kind and size == parameter.pointee_bytes


def _dtype_name(kind: str, size: int) -> str:
    names = {"h": "float16", "B": "bfloat16", "b": "bool or uint8"}
    prefix = {"f": "float", "i": "int", "u": "uint"}
    return names.get(kind) or f"{prefix[kind]}{8 * size}"


def _value(kernel: str, parameter: Parameter, value: Any) -> Any:
    """Return a parameter that is passed by value as bytes."""
    # To read a number on a GPU would wait for all that comes before.
    if isinstance(value, Tensor) and value.numel() == 1 and value.is_cpu:
        value = value.item()
    if isinstance(value, numpy.generic) and parameter.kind != "s":
        value = value.item()
    if parameter.kind in "iu" and isinstance(value, (int, numbers.Integral)):
        low = -(2 ** (8 * parameter.bytes - 1)) if parameter.kind == "i" else 0
        high = low + 2 ** (8 * parameter.bytes) - 1
        if not low <= int(value) <= high:
            raise ValueError(
                f"smem.RawKernel: {kernel}: {parameter.label} is {parameter.type_name}: {value} is "
                f"not in {low} to {high}"
            )
        return _INTEGERS[parameter.kind, parameter.bytes](int(value))
    if parameter.kind == "b" and isinstance(value, (bool, numbers.Integral)):
        return ctypes.c_bool(bool(value))
    if parameter.kind in "fhB" and isinstance(value, (float, numbers.Real)):
        return _real(parameter, float(value))
    if parameter.kind == "s":
        return _struct(kernel, parameter, value)
    expected = {"i": "an integer", "u": "an integer", "b": "a bool"}.get(parameter.kind, "a number")
    raise _fail(kernel, parameter, expected, type(value).__name__)


_INTEGERS: dict[tuple[str, int], Any] = {
    ("i", 1): ctypes.c_int8,
    ("i", 2): ctypes.c_int16,
    ("i", 4): ctypes.c_int32,
    ("i", 8): ctypes.c_int64,
    ("u", 1): ctypes.c_uint8,
    ("u", 2): ctypes.c_uint16,
    ("u", 4): ctypes.c_uint32,
    ("u", 8): ctypes.c_uint64,
}


def _real(parameter: Parameter, value: float) -> Any:
    # Too large a number is infinite, as in C++.
    if parameter.kind == "f":
        return ctypes.c_float(value) if parameter.bytes == 4 else ctypes.c_double(value)
    dtype = torch.float16 if parameter.kind == "h" else torch.bfloat16
    number = torch.tensor([value], dtype=torch.float64, device="cpu").to(dtype)
    return _bytes(number.view(torch.uint8).numpy().tobytes())


def _struct(kernel: str, parameter: Parameter, value: Any) -> Any:
    is_bytes = isinstance(value, (bytes, bytearray, numpy.generic, ctypes.Structure))
    content = bytes(value) if is_bytes else b""
    if not is_bytes or len(content) != parameter.bytes:
        came = f"{len(content)} bytes" if is_bytes else type(value).__name__
        expected = f"bytes, a NumPy scalar or a ctypes structure of {parameter.bytes} bytes"
        raise _fail(kernel, parameter, expected, came)
    return _bytes(content)


def _bytes(content: bytes) -> Any:
    return (ctypes.c_char * len(content)).from_buffer_copy(content)
