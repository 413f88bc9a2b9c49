"""Headers that g++ parses once and not in every C++ file: half of what a small file costs.

A precompiled header holds for one set of flags only, so there are three. clang-tidy reads the files
without them, and so finds one that does not include what it uses.
"""

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

STANDARD = (
    "algorithm",
    "array",
    "atomic",
    "bit",
    "cmath",
    "cstdint",
    "cstring",
    "functional",
    "map",
    "memory",
    "mutex",
    "optional",
    "stdexcept",
    "string",
    "tuple",
    "unordered_map",
    "utility",
    "vector",
)
# What each header includes. Python's comes first, as it asks for.
HEADERS = {
    "standard": STANDARD,
    "bindings": (
        "Python.h",
        *STANDARD,
        "torch/csrc/stable/library.h",
        "torch/csrc/stable/ops.h",
        "torch/csrc/stable/tensor.h",
    ),
    "kernels_on_cpu": STANDARD,
}
RULE = """
rule precompile
  command = $cxx -MMD -MF $out.d $cflags -x c++-header -c $in -o $out $post_cflags
  depfile = $out.d
  deps = gcc
"""


def header_of(file: str) -> str:
    """Which of HEADERS a C++ file of csrc/ gets."""
    if file.endswith("_host.cpp"):
        return "kernels_on_cpu"
    return "bindings" if "/csrc/bindings/" in file else "standard"


def header_text(name: str) -> str:
    return "".join(f"#include <{header}>\n" for header in HEADERS[name])


def with_precompiled_headers(ninja: str, folder: Path, kernel_flags: Sequence[str]) -> str:
    """A file of ninja's that first compiles the headers in ``folder``, and then uses them.

    Args:
        ninja: the file as BuildExtension writes it.
        folder: has the files NAME.h of HEADERS.
        kernel_flags: additional flags for the kernels that run on the CPU.
    """
    flags = {name: kernel_flags if name == "kernels_on_cpu" else () for name in HEADERS}

    def compiled(name: str) -> str:
        return f"{folder}/{name}.h.gch".replace(" ", "$ ")

    def statement(build: str, name: str, *more: str) -> str:
        return f"{build}\n  post_cflags = $post_cflags {shlex.join([*flags[name], *more])}"

    def using_one(found: re.Match[str]) -> str:
        name = header_of(found["file"])
        use = ("-Winvalid-pch", "-include", f"{folder}/{name}.h")
        return statement(f"{found[0]} | {compiled(name)}", name, *use)

    ninja = re.sub(r"^build .+: compile (?P<file>.+)$", using_one, ninja, flags=re.M)
    builds = (
        statement(f"build {compiled(name)}: precompile {compiled(name).removesuffix('.gch')}", name)
        for name in HEADERS
    )
    return re.sub(r"^(?=build )", "\n".join([RULE, *builds, ""]), ninja, count=1, flags=re.M)
