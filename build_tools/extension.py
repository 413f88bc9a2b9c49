"""The extension module and the command that builds it: torch's BuildExtension, held to our needs.

Five things differ from a plain CppExtension. nvcc is used even under a torch built without CUDA,
because on the stable ABI one binary serves every torch. Editing a header rebuilds exactly what
includes it. g++ parses once the headers that most files include. What ptxas reports of every kernel
is kept beside the extension. And the kernels, as they run on the CPU, are compiled with calls of
the emulator, whose places are kept there, too.
"""

import contextlib
import json
import os
import runpy
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from setuptools import Extension
from torch.utils import cpp_extension

from build_tools import places, precompiled, ptxas
from build_tools.archs import built_codes, gencode_flags
from build_tools.longest import is_long
from build_tools.toolchain import CudaToolkit, job_count

TORCH_TARGET = (2, 11)
ROOT = Path(__file__).resolve().parent.parent
GENERATED = ROOT / "build" / "generated"
TOOLKIT = CudaToolkit.find()
GENCODE = gencode_flags(TOOLKIT) if TOOLKIT else []
CODES = built_codes(GENCODE)
CUDA = TOOLKIT if GENCODE else None

COMMON = [
    "-std=c++20",
    "-O3",
    "-DTORCH_TARGET_VERSION=0x{:02x}{:02x}000000000000".format(*TORCH_TARGET),
    *(["-DSMEM_WITH_CUDA=1"] if CUDA else []),
]
CXX = [
    *COMMON,
    "-g0",
    "-Wall",
    # The CUDA sources that g++ compiles for the CPU say `#pragma unroll`.
    "-Wno-unknown-pragmas",
    "-fvisibility=hidden",
    "-fvisibility-inlines-hidden",
    # The tracer names source files: the same in every checkout.
    f"-ffile-prefix-map={ROOT}=",
]
# Of the kernels that run on the CPU: what users' kernels are compiled with.
HOST = [
    *runpy.run_path(str(ROOT / "torch_smem_gemm" / "raw_kernel" / "flags.py"))["INSTRUMENTED"],
    "-g1",
    # These come after the calls are put in, so they remove no access, and those that are named here
    # move none to another line's code (-fira-region=one would, and -fno-move-loop-invariants). g++
    # takes a quarter less without.
    "-fno-gcse",
    "-fno-schedule-insns2",
    "-fno-caller-saves",
    "-fno-combine-stack-adjustments",
    "-fno-compare-elim",
    "-fno-cprop-registers",
    "-fno-dce",
    "-fno-dse",
    "-fno-if-conversion2",
    "-fno-ipa-ra",
    "-fno-lra-remat",
    "-fno-peephole2",
    "-fno-ree",
    "-fno-shrink-wrap",
    # Nobody asks these kernels where their functions begin and end. A tail call of a callback would
    # report its caller's place.
    "--param=tsan-instrument-func-entry-exit=0",
    "-fno-optimize-sibling-calls",
    "-ffp-contract=off",
    # GCC does not see at -O2 that load_vector sets every element.
    "-Wno-maybe-uninitialized",
    # GCC 4.6 passed Vector<double, 4> otherwise.
    "-Wno-psabi",
]
NVCC = [
    *COMMON,
    "-Xcompiler=-fvisibility=hidden",
    "-Xptxas=-v",
    # To a quarter of the size; nvcc 12 can make it a third.
    "--compress-mode=size" if CUDA and CUDA.major >= 13 else "-Xfatbin=-compress-all",
    # BuildExtension takes the operators of the 16-bit types away, and kernels want them.
    "-U__CUDA_NO_HALF_OPERATORS__",
    "-U__CUDA_NO_HALF_CONVERSIONS__",
    "-U__CUDA_NO_HALF2_OPERATORS__",
    "-U__CUDA_NO_BFLOAT16_CONVERSIONS__",
]


def make_extension() -> Extension:
    suffixes = {".cpp", ".cu"} if CUDA else {".cpp"}
    system_includes = [f"-isystem{folder}" for folder in CUDA.include_dirs] if CUDA else []
    return cpp_extension.CppExtension(
        "torch_smem_gemm._C",
        sorted(str(path) for path in Path("csrc").rglob("*") if path.suffix in suffixes),
        # ninja compiles in another folder.
        include_dirs=[str(ROOT / "csrc"), str(GENERATED)],
        library_dirs=list(CUDA.library_dirs) if CUDA else [],
        libraries=[*(["cudart_static"] if CUDA else []), "dl", "rt", "pthread"],
        extra_compile_args={"cxx": [*CXX, *system_includes], "nvcc": [*NVCC, *GENCODE]},
        # libtorch.so brings the CUDA half of torch into scope, though no symbol asks for it here;
        # our copy of the CUDA runtime must stay out of everybody else's. Kernels of this package
        # call the emulator directly, though users' kernels find its functions in this library.
        extra_link_args=[
            *("-Wl,--no-as-needed", "-ltorch", "-Wl,--exclude-libs,ALL"),
            "-Wl,-Bsymbolic-functions",
        ],
        py_limited_api=True,
    )


class BuildExt(cpp_extension.BuildExtension):
    def __init__(self, *args, **kwargs) -> None:
        # An interpreter called by its path does not have its own scripts on PATH.
        os.environ["PATH"] = os.pathsep.join([sysconfig.get_path("scripts"), os.environ["PATH"]])
        if not shutil.which("ninja"):
            sys.exit("torch_smem_gemm is built with ninja, and there is none: `pip install ninja`")
        super().__init__(*args, **kwargs)

    def finalize_options(self) -> None:
        super().finalize_options()
        # The virtual environment's own, empty: naming it would recompile everything in each
        # isolated build, whose environment has a new name every time.
        own = os.path.join(sys.exec_prefix, "include")
        if sys.prefix != sys.base_prefix and own in self.include_dirs:
            self.include_dirs.remove(own)
        # A folder for each choice of architectures: going back to one recompiles nothing.
        self.build_temp = os.path.join(self.build_temp, "+".join(CODES) or "cpu")

    def run(self) -> None:
        print(f"torch_smem_gemm: {what_is_built()}", file=sys.stderr)
        write_if_changed(GENERATED / "smem_build_config.h", config_header())
        try:
            with as_cuda_build(CUDA):
                super().run()
        except RuntimeError as error:
            if isinstance(error.__cause__, subprocess.CalledProcessError):
                sys.exit("torch_smem_gemm: compilation failed; the first error above says why")
            raise
        (extension,) = self.extensions
        logs = [
            Path(self.build_temp, source).with_suffix(ptxas.LOG_SUFFIX)
            for source in extension.sources
            if source.endswith(".cu")
        ]
        library = Path(self.get_ext_fullpath(extension.name))
        report = library.with_name("_ptxas.json")
        write_if_changed(report, ptxas.report(logs))
        write_if_changed(report.with_name("_sources.json"), kernel_sources())
        write_if_changed(report.with_name("_places.json"), places.write(library))
        if not self.inplace:  # a checkout has them in csrc
            headers = ROOT / "csrc" / "cpu_emulator" / "cuda"
            shutil.copytree(headers, report.with_name("_cuda"), dirs_exist_ok=True)


def what_is_built() -> str:
    if CUDA:
        return f"building the CPU part and the kernels for {' '.join(CODES)}"
    if os.environ.get("SMEM_CUDA") == "0":
        return "building the CPU part alone, since SMEM_CUDA=0"
    if TOOLKIT is None:
        return "building the CPU part alone, since there is no nvcc"
    return (
        "building the CPU part alone, since no GPU of compute capability 7.5 or newer is visible "
        "(`make ... ARCHS=all` builds for all GPUs)"
    )


@contextlib.contextmanager
def as_cuda_build(cuda: CudaToolkit | None):
    """Lets BuildExtension run nvcc, with the dependency files that it keeps for CUDA torches.

    torch.version.cuda decides there whether nvcc is asked for dependencies, and whether toolkit
    and torch fit together. We need the former under a CPU torch, and not the latter under any: the
    CUDA runtime is linked statically and nothing of torch's CUDA is used but its C shims.
    """
    jobs = os.environ.get("MAX_JOBS") or str(job_count())
    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.object(cpp_extension, "min_supported_cpython", "0x030A0000"))
        # Without this ccache keeps no file that uses a precompiled header.
        allowed = {"CCACHE_SLOPPINESS": "pch_defines,time_macros"}
        stack.enter_context(mock.patch.dict(os.environ, allowed, MAX_JOBS=jobs))
        write = with_headers_and_order(cpp_extension._write_ninja_file)
        stack.enter_context(mock.patch.object(cpp_extension, "_write_ninja_file", write))
        if cuda:
            # Resolved, so that all virtual environments of one Python share the object files.
            python = os.path.realpath(sys.executable)
            nvcc = shlex.join([python, os.path.abspath(ptxas.__file__), *cuda.nvcc])
            stack.enter_context(mock.patch.dict(os.environ, PYTORCH_NVCC=nvcc))
            stack.enter_context(mock.patch.object(torch.version, "cuda", cuda.version))
            stack.enter_context(mock.patch.object(cpp_extension, "CUDA_HOME", str(cuda.root)))
        yield


def with_headers_and_order(write_ninja_file: Callable[..., None]) -> Callable[..., None]:
    """BuildExtension's function with the longest files first, and with precompiled headers."""

    def write(path: str, sources: list[str], objects: list[str], **options: Any) -> None:
        order = sorted(
            zip(sources, objects, strict=True), key=lambda pair: not is_long(pair[0], ROOT)
        )
        ordered_sources, ordered_objects = map(list, zip(*order, strict=True))
        write_ninja_file(path, sources=ordered_sources, objects=ordered_objects, **options)
        ninja, folder = Path(path), Path(path).parent / "precompiled"
        for name in precompiled.HEADERS:
            write_if_changed(folder / f"{name}.h", precompiled.header_text(name))
        ninja.write_text(precompiled.with_precompiled_headers(ninja.read_text(), folder, HOST))

    return write


def config_header() -> str:
    compiler = subprocess.check_output([cpp_extension.get_cxx_compiler(), "--version"], text=True)
    values = {
        "kCudaVersion": CUDA.version if CUDA else "",
        "kCudaArchs": " ".join(CODES),
        "kTorchTarget": ".".join(map(str, TORCH_TARGET)),
        "kTorchBuiltWith": torch.__version__,
        "kCompiler": compiler.splitlines()[0],
    }
    lines = [f'inline constexpr const char* {name} = "{value}";' for name, value in values.items()]
    return "\n".join(
        ["#pragma once", "", "namespace smem::build {", *lines, "}  // namespace smem::build", ""]
    )


def kernel_sources() -> str:
    """What `explain` shows: every line that a kernel may access memory in, as it was compiled."""
    files = sorted(path for path in Path("csrc").rglob("*") if path.suffix in {".cu", ".h"})
    texts = {path.relative_to("csrc").as_posix(): path.read_text() for path in files}
    return json.dumps(texts, indent=0) + "\n"


def write_if_changed(path: Path, text: str) -> None:
    """An untouched file rebuilds nothing."""
    if not path.exists() or path.read_text() != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
