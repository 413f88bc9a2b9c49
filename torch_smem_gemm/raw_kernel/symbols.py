"""What binutils' readelf and addr2line tell of a compiled kernel.

The build reads this file, too, before there is a package that could be imported.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_SYMBOL = re.compile(
    r"^\s*\d+: (?P<value>[0-9a-f]+)\s+(?P<size>\d+|0x[0-9a-f]+) (?P<type>\w+)\s+(?P<bind>\w+)\s+"
    r"(?P<visibility>\w+)\s+(?P<section>\w+) (?P<name>.*)$"
)

# Variables of the compiler, of the linker and of this package. A user's name, too, may begin with
# an underscore.
_OWN = re.compile(
    r"guard variable|TLS |smem_|completed\.|_DYNAMIC$|_GLOBAL_|__dso_handle$|__TMC_END__$"
    r"|__FRAME_END__$|__tls_guard$|__\w+_array_entry$"
)


@dataclass(frozen=True)
class Symbol:
    """A variable: ``offset`` is from the anchor in shared memory, else an address.

    One without a name is the compiler's note of whether a shared object is constructed.
    """

    name: str
    mangled: str
    offset: int
    bytes: int


@dataclass
class Symbols:
    """The symbols of a compiled kernel."""

    entry: int = 0  # address of smem_entry
    end: int = 0  # of the last segment in memory
    shared: list[Symbol] = field(default_factory=list)
    variables: list[Symbol] = field(default_factory=list)


def _output(command: Sequence[str], *, given: str | None = None) -> str:
    """Run a program that must succeed, in English; return its output."""
    return subprocess.run(
        command,
        input=given,
        capture_output=True,
        check=True,
        env=os.environ | {"LC_ALL": "C.UTF-8"},
        encoding="utf-8",
        errors="replace",
    ).stdout


def read_symbols(library: Path) -> Symbols:
    """Return the variables of a compiled kernel and where its code is."""
    found = Symbols(end=_end_of_segments(library))
    anchor = 0
    mangled = symbols_of(library)
    names = _demangle([symbol["name"] for symbol in mangled])
    for symbol, name in zip(mangled, names, strict=True):
        value, size = int(symbol["value"], 16), int(symbol["size"], 0)
        if symbol["name"] == "smem_entry":
            found.entry = value
        if symbol["name"] == "smem_anchor":
            anchor = value
        elif symbol["type"] == "TLS" and name.startswith("guard variable"):
            found.shared.append(Symbol("", symbol["name"], value, size))
        elif symbol["section"] == "UND" or not _is_the_users(name):
            continue
        elif symbol["type"] == "TLS":
            found.shared.append(Symbol(_last_part(name), symbol["name"], value, size))
        elif symbol["type"] == "OBJECT" and size:
            found.variables.append(Symbol(_last_part(name), symbol["name"], value, size))
    found.shared = [
        Symbol(array.name, array.mangled, array.offset - anchor, array.bytes)
        for array in found.shared
    ]
    return found


def _is_the_users(name: str) -> bool:
    """Return whether a variable is not the compiler's or this package's own."""
    return not _OWN.match(name)


def undefined_shared_arrays(compiled: Path) -> list[str]:
    """Return the symbols of the ``extern __shared__`` arrays of an object file."""
    return [
        symbol["name"]
        for symbol in symbols_of(compiled)
        if symbol["type"] == "TLS" and symbol["section"] == "UND"
    ]


def symbols_of(path: Path) -> list[dict[str, str]]:
    said = _output(["readelf", "--syms", "--wide", str(path)])
    # The second table has all of the first, the dynamic one, which may be absent.
    table = said.rpartition("Symbol table '.symtab'")[2]
    matches = (_SYMBOL.match(line) for line in table.splitlines())
    return [match.groupdict() for match in matches if match]


def _end_of_segments(library: Path) -> int:
    said = _output(["readelf", "--segments", "--wide", str(library)])
    ends = [
        int(fields[2], 16) + int(fields[5], 16)
        for fields in (line.split() for line in said.splitlines())
        if fields[:1] == ["LOAD"]
    ]
    return max(ends)


def _demangle(names: Sequence[str]) -> list[str]:
    said = _output(["c++filt"], given="\n".join(names))
    return said.split("\n")[: len(names)]


def _last_part(name: str) -> str:
    """Return ``tile`` of ``transpose<float>(float const*, int)::tile``."""
    match = re.search(r"(\w+)(?:\[abi:\w+\])?$", name)
    return match[1] if match else name


@dataclass(frozen=True)
class Place:
    """A line of the source."""

    file: str
    line: int


def places(
    library: Path, addresses: Collection[int], is_kernels: Callable[[str], bool]
) -> dict[int, Place]:
    """Return the line that each return address belongs to.

    Where functions are inlined, that is the innermost line in a file for which ``is_kernels``
    holds: the others stand for the language itself.
    """
    ordered = sorted(addresses)
    # The call itself is before the address that it returns to.
    given = "\n".join(hex(address - 1) for address in ordered)
    said = _output(["addr2line", "-e", str(library), "-a", "-i"], given=given)
    frames: list[list[Place]] = []
    for line in said.splitlines():
        if line.startswith("0x"):
            frames.append([])
            continue
        file, _, number = line.partition(" (")[0].rpartition(":")
        frames[-1].append(Place(file, int(number) if number.isdigit() else 0))
    return {
        address: next((place for place in chain if is_kernels(place.file)), chain[0])
        for address, chain in zip(ordered, frames, strict=True)
    }
