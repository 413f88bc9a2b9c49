"""build_tools: which GPUs are compiled for, and what is said meanwhile."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
if not (ROOT / "build_tools").exists():
    pytest.skip("build_tools/ is not installed", allow_module_level=True)

from build_tools import (  # noqa: E402
    archs,
    longest,
    precompiled,
    progress,
    ptxas,
    retired_words,
    toolchain,
)

OLD = "-gencode=arch=compute_80,code=[sm_80,compute_80]"
HOPPER = "-gencode=arch=compute_90a,code=[sm_90a]"
INSTANCE = "/a checkout/csrc/gemm/sm90/instances/tile_64x64.cu"


def test_hopper_kernels_are_compiled_for_hopper_alone() -> None:
    before = ["nvcc", "-O3", OLD, "-c", INSTANCE, HOPPER, "-o", "x.o"]
    assert ptxas.for_its_chips(before) == ["nvcc", "-O3", "-c", INSTANCE, HOPPER, "-o", "x.o"]


def test_where_hopper_is_not_built_for_they_are_compiled_for_what_is() -> None:
    command = ["nvcc", OLD, "-c", INSTANCE]
    assert ptxas.for_its_chips(command) == command


def test_other_sources_are_compiled_for_all() -> None:
    command = ["nvcc", OLD, HOPPER, "-c", "/a checkout/csrc/reduce/rows.cu"]
    assert ptxas.for_its_chips(command) == command


def test_those_sources_exist_and_cannot_be_launched_on_other_chips() -> None:
    csrc = ROOT / "csrc"
    for part in ptxas.HOPPER_SOURCES:
        found = [path for path in csrc.rglob("*.cu") if part in path.as_posix()]
        assert found, part
    kernels = ("gemm.cu", "short_k.cu", "skinny_m_kernel.h")
    for kernel in ("gemm/sm90/kernel.h", *(f"gemm/fp16x3/{name}" for name in kernels)):
        # skinny_m_kernel.h has kernels without TMA, too: Config says which.
        bound = r"__launch_bounds__\(launch_bound\((TARGET_HAS_SM90A|Config::TARGET_HAS_CODE), "
        assert re.search(bound, (csrc / kernel).read_text()), kernel


def test_the_build_needs_no_package() -> None:
    """Before the first build the package cannot be imported."""
    code = "import sys; sys.modules['torch_smem_gemm'] = None; import build_tools.extension"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


# ------------------------------------------------------------------------------- architectures


@pytest.fixture
def cuda(tmp_path: Path) -> toolchain.CudaToolkit:
    """A toolkit whose nvcc knows all that we build for, and 10.0."""
    lists = "import sys; sys.argv[1] == '--list-gpu-arch' or sys.exit(1); print('{}')"
    known = " ".join(f"compute_{arch}" for arch in (75, 80, 86, 90, 100))
    nvcc = [sys.executable, "-c", lists.format(known)]
    return toolchain.CudaToolkit(nvcc, "13.0", tmp_path, [], [])


EVERYTHING = ["sm_75", "sm_80", "compute_80", "sm_90a"]


@pytest.mark.parametrize(
    ("wanted", "capabilities", "codes"),
    [
        ("", {(9, 0)}, EVERYTHING),
        ("all", set(), EVERYTHING),
        ("native", set(), []),
        ("native", {(7, 0)}, []),
        ("native", {(7, 5)}, ["sm_75"]),
        ("native", {(8, 6), (8, 9)}, ["sm_80"]),
        ("native", {(9, 0)}, ["sm_90a"]),
        ("native", {(8, 0), (12, 0)}, ["compute_80", "sm_80"]),
        ("8.0;9.0", set(), ["sm_80", "sm_90a"]),
        ("8.6+PTX 9.0a", set(), ["compute_86", "sm_86", "sm_90a"]),
        ("9.0+PTX", set(), ["compute_90", "sm_90a"]),
    ],
)
def test_what_is_compiled_for(
    wanted: str,
    capabilities: set[tuple[int, int]],
    codes: list[str],
    cuda: toolchain.CudaToolkit,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TORCH_CUDA_ARCH_LIST", wanted)
    monkeypatch.setattr(archs, "visible_capabilities", lambda: capabilities)
    flags = archs.gencode_flags(cuda)
    assert archs.built_codes(flags) == codes
    for flag in flags:  # machine code of 9.0a comes from a front end that knows wgmma
        assert ("compute_90a" in flag) == ("sm_90a" in flag)


def test_an_old_nvcc_is_asked_for_what_it_knows(
    cuda: toolchain.CudaToolkit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCH_CUDA_ARCH_LIST", "all")
    cuda.nvcc[-1] = cuda.nvcc[-1].replace("compute_90", "")
    assert archs.built_codes(archs.gencode_flags(cuda)) == EVERYTHING[:-1]


def test_nvidia_smi_says_what_a_torch_without_cuda_cannot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archs.torch.version, "cuda", None)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert archs.visible_capabilities() == set()
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\necho 9.0; echo 12.0; echo 9.0\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    assert archs.visible_capabilities() == {(9, 0), (12, 0)}


# ----------------------------------------------------------------------------------- progress


def test_progress_in_words() -> None:
    build = [
        "torch_smem_gemm: building\n",
        "[1/9] c++ -c /a/csrc/first.cpp\n",
        "[1/4] c++ -MMD -MF /a/build/x.o.d -Icsrc -c -c /a/csrc/reduce/x.cpp -o x.o -O2\n",
        "/a/csrc/reduce/x.cpp:1: warning: [2/4] is no progress\n",
        "[3/4] c++ -c /elsewhere/y.cpp -o y.o\n",
        "ninja: no work to do.\n",
    ]
    assert list(progress.lines_of(build, Path("/a"), [0, 4, 5, 6, 30, 31])) == [
        "torch_smem_gemm: building",
        "[1/9] csrc/first.cpp: 4 s",
        "[1/4] csrc/reduce/x.cpp: 5 s, about 15 s left",
        "/a/csrc/reduce/x.cpp:1: warning: [2/4] is no progress",
        "[3/4] /elsewhere/y.cpp: 30 s, about 10 s left",
    ]


def test_a_path_with_spaces_is_one_file() -> None:
    build = ["[1/9] nvcc -O3 -c -c '/a checkout/csrc/x.cu' -o '/a checkout/build/x.o'\n"]
    assert list(progress.lines_of(build, Path("/a checkout"), [3])) == ["[1/9] csrc/x.cu: 3 s"]


def test_long_files_count_more_in_the_time_left() -> None:
    build = ["[1/9] c++ -c /a/csrc/reduce/rows.cu\n", "[2/9] c++ -c /a/csrc/reduce/reduce.cu\n"]
    assert list(progress.lines_of(build, Path("/a"), [12, 14])) == [
        "[1/9] csrc/reduce/rows.cu: 12 s",
        "[2/9] csrc/reduce/reduce.cu: 14 s, about 14 s left",
    ]


def test_long_files_exist() -> None:
    assert [name for name in longest.LONGEST if not (ROOT / name).is_file()] == []


# ------------------------------------------------------------------------------------- ccache


def test_ccache_does_not_trust_the_preprocessor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert ptxas.cached(["nvcc", "-c"])[0] == ["nvcc", "-c"]
    (tmp_path / "ccache").write_text("#!/bin/sh\n")
    (tmp_path / "ccache").chmod(0o755)
    for command in (["nvcc", "-c"], ["ccache", "nvcc", "-c"]):
        wrapped, environment = ptxas.cached(command)
        assert wrapped == ["ccache", "nvcc", "-c"]
        assert environment["CCACHE_DEPEND"] == "1"


# ------------------------------------------------------------------------- precompiled headers

NINJA = """\
rule compile
  command = $cxx -MMD -MF $out.d $cflags -c $in -o $out $post_cflags

build /b/csrc/bindings/gemm.o: compile /a/csrc/bindings/gemm.cpp
build /b/csrc/gemm/dispatch.o: compile /a/csrc/gemm/dispatch.cpp
build /b/csrc/reduce/reduce_host.o: compile /a/csrc/reduce/reduce_host.cpp
build /b/csrc/reduce/rows.o: cuda_compile /a/csrc/reduce/rows.cu

default /b/csrc/reduce/rows.o
"""


def test_cpp_files_get_the_header_that_their_flags_are_for() -> None:
    text = precompiled.with_precompiled_headers(NINJA, Path("/b/pch"), ["-O7"])
    found = dict(re.findall(r"^build (\S+): (.+(?:\n  .+)?)$", text, re.M))
    use = "post_cflags = $post_cflags -Winvalid-pch -include /b/pch"
    assert found == {
        "/b/pch/standard.h.gch": "precompile /b/pch/standard.h\n  post_cflags = $post_cflags ",
        "/b/pch/bindings.h.gch": "precompile /b/pch/bindings.h\n  post_cflags = $post_cflags ",
        "/b/pch/kernels_on_cpu.h.gch": "precompile /b/pch/kernels_on_cpu.h\n"
        "  post_cflags = $post_cflags -O7",
        "/b/csrc/bindings/gemm.o": "compile /a/csrc/bindings/gemm.cpp | /b/pch/bindings.h.gch\n"
        f"  {use}/bindings.h",
        "/b/csrc/gemm/dispatch.o": "compile /a/csrc/gemm/dispatch.cpp | /b/pch/standard.h.gch\n"
        f"  {use}/standard.h",
        "/b/csrc/reduce/reduce_host.o": "compile /a/csrc/reduce/reduce_host.cpp"
        " | /b/pch/kernels_on_cpu.h.gch\n  post_cflags = $post_cflags -O7 -Winvalid-pch"
        " -include /b/pch/kernels_on_cpu.h",
        "/b/csrc/reduce/rows.o": "cuda_compile /a/csrc/reduce/rows.cu",
    }
    assert text.index("rule precompile") < text.index("build ")
    assert text.endswith("\ndefault /b/csrc/reduce/rows.o\n")


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("blocks a multiprocessor", "multiprocessor"),
        ("the copy engine reads", "copy engine"),
        ("csrc/gemm/hopper/kernel.h", "hopper/"),
        ("tiles 128x208_pair by 132", "128x208_pair"),
        ("using Lie = int;", "Lie"),
    ],
)
def test_a_retired_word_is_found(line: str, word: str) -> None:
    (found,) = retired_words.findings("a.h", f"first line\n{line}\n")
    assert found.startswith(f"a.h:2: {word!r} is retired, write ")


def test_standard_words_are_not_retired() -> None:
    text = "maxThreadsPerMultiprocessor, a streaming multiprocessor (SM), lanes lie in halves\n"
    assert not list(retired_words.findings("a.h", text))
