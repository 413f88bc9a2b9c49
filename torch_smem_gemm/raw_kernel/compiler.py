"""Compiles a CUDA kernel for the CPU, by the system's g++, into the cache."""

from __future__ import annotations

import errno
import functools
import hashlib
import json
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from torch_smem_gemm import _C
from torch_smem_gemm.raw_kernel import cache, source, tools
from torch_smem_gemm.raw_kernel.errors import CompileError, compile_error, not_a_kernel
from torch_smem_gemm.raw_kernel.flags import INSTRUMENTED
from torch_smem_gemm.raw_kernel.includes import Sources, errors_by_line
from torch_smem_gemm.raw_kernel.symbols import read_symbols, undefined_shared_arrays

# The headers that stand for CUDA's: among the sources in a checkout, in the package of a wheel.
_PACKAGE = Path(__file__).resolve().parent.parent
_SOURCES = _PACKAGE.parent / "csrc" / "cpu_emulator" / "cuda"
INCLUDE = _SOURCES if _SOURCES.is_dir() else _PACKAGE / "_cuda"

# The most dynamic shared memory that a block of any GPU can have (228 KiB), for which every
# `extern __shared__` array stands.
DYNAMIC_SHARED_BYTES = 228 * 1024

GAP_BYTES = 256

# Local variables of one function: the emulator's stacks hold three such functions.
MAX_FRAME_BYTES = 64 * 1024

# As nvcc: C++17, and a product and a sum become an fma.
FLAGS = [
    "-std=gnu++17",
    "-fPIC",
    "-fvisibility=hidden",
    "-fno-exceptions",
    *INSTRUMENTED,
    # `#pragma unroll` is for loops of a known number of trips: others grow without bound.
    "-fdisable-rtl-loop2_unroll",
    "-fno-plt",
    # It would become puts, of which the emulator knows nothing.
    "-fno-builtin-printf",
    "-ffp-contract=fast",
    "-w",
]


@dataclass(frozen=True)
class Unit:
    """A compiled kernel in the cache."""

    library: Path
    arrays: list[tuple[str, int, int, bool]]  # name, offset from the anchor, bytes, is dynamic
    variables: list[tuple[str, int, int, bool]]  # name, address in the library, bytes, is constant
    entry: int  # address in the library
    end: int  # of the library in memory
    parameter_names: list[str]


def compile_kernel(text: str, name: str, path: str, options: Sequence[str] = ()) -> Unit:
    """Compile a kernel, or find it in the cache.

    Args:
        text: the source.
        name: the kernel, with template arguments if it has parameters of templates.
        path: the source's file, for messages and for what it includes.
        options: of g++, such as ``-DTILE=32``.

    Raises CompileError; RuntimeError if there is no g++.
    """
    compiler = find_compiler()
    search = search_path(options)
    flags = [*FLAGS, *_cpu_flags(), *options, *(f"-I{folder}" for folder in search)]
    identity = [text, name, path, *flags, *compiler, str(_C.__file__), own_files()]

    def make(folder: Path) -> None:
        _build(folder, text, name, path, [compiler[0], *flags], search)

    entry, description = cache.unit(identity, make)
    return Unit(
        library=entry / "unit.so",
        arrays=[tuple(array) for array in description["arrays"]],
        variables=[tuple(variable) for variable in description["variables"]],
        entry=description["entry"],
        end=description["end"],
        parameter_names=description["parameter_names"],
    )


@functools.cache
def find_compiler() -> tuple[str, str]:
    """Return g++'s path and version.

    Raises RuntimeError if there is none: the callbacks are those of GCC.
    """
    for name in (os.environ.get("CXX"), "g++"):
        path = shutil.which(name) if name else None
        if not path:
            continue
        said = tools.run([path, "--version"]).stdout
        if "Free Software Foundation" in said:
            return path, said.splitlines()[0]
    raise RuntimeError(
        "smem.RawKernel: a kernel on CPU tensors is compiled by g++, and there is none on PATH "
        "(Debian and Ubuntu: apt install g++)"
    )


@functools.cache
def _cpu_flags() -> list[str]:
    """Return the flags for fused multiply-adds, where this CPU has them, as every GPU has."""
    try:
        flags = re.search(r"^flags\s*:(.*)$", Path("/proc/cpuinfo").read_text(), re.M)
    except OSError:
        return []
    words = flags[1].split() if flags else []
    return [f"-m{name}" for name in ("fma", "f16c") if name in words]


def search_path(options: Sequence[str]) -> list[Path]:
    """Return the folders of options such as -Iinclude, which are relative to where Python runs."""
    joined = re.findall(r"(?:^|\0)-(?:I|iquote|isystem)\0?([^\0]+)", "\0".join(options))
    return [Path(folder).resolve() for folder in joined]


@functools.cache
def own_files() -> str:
    """Return a digest of the headers that stand for CUDA's, and of what translates a source."""
    modules = Path(__file__).parent.glob("*.py")
    paths = sorted(path for path in (*INCLUDE.rglob("*"), *modules) if path.is_file())
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in paths)).hexdigest()


def _build(
    folder: Path, text: str, name: str, path: str, command: list[str], search: Sequence[Path]
) -> None:
    unit, headers = folder / "unit.cpp", folder / "headers"
    headers.mkdir()
    assembly, dependencies = folder / "unit.s", folder / "unit.d"
    instrumented = [
        *command,
        # Before the source, whose macros might change it.
        *("-include", "cuda_runtime.h", "-include", "smem_unit.h", f"-I{INCLUDE}"),
        # A source that is no file is found under its name alone.
        f"-fdebug-prefix-map={folder}=",
        *("-MD", "-MF", str(dependencies), "-S", str(unit), "-o", str(assembly)),
    ]

    def translate(errors: Mapping[tuple[str, int], str], left_out: Mapping[str, str]) -> Sources:
        sources = Sources(name, headers, search, errors, left_out=dict(left_out))
        # Lines count from 1 in the user's file.
        code = sources.add(text, path)
        found = {full for read in sources.texts for full in source.qualified(read, name)}
        if len(found) > 1:
            names = " and ".join(sorted(found))
            raise CompileError(f"smem.RawKernel: {name} may be {names}: name one of them")
        if not found and any(source.is_device_function(read, name) for read in sources.texts):
            raise not_a_kernel(name, sources)
        entry = next(iter(found), name)
        unit.write_text(f'{code}#line 1 "smem_entry"\nSMEM_ENTRY({entry})\n', encoding="utf-8")
        return sources

    def run(command: list[str]) -> None:
        if said := _said(command, folder):
            raise compile_error(name, said, sources)

    sources = translate({}, {})
    while said := _said(instrumented, folder):
        before, sources = (
            sources,
            translate({**errors_by_line(said), **sources.errors}, sources.left_out),
        )
        if sources.left_out == before.left_out:
            raise compile_error(name, said, sources)
    assembly.write_text(_adjusted(assembly.read_text("utf-8"), name), encoding="utf-8")
    compiled = folder / "unit.o"
    run([command[0], "-c", str(assembly), "-o", str(compiled)])
    parts = [str(compiled)]
    dynamic = undefined_shared_arrays(compiled)
    if dynamic:
        storage = folder / "dynamic.s"
        storage.write_text(_storage(dynamic))
        parts.append(str(storage))
    library = folder / "unit.so"
    # The callbacks and the emulator are in the extension, which this process has loaded.
    link = [command[0], "-shared", "-o", str(library), *parts, _C.__file__, "-Wl,-z,defs"]
    run(link)
    symbols = read_symbols(library)
    constants = set().union(*map(source.constants, sources.texts))
    description = {
        "arrays": [
            (array.name, array.offset, array.bytes, array.mangled in dynamic)
            for array in symbols.shared
        ],
        "variables": [
            (variable.name, variable.offset, variable.bytes, variable.name in constants)
            for variable in symbols.variables
        ],
        "entry": symbols.entry,
        "end": symbols.end,
        "parameter_names": next(
            filter(None, (source.parameter_names(code, name) for code in sources.texts)), []
        ),
        "includes": _stamps(dependencies.read_text(encoding="utf-8"), folder)
        | {str(file): cache.stamp(str(file)) for file in sources.files},
    }
    (folder / "unit.json").write_text(json.dumps(description))
    for file in (unit, assembly, compiled, dependencies):
        file.unlink()
    shutil.rmtree(headers)


def _adjusted(assembly: str, name: str) -> str:
    """Return the assembly with calls of the emulator in loops that do nothing, and with gaps.

    Raises CompileError for a function with too much local memory.
    """
    frame = max(map(int, re.findall(r"^\tsubq\t\$(\d+), %rsp$", assembly, re.M)), default=0)
    if frame > MAX_FRAME_BYTES:
        raise CompileError(
            f"smem.RawKernel: {name} has a function with {frame} bytes of local variables, and the "
            f"CPU takes at most {MAX_FRAME_BYTES}"
        )
    # The label of a loop that jumps to itself; between them are only directives.
    empty_loop = r"^(\.L\d+):\n((?:\t\..*\n|\.L\w+:\n)*)\tjmp\t\1\n"
    call = r"\1:\n\2\tcall\tsmem_endless_loop@PLT\n\tjmp\t\1\n"
    return _with_gaps(re.sub(empty_loop, call, assembly, flags=re.MULTILINE))


def _with_gaps(assembly: str) -> str:
    """Return the assembly with a gap after every shared array.

    What is beyond an array's end must not be another array, or the emulator could not tell.
    """
    parts = re.split(r"^(\t\.(?:section|text|data|bss)\b.*\n)", assembly, flags=re.MULTILINE)
    for i in range(1, len(parts), 2):
        if parts[i].startswith("\t.section\t.tbss"):
            array = r"^(\t\.zero\t\d+\n)"
            parts[i + 1] = re.sub(array, rf"\1\t.zero\t{GAP_BYTES}\n", parts[i + 1], flags=re.M)
    return "".join(parts)


def _storage(names: Sequence[str]) -> str:
    """Return assembly for the dynamic shared memory, at which all of ``names`` begin."""
    labels = "".join(f".globl {name}\n.type {name}, @object\n{name}:\n" for name in names)
    return (
        f'.section .tbss,"awT",@nobits\n.balign 128\n{labels}.zero {DYNAMIC_SHARED_BYTES}\n'
        '.section .note.GNU-stack,"",@progbits\n'
    )


def _said(command: list[str], folder: Path) -> str:
    """Run a command in a folder; return what it said if it failed."""
    done = tools.run(command, folder)
    if done.returncode and os.strerror(errno.ENOSPC) in done.stderr:
        raise cache.unusable(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), folder.parent)
    return (done.stderr or "it says nothing") if done.returncode else ""


def _stamps(rule: str, folder: Path) -> dict[str, list[int]]:
    """Return time and size of the user's files in a dependency rule of make."""
    escaped = re.findall(r"(?:\\ |\S)+", rule.split(":", 1)[1].replace("\\\n", " "))
    paths = (re.sub(r"\\([ #])", r"\1", path).replace("$$", "$") for path in escaped)
    not_theirs = (str(folder), str(INCLUDE), "/usr/")
    return {path: cache.stamp(path) for path in paths if not path.startswith(not_theirs)}
