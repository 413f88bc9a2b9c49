"""What a cubin, an ELF file, tells of a kernel: its parameters and its module's variables."""

from __future__ import annotations

import ctypes
import re
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from torch_smem_gemm.raw_kernel.arguments import CParameter, Parameter, parameter_of

_SYMTAB, _NOBITS, _OBJECT = 2, 8, 1
_VARIABLES = (".nv.global", ".nv.constant3")  # the sections of __device__ and __constant__ ones
TABLE = "smem_parameters"  # see smem_parameters.h


@dataclass(frozen=True)
class Symbol:
    """A variable of a module."""

    mangled: str
    content: bytes  # with which it begins

    @property
    def name(self) -> str:
        """``weights`` of ``_ZN5model7weightsE``, the variable ``model::weights``."""
        names, rest = [self.mangled], self.mangled.removeprefix("_ZN").removeprefix("_Z")
        while match := re.match(r"L?(\d+)", rest):
            end = match.end() + int(match[1])
            names.append(rest[match.end() : end])
            rest = rest[end:]
        return names[-1]


@dataclass(frozen=True)
class _Section:
    name: int
    kind: int
    offset: int
    size: int
    link: int


def variables(cubin: bytes) -> Iterator[Symbol]:
    """Yield the variables in global and in constant memory."""
    (start,) = struct.unpack_from("<Q", cubin, 0x28)
    size, count, names_at = struct.unpack_from("<HHH", cubin, 0x3A)
    sections = []
    for i in range(count):
        name, kind, _, _, offset, length, link = struct.unpack_from(
            "<IIQQQQI", cubin, start + i * size
        )
        sections.append(_Section(name, kind, offset, length, link))

    def text(table: _Section, position: int) -> str:
        begin = table.offset + position
        return cubin[begin : cubin.index(b"\0", begin)].decode()

    (symbols,) = (section for section in sections if section.kind == _SYMTAB)
    for at in range(symbols.offset, symbols.offset + symbols.size, 24):
        label, info, _, index, value, length = struct.unpack_from("<IBBHQQ", cubin, at)
        if info & 15 != _OBJECT or not 0 < index < count:
            continue
        section = sections[index]
        name = text(sections[names_at], section.name)
        if name.startswith(_VARIABLES):
            begin = section.offset + value
            content = bytes(length) if section.kind == _NOBITS else cubin[begin : begin + length]
            yield Symbol(text(sections[symbols.link], label), content)


def parameters(cubin: bytes, names: Sequence[str]) -> list[Parameter]:
    """Return the parameters of the kernel; ``names`` are those in the source, as far as known."""
    (table,) = (symbol.content for symbol in variables(cubin) if symbol.mangled == TABLE)
    count = len(table) // ctypes.sizeof(CParameter) - 1
    described = (CParameter * count).from_buffer_copy(table)
    known = names if len(names) == count else [""] * count
    return [parameter_of(described[i], i, known[i]) for i in range(count)]
