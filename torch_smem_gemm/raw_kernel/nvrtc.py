"""Compiles a CUDA kernel for a GPU, by NVRTC, into the cache."""

from __future__ import annotations

import functools
import json
import re
import shutil
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from torch_smem_gemm.raw_kernel import cache, source, toolkit
from torch_smem_gemm.raw_kernel.compiler import INCLUDE, own_files, search_path
from torch_smem_gemm.raw_kernel.cubin import TABLE, variables
from torch_smem_gemm.raw_kernel.errors import CompileError
from torch_smem_gemm.raw_kernel.includes import Sources
from torch_smem_gemm.raw_kernel.text import mask

FLAGS = [
    "-default-device",  # a constexpr function without __device__, as g++ takes it on the CPU
    "-lineinfo",
    "-w",
]
_OWN_HEADERS = ("smem_nvrtc.h", "smem_parameters.h")

# Headers of the C library, for whose names smem_nvrtc.h stands, in CUDA's own headers too.
_C_LIBRARY = [
    f"{name}.h"
    for name in (
        *("assert", "ctype", "errno", "float", "inttypes", "limits", "math", "memory", "stdbool"),
        *("stddef", "stdint", "stdio", "stdlib", "string", "strings", "time", "unistd"),
    )
]
# Headers of libraries that the host calls: the toolkit has them, and NVRTC cannot read them.
_HOST_LIBRARY = re.compile(
    r"cudnn|cufft|curand\.h|cusolver|cusparse|cuda_profiler|cudaProfiler|cuda_runtime|nccl"
    r"|npp|nvml|nvrtc|nvtx|nvToolsExt|device_launch_parameters|driver_types|helper_"
)
_ERROR = re.compile(r"^(?P<file>[^\n]+?)\((?P<line>\d+)\): (?:catastrophic )?error\b.*$", re.M)


@dataclass(frozen=True)
class Cubin:
    """A kernel compiled for a GPU, in the cache."""

    file: Path
    entry: str  # the kernel's symbol
    parameter_names: list[str]
    variables: dict[str, str]  # the user's, and their symbols


def architecture(capability: tuple[int, int]) -> str:
    """Return the GPU's name for NVRTC, with the features of this very one where it has some.

    Raises RuntimeError if NVRTC does not know it.
    """
    number = 10 * capability[0] + capability[1]
    nvrtc = toolkit.nvrtc()
    known = toolkit.result(nvrtc.nvrtcGetSupportedArchs(), "nvrtcGetSupportedArchs")
    if number not in known:
        version = ".".join(map(str, toolkit.result(nvrtc.nvrtcVersion(), "nvrtcVersion")))
        raise RuntimeError(
            f"smem.RawKernel: NVRTC {version} cannot compile for compute capability "
            f"{capability[0]}.{capability[1]}"
        )
    return f"sm_{number}a" if capability >= (9, 0) else f"sm_{number}"


def compile_kernel(
    text: str, name: str, path: str, options: Sequence[str], capability: tuple[int, int]
) -> Cubin:
    """Compile a kernel for a GPU, or find it in the cache.

    Args:
        text: the source.
        name: the kernel, with template arguments if it has parameters of templates.
        path: the source's file, for messages and for what it includes.
        options: of NVRTC, such as ``-DTILE=32``.
        capability: the GPU's compute capability.

    Raises CompileError; ModuleNotFoundError if there is no NVRTC.
    """
    nvrtc = toolkit.nvrtc()
    version = toolkit.result(nvrtc.nvrtcVersion(), "nvrtcVersion")
    search = search_path(options)
    flags = [f"-arch={architecture(capability)}", *FLAGS, *_without_search_path(options)]
    if not any(re.match(r"--?std=", option) for option in options):
        flags.append("-std=c++17")
    flags += [f"-I{folder}" for folder in (*search, *toolkit.include_folders())]
    # CUDA's own headers are read as they are.
    theirs = [folder for folder in search if not (folder / "cuda_fp16.h").is_file()]
    identity = ["nvrtc", str(version), text, name, path, *flags, own_files()]

    def make(folder: Path) -> None:
        _build(folder, text, name, path, flags, theirs)

    entry, description = cache.unit(identity, make)
    return Cubin(
        file=entry / "unit.cubin",
        entry=description["entry"],
        parameter_names=description["parameter_names"],
        variables=description["variables"],
    )


def _without_search_path(options: Sequence[str]) -> list[str]:
    """Return the options but those that name folders of headers."""
    joined = re.sub(r"(?:^|\0)-(?:I|iquote|isystem)\0?[^\0]+", "", "\0".join(options))
    return [option for option in joined.split("\0") if option]


def _build(
    folder: Path, text: str, name: str, path: str, flags: list[str], search: Sequence[Path]
) -> None:
    """Write unit.cubin and unit.json. Raises CompileError."""
    headers = folder / "headers"
    headers.mkdir()
    missing: set[str] = set()

    def translate(errors: Mapping[tuple[str, int], str], with_library: bool) -> tuple[Sources, str]:
        other = functools.partial(_other_header, missing, with_library)
        sources = Sources(name, headers, search, errors, source.for_gpu, other)
        # Lines count from 1 in the user's file.
        return sources, (
            f'#include "smem_nvrtc.h"\n{sources.add(text, path)}#line 1 "smem_entry"\n'
            f'#include "smem_parameters.h"\n'
            f'extern "C" __device__ auto {TABLE} = smem_parameters_of({name});\n'
        )

    # libcu++ stands for the C++ library. It takes seconds, and most sources want that for the host.
    with_library = False
    sources, translated = translate({}, with_library)
    flags = [*flags, f"-I{headers}"]
    while isinstance(compiled := _compile(translated, name, flags), str):
        before = sources.left_out, with_library
        with_library = with_library or bool(re.search(r'"(?:std|cuda)\b', compiled))
        errors = {**_errors_by_line(compiled), **sources.errors}
        sources, translated = translate(errors, with_library)
        if (sources.left_out, with_library) == before:
            raise _error(name, compiled, sources.left_out, missing)
    entry, cubin = compiled
    (folder / "unit.cubin").write_bytes(cubin)
    texts = [text, *sources.files.values()]
    words = set(re.findall(r"\w+", " ".join(map(mask, texts))))
    description = {
        "entry": entry,
        "parameter_names": next(
            filter(None, (source.parameter_names(code, name) for code in texts)), []
        ),
        "variables": {
            variable.name: variable.mangled
            for variable in variables(cubin)
            if variable.name in words
        },
        "includes": {str(file): cache.stamp(str(file)) for file in sources.files},
    }
    (folder / "unit.json").write_text(json.dumps(description))
    shutil.rmtree(headers)


def _other_header(missing: set[str], with_library: bool, directive: str, line: int) -> str:
    """Return what becomes of the directive that includes a header which is not the user's."""
    header = directive.split("include", 1)[1].strip().strip('<>"')
    if header in _C_LIBRARY:
        return directive
    if header.startswith("cublas"):  # which includes these
        return f"#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n#line {line + 1}"
    if re.fullmatch(r"\w+", header):
        if not with_library:
            return ""
        if _is_in_toolkit(f"cuda/std/{header}"):
            names = "namespace std { using namespace cuda::std; }"
            return f"#include <cuda/std/{header}>\n{names}\n#line {line + 1}"
    elif _is_in_toolkit(header) and not _HOST_LIBRARY.match(header):
        return directive
    missing.add(header)
    return ""


def _is_in_toolkit(header: str) -> bool:
    return any((folder / header).is_file() for folder in toolkit.include_folders())


def _compile(text: str, name: str, flags: Sequence[str]) -> tuple[str, bytes] | str:
    """Return the kernel's symbol and a cubin, or what NVRTC said."""
    nvrtc, check = toolkit.nvrtc(), toolkit.result
    own = {header: (INCLUDE / header).read_bytes() for header in _OWN_HEADERS}
    own |= dict.fromkeys(_C_LIBRARY, b'#include "smem_nvrtc.h"\n')
    names = [header.encode() for header in own]
    program = check(
        nvrtc.nvrtcCreateProgram(text.encode(), b"unit.cu", len(own), [*own.values()], names),
        "nvrtcCreateProgram",
    )
    try:
        check(nvrtc.nvrtcAddNameExpression(program, name.encode()), "nvrtcAddNameExpression")
        options = [flag.encode() for flag in flags]
        (status,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
        if status:
            log = bytearray(check(nvrtc.nvrtcGetProgramLogSize(program), "the log of NVRTC"))
            nvrtc.nvrtcGetProgramLog(program, log)
            return log.decode(errors="replace").rstrip("\0") or status.name
        cubin = bytearray(check(nvrtc.nvrtcGetCUBINSize(program), "nvrtcGetCUBINSize"))
        check(nvrtc.nvrtcGetCUBIN(program, cubin), "nvrtcGetCUBIN")
        entry = check(nvrtc.nvrtcGetLoweredName(program, name.encode()), "nvrtcGetLoweredName")
        return entry.decode(), bytes(cubin)
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _errors_by_line(said: str) -> dict[tuple[str, int], str]:
    return {(match["file"], int(match["line"])): match[0] for match in _ERROR.finditer(said)}


def _error(
    name: str, said: str, left_out: Mapping[str, str], missing: Collection[str]
) -> CompileError:
    """Return NVRTC's first error, with its excerpt of the source, or why what it misses is gone."""
    match = _ERROR.search(said)
    error = said.strip()
    if match:
        error = "\n".join([match[0], *said[match.end() + 1 :].splitlines()[:2]])
    used = (left_out[word] for word in re.findall(r"\w+", error) if word in left_out)
    if reason := next(used, None):
        error = reason
    elif missing:
        error += f"\n(there is no header {', '.join(sorted(missing))})"
    return CompileError(f"smem.RawKernel: {name} does not compile: {error}")
