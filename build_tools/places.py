"""Where in the extension its kernels, as they run on the CPU, call the emulator.

The emulator knows a place by the address of code that a call returns to. This notes the line of
each, and where the kernels' shared arrays are in memory, before the binary is stripped.
"""

import json
import re
import runpy
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
# Not imported: the package cannot be before its extension is built.
SYMBOLS = runpy.run_path(str(ROOT / "torch_smem_gemm" / "raw_kernel" / "symbols.py"))

# What reports an access or waits. Of the others, nobody asks where they are called.
CALLBACK = re.compile(r"__tsan_(?!func_)|smem_(?!thread_|block_|grid_)")
# How names of the kernels in this build begin: SMEM_BUILD in csrc/device/platform.h.
NAMESPACE = "10host_build"
# The machine's number in an ELF file.
X86_64, AARCH64 = 62, 183
# Headers that stand for the language.
LANGUAGE = "/csrc/device/", "/csrc/cpu_emulator/"


def is_kernels(file: str) -> bool:
    """Whether a file of the debug information has source of kernels."""
    return file.startswith("/csrc/") and not file.startswith(LANGUAGE)


def describe(library: Path) -> dict[str, Any]:
    """What ``tracing.begin`` reads of an extension that has its symbols."""
    symbols = SYMBOLS["read_symbols"](library)
    lines: dict[str, dict[int, list[int]]] = {}
    found = SYMBOLS["places"](library, return_addresses(library), is_kernels)
    for address, place in found.items():
        file = lines.setdefault(place.file.removeprefix("/csrc/"), {})
        file.setdefault(place.line, []).append(address)
    return {
        "size": symbols.end,
        "lines": lines,
        "arrays": [
            (array.name, array.offset, array.bytes)
            for array in symbols.shared
            if NAMESPACE in array.mangled
        ],
    }


def return_addresses(library: Path) -> list[int]:
    """The addresses behind all calls of the callbacks."""
    callbacks = {
        int(symbol["value"], 16)
        for symbol in SYMBOLS["symbols_of"](library)
        if CALLBACK.match(symbol["name"])
    }
    said = subprocess.check_output(["readelf", "--sections", "--wide", str(library)], text=True)
    section = re.search(r"\] \.text +PROGBITS +(\w+) (\w+) (\w+)", said)
    assert section, f"{library} has no code"
    begin, offset, size = (int(number, 16) for number in section.groups())
    content = library.read_bytes()
    (machine,) = struct.unpack_from("<H", content, 18)
    code = content[offset : offset + size]
    calls = {X86_64: calls_x86_64, AARCH64: calls_aarch64}[machine]
    return [begin + at for at, callee in calls(code) if begin + callee in callbacks]


def calls_x86_64(code: bytes) -> Iterator[tuple[int, int]]:
    """Yield where a direct call returns to and its callee, of all bytes that may be one."""
    at = code.find(0xE8)
    while 0 <= at <= len(code) - 5:
        yield at + 5, at + 5 + struct.unpack_from("<i", code, at + 1)[0]
        at = code.find(0xE8, at + 1)


def calls_aarch64(code: bytes) -> Iterator[tuple[int, int]]:
    """The same of the instruction BL, which counts in words."""
    for i, (word,) in enumerate(struct.iter_unpack("<I", code[: len(code) // 4 * 4])):
        if word >> 26 == 0b100101:
            words = (word & 0x3FFFFFF ^ 0x2000000) - 0x2000000
            yield 4 * i + 4, 4 * (i + words)


def write(library: Path) -> str:
    """The description as JSON; the library loses its symbols."""
    text = json.dumps(describe(library), separators=(",", ":")) + "\n"
    subprocess.run(["strip", str(library)], check=True)
    return text
