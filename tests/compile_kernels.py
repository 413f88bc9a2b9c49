"""Compiles small kernels against csrc/cpu_emulator while the tests run, and runs them.

Each test program is one file of tests/cpu_emulator; it prints JSON. The runtime is compiled once.
"""

import atexit
import functools
import json
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from torch.utils import cpp_extension

ROOT = Path(__file__).resolve().parent.parent
CSRC = ROOT / "csrc"
PROGRAMS = ROOT / "tests" / "cpu_emulator"
FLAGS = ["-std=c++20", "-O1", "-Wno-unknown-pragmas", "-pthread"]


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
    source: Path, *, flags: Sequence[str] = (), overlay: Path | None = None, name: str = ""
) -> Path:
    """Compile one file. Headers and kernels in ``overlay`` stand in for those of csrc."""
    target = folder() / f"{name or source.stem}.o"
    include = [*([overlay] if overlay else []), CSRC, ROOT / "tests"]
    places = [f"-I{path}" for path in include]
    places += [f"-isystem{path}" for path in cpp_extension.include_paths()]
    _call([*compiler(), *FLAGS, *flags, *places, "-c", str(source), "-o", str(target)])
    return target


def link(name: str, objects: Sequence[Path]) -> Path:
    """Make a program of what :func:`compile_object` made."""
    program = folder() / name
    _call([*compiler(), *FLAGS, *map(str, objects), "-o", str(program)])
    return program


@functools.cache
def runtime() -> dict[str, Path]:
    """The objects that every program needs: the emulator, launches, and the common main."""
    compiler()
    patterns = "cpu_emulator/*.cpp", "cpu_emulator/trace/*.cpp"
    sources = [source for pattern in patterns for source in CSRC.glob(pattern)]
    sources += [CSRC / "device/launch.cpp", CSRC / "gemm/simt/heuristics.cpp"]
    with ThreadPoolExecutor(2) as pool:
        jobs = {
            source.stem: pool.submit(compile_object, source, name=f"runtime_{source.stem}")
            for source in (*sources, PROGRAMS / "report.cpp")
        }
        return {stem: job.result() for stem, job in jobs.items()}


def build(
    source: Path,
    *,
    traced: bool = True,
    flags: Sequence[str] = (),
    overlay: Path | None = None,
    name: str = "",
) -> Path:
    """Compile a program and link it with the runtime."""
    objects = [path for stem, path in runtime().items() if traced or stem != "report"]
    defines = ["-DSMEM_TRACED="] if traced else []
    own = compile_object(source, flags=[*defines, *flags], overlay=overlay, name=name)
    return link(own.stem, [own, *objects])


def run(program: Path, given: str = "") -> Any:
    """What the program printed after it was given that to read: mostly results by name."""
    done = subprocess.run([program], input=given, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, f"{program.name} ended with {done.returncode}: {done.stderr}"
    return json.loads(done.stdout)


@functools.cache
def results(stem: str, *, traced: bool = True) -> dict[str, Any]:
    """Build and run tests/cpu_emulator/<stem>.cpp, once a session."""
    return run(build(PROGRAMS / f"{stem}.cpp", traced=traced))


def marked_lines(source: Path, word: str) -> dict[str, int]:
    """The lines that end in a comment ``// WORD: name``, by name."""
    lines = {}
    for number, text in enumerate(source.read_text().splitlines(), 1):
        if found := re.search(rf"// {word}: (\w+)$", text):
            assert found[1] not in lines, f"{found[1]} marks two lines"
            lines[found[1]] = number
    return lines
