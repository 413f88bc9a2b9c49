"""Compiles small kernels against csrc/cpu_emulator while the tests run, and runs them.

Each test program is one file of tests/cpu_emulator; it prints JSON. The runtime is compiled once,
by the first process that needs it, for all processes of the test run.
"""

import atexit
import fcntl
import functools
import json
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from torch.utils import cpp_extension

from build_tools.precompiled import STANDARD
from torch_smem_gemm.raw_kernel.flags import INSTRUMENTED
from torch_smem_gemm.raw_kernel.report import launch_of
from torch_smem_gemm.raw_kernel.symbols import Place, places, read_symbols
from torch_smem_gemm.trace_report import Fault, Launch

ROOT = Path(__file__).resolve().parent.parent
CSRC = ROOT / "csrc"
PROGRAMS = ROOT / "tests" / "cpu_emulator"
FLAGS = ["-std=c++20", "-O1", "-Wno-unknown-pragmas", "-pthread", "-fPIE"]
# As the extension's own kernels, but less optimised: these are compiled in every session. Not -O0,
# which leaves calls that store what they return: g++ makes no callback for those.
KERNEL_FLAGS = [*INSTRUMENTED, "-g1", "-O1"]
# Headers that stand for the language, and those of the system and of torch.
LANGUAGE = ("/usr/", *(str(CSRC / name) for name in ("device", "cpu_emulator")))


class CompileError(Exception):
    """What the compiler said."""


def compiler() -> list[str]:
    """The command that torch compiles extensions with; skips the test where there is none."""
    command = shlex.split(cpp_extension.get_cxx_compiler())
    if not shutil.which(command[0]):
        pytest.skip(f"needs a C++ compiler, and there is no {command[0]}")
    return command


@functools.cache
def folder() -> Path:
    """Where this session's objects and programs lie."""
    path = tempfile.mkdtemp(prefix="smem_host_run_")
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return Path(path)


def _call(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise CompileError(done.stderr[:4000])


def compile_object(
    source: Path,
    *,
    flags: Sequence[str] = (),
    overlay: Path | None = None,
    name: str = "",
    into: Path | None = None,
) -> Path:
    """Compile one file. Headers and kernels in ``overlay`` stand in for those of csrc."""
    target = (into or folder()) / f"{name or source.stem}.o"
    include = [*([overlay] if overlay else []), CSRC, ROOT / "tests"]
    folders = [f"-I{path}" for path in include]
    folders += [f"-isystem{path}" for path in cpp_extension.include_paths()]
    _call([*compiler(), *FLAGS, *flags, *folders, "-c", str(source), "-o", str(target)])
    return target


def link(name: str, objects: Sequence[Path]) -> Path:
    """Make a program of what :func:`compile_object` made."""
    program = folder() / name
    _call([*compiler(), *FLAGS, "-pie", *map(str, objects), "-o", str(program)])
    return program


def precompiled_header(into: Path) -> Path:
    """The standard headers, parsed once: half of what the emulator's files cost."""
    header = into / "standard.h"
    header.write_text("".join(f"#include <{name}>\n" for name in STANDARD))
    _call([*compiler(), *FLAGS, "-x", "c++-header", str(header), "-o", f"{header}.gch"])
    return header


@functools.cache
def runtime() -> dict[str, Path]:
    """The objects that every program needs: the emulator, launches, and the common main."""
    compiler()
    patterns = (f"cpu_emulator/{folder}*.cpp" for folder in ("", "sm90/", "trace/"))
    sources = [source for pattern in patterns for source in CSRC.glob(pattern)]
    sources += [CSRC / "device/launch.cpp", CSRC / "bindings/trace_report.cpp"]
    sources += [PROGRAMS / "report.cpp"]
    shared = Path(os.environ["SMEM_TEST_RUN"]) / "runtime"
    shared.mkdir(exist_ok=True)
    done = shared / "done"
    with (shared / "lock").open("w") as lock, ThreadPoolExecutor(2) as pool:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            flags = ["-include", str(precompiled_header(shared))]
            list(pool.map(lambda x: compile_object(x, flags=flags, into=shared), sources))
            done.touch()
    return {source.stem: shared / f"{source.stem}.o" for source in sources}


def run(program: Path, given: str = "") -> Any:
    """What the program printed after it was given that to read: mostly results by name."""
    done = subprocess.run([program], input=given, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, f"{program.name} ended with {done.returncode}: {done.stderr}"
    return json.loads(done.stdout)


@functools.cache
def results(stem: str) -> dict[str, Any]:
    """Build and run tests/cpu_emulator/<stem>.cpp, once a session."""
    objects = [path for stem, path in runtime().items() if stem != "report"]
    return run(link(stem, [compile_object(PROGRAMS / f"{stem}.cpp"), *objects]))


@dataclass(frozen=True)
class Recorded:
    """What a case of a program did."""

    launches: tuple[Launch, ...]
    error: str

    @property
    def faults(self) -> list[Fault]:
        return [fault for launch in self.launches for fault in launch.faults]


def trace_shipped(
    file: str, kernel: str, *, overlay: Path | None = None, name: str = "", second_file: str = ""
) -> dict[str, Recorded]:
    """Trace a kernel of a file on small ragged problems; ``overlay`` is first to be searched."""
    flags = [*KERNEL_FLAGS, f'-DSHIPPED_FILE="{file}"', f"-DSHIPPED=smem::{kernel}"]
    if second_file:
        flags.append(f'-DSECOND_SHIPPED_FILE="{second_file}"')
    own = compile_object(PROGRAMS / "shipped.cpp", flags=flags, overlay=overlay, name=name)
    return trace_program(link(own.stem, [own, *runtime().values()]))


def trace_program(program: Path) -> dict[str, Recorded]:
    """Run a program with report.cpp's main; return what was recorded of its cases."""
    arrays = read_symbols(program).shared
    given = "\n".join(f"{x.offset} {x.bytes} {x.name}" for x in arrays)
    found = {}
    for name, case in run(program, given).items():
        report = case["report"]
        resolve = functools.partial(_places, program, report["begin"])
        found[name] = Recorded(
            tuple(
                launch_of(launch, report["tensors"], resolve, _source)
                for launch in report["launches"]
            ),
            case["error"],
        )
    return found


def _places(program: Path, begin: int, addresses: set[int]) -> dict[int, Place]:
    found = places(program, {address - begin for address in addresses}, _is_kernels)
    return {address + begin: place for address, place in found.items()}


def _is_kernels(file: str) -> bool:
    return not file.startswith(LANGUAGE) and "/torch/" not in file


@functools.cache
def _source(file: str) -> list[str]:
    return Path(file).read_text().splitlines()
