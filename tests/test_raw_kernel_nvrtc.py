"""What RawKernel compiles for a GPU, as far as a machine without one can tell: cubins, errors."""

import ctypes
import dataclasses
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy
import pytest
import torch

import torch_smem_gemm as smem
from torch_smem_gemm.raw_kernel import arguments, cubin, nvrtc, toolkit
from torch_smem_gemm.raw_kernel.arguments import Parameter

FOLDER = Path(__file__).parent / "raw_kernels" / "coverage"
HOPPER = (9, 0)
TYPES = """
namespace ns { struct Pair { int a; double b; }; enum Mode { first }; }
template <typename T, int N>
__global__ void k(const T* __restrict__ x, float* y, bool flag, const unsigned char c, short s,
                  unsigned long long u, double d, ns::Pair pair, ns::Mode mode, const void* any,
                  int** table, const volatile int* v, float4* vectors, const ns::Pair* pairs) {
  y[0] = x[N];
}
"""


@pytest.fixture
def compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """NVRTC, with a cache of its own."""
    try:
        toolkit.nvrtc()
    except ModuleNotFoundError as error:
        pytest.skip(str(error))
    monkeypatch.setenv("SMEM_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture
def fresh_toolkit() -> Iterator[None]:
    """What is known of the toolkit, forgotten before and after."""
    for function in (toolkit.nvrtc, toolkit.driver, toolkit.include_folders):
        function.cache_clear()
    yield
    for function in (toolkit.nvrtc, toolkit.driver, toolkit.include_folders):
        function.cache_clear()


def compiled(code: str, name: str = "k", *options: str, path: str = "kernel.cu") -> nvrtc.Cubin:
    return nvrtc.compile_kernel(code, name, path, options, HOPPER)


def parameters(found: nvrtc.Cubin) -> list[Parameter]:
    return cubin.parameters(found.file.read_bytes(), found.parameter_names)


@pytest.mark.usefixtures("compiler")
def test_parameters_are_those_that_the_cpu_finds() -> None:
    on_gpu = parameters(compiled(TYPES, "k<float, 3>"))
    on_cpu = smem.RawKernel(TYPES, "k<float, 3>").compile().parameters

    def without_type_name(parameters: list[Parameter]) -> list[Parameter]:
        return [dataclasses.replace(parameter, type_name="") for parameter in parameters]

    # Which one compiler calls "short", the other calls "short int".
    assert without_type_name(on_gpu) == without_type_name(on_cpu)
    assert [p.name for p in on_gpu[:3]] == ["x", "y", "flag"]
    assert [p.type_name for p in on_gpu[:3]] == ["const float*", "float*", "bool"]


@pytest.mark.usefixtures("compiler")
def test_halves_and_other_types_of_cuda() -> None:
    code = """
    #include <cuda_fp16.h>
    #include <cuda_bf16.h>
    __global__ void k(const __half* h, __nv_bfloat16* b, half one, __nv_bfloat16 two) {}
    """
    assert [(p.kind, p.pointee_kind) for p in parameters(compiled(code))] == [
        ("p", "h"),
        ("p", "B"),
        ("h", "v"),
        ("B", "v"),
    ]


@pytest.mark.usefixtures("compiler")
def test_a_kernel_without_parameters_or_with_c_linkage() -> None:
    assert parameters(compiled("__global__ void k() {}")) == []
    found = compiled('extern "C" __global__ void k(int n) {}')
    assert found.entry == "k"
    assert [p.name for p in parameters(found)] == ["n"]


@pytest.mark.usefixtures("compiler")
def test_variables_by_their_names_in_the_source() -> None:
    code = """
    namespace model { __constant__ float weights[4]; __device__ int total = 3; }
    static __device__ double hidden;
    __global__ void k(float* y) { y[0] = model::weights[1] + model::total++ + hidden++; }
    """
    assert compiled(code).variables == {
        "weights": "_ZN5model7weightsE",
        "total": "_ZN5model5totalE",
        "hidden": "hidden",
    }


@pytest.mark.usefixtures("compiler")
def test_what_is_of_the_host_is_left_out() -> None:
    code = """
    #include <stdio.h>
    #include <cstdint>
    #include <vector>
    #include <cublas_v2.h>
    #include <nothing.h>
    std::vector<int> sizes;
    __global__ void other(float* x) { x[0] = not_declared; }
    constexpr int twice(int x) { return 2 * x; }
    __global__ void k(float* y, uint32_t n) { y[0] = std::min(1.f, FLT_MAX) + twice(n); }
    int main() { std::vector<float> x(4); k<<<1, 1>>>(x.data(), 4); return printf("done"); }
    """
    assert [p.type_name for p in parameters(compiled(code))] == ["float*", "unsigned int"]


@pytest.mark.usefixtures("compiler")
def test_headers_of_the_user_and_macros(tmp_path: Path) -> None:
    (tmp_path / "beside.cuh").write_text('#include "deep.h"\nint host() { return getenv("x"); }\n')
    (tmp_path / "include").mkdir()
    deep = tmp_path / "include" / "deep.h"
    deep.write_text("__device__ int deep() { return N; }\n")
    code = '#include "beside.cuh"\n__global__ void k(int* x) { x[0] = deep(); }\n'
    options = ("-DN=7", "-I", str(tmp_path / "include"))
    path = str(tmp_path / "kernel.cu")
    first = compiled(code, "k", *options, path=path)
    assert compiled(code, "k", *options, path=path) == first
    assert compiled(code, "k", "-DN=8", *options[1:], path=path) != first
    deep.write_text("__device__ int deep() { return N + 100; }\n")
    assert compiled(code, "k", *options, path=path).file != first.file
    deep.write_text("__device__ int deep() { return wrong; }\n")
    with pytest.raises(smem.CompileError, match=rf"{deep}\(1\): error: .*\"wrong\" is undefined"):
        compiled(code, "k", *options, path=path)


@pytest.mark.usefixtures("compiler")
def test_the_cache_saves_compilations(monkeypatch: pytest.MonkeyPatch) -> None:
    first = compiled("__global__ void k(int* x) { x[0] = 1; }")

    def fails(*args: object) -> None:
        raise AssertionError("compiled again")

    monkeypatch.setattr(nvrtc, "_compile", fails)
    assert compiled("__global__ void k(int* x) { x[0] = 1; }") == first


@pytest.mark.usefixtures("compiler")
def test_errors_are_at_the_users_line() -> None:
    with pytest.raises(smem.CompileError) as caught:
        compiled("__global__ void k(float* x) {\n\n  x[0] = missing;\n}")
    assert str(caught.value).splitlines()[:2] == [
        "smem.RawKernel: k does not compile: "
        'kernel.cu(3): error: identifier "missing" is undefined',
        "    x[0] = missing;",
    ]
    with pytest.raises(smem.CompileError, match=r"\(there is no header nothing.cuh\)$"):
        compiled('#include "nothing.cuh"\n__global__ void k(float* x) { x[0] = f(); }')
    with pytest.raises(smem.CompileError, match='"absent" is undefined'):
        compiled("__global__ void k(float* x) {}", "absent")


@pytest.mark.usefixtures("compiler")
def test_a_gpu_that_nvrtc_does_not_know() -> None:
    with pytest.raises(RuntimeError, match=r"NVRTC \d+\.\d+ cannot compile for .* 3\.0$"):
        nvrtc.compile_kernel("__global__ void k() {}", "k", "kernel.cu", (), (3, 0))


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize(
    ("file", "kernel"),
    [
        ("memory.cu", "vectors"),
        ("language.cu", "kernels::apply<double, 4>"),
        ("warps.cu", "votes"),
    ],
)
def test_kernels_of_the_coverage_tests(file: str, kernel: str) -> None:
    path = FOLDER / file
    found = compiled(path.read_text(), kernel, path=str(path))
    on_cpu = smem.RawKernel(path, kernel).compile().parameters
    assert [p.kind for p in parameters(found)] == [p.kind for p in on_cpu]


def test_without_the_library(monkeypatch: pytest.MonkeyPatch, fresh_toolkit: None) -> None:
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    for function in (toolkit.nvrtc, toolkit.driver):
        with pytest.raises(ModuleNotFoundError, match=r"pip install torch_smem_gemm\[nvrtc\]"):
            function()


def test_the_extra_that_messages_name_is_there() -> None:
    text = (Path(__file__).parent.parent / "pyproject.toml").read_text()
    assert re.search(r"^nvrtc = \[.*cuda-bindings", text, re.M)


# "meta" stands for a GPU here.
GPU = torch.device("meta")
SAXPY = [
    Parameter("x", 0, "const float*", "p", 8, "f", 4, True),
    Parameter("y", 1, "float*", "p", 8, "f", 4, False),
    Parameter("n", 2, "int", "i", 4, "v", 0, False),
    Parameter("pair", 3, "Pair", "s", 16, "v", 0, False),
]


def converted(*args: object) -> list[ctypes._SimpleCData]:
    return arguments.convert_for_gpu("saxpy", SAXPY, args, GPU)


def test_arguments_of_a_call_on_a_gpu() -> None:
    x = torch.empty(4, device=GPU)
    x_address, y_address, n, pair = converted(x, None, numpy.int64(5), bytes(16))
    assert (x_address.value, y_address.value, n.value) == (x.data_ptr() or None, None, 5)
    assert ctypes.sizeof(pair) == 16


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (
            (torch.ones(1), None, 1, b""),
            r"argument 0 \(x\) is const float\*: expected a dense tensor on meta, where the kernel "
            "runs, got one on cpu",
        ),
        (
            (None, numpy.ones(1), 1, b""),
            r"argument 1 \(y\) is float\*: expected a tensor on meta, .*, got ndarray",
        ),
        (
            (torch.empty(1, dtype=torch.int32, device=GPU), None, 1, b""),
            r"argument 0 \(x\) is const float\*: expected memory of float32, got int32",
        ),
        ((None, None, torch.empty(1, device=GPU), b""), r"2 \(n\) .* an integer, got Tensor"),
        ((None, None, 1, bytes(15)), r"3 \(pair\) .* structure of 16 bytes, got 15 bytes"),
        ((None, None), r"takes 4 arguments \(const float\* x, .*\), and 2 came"),
    ],
)
def test_arguments_that_do_not_fit(args: tuple[object, ...], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        converted(*args)


def test_a_number_out_of_range() -> None:
    with pytest.raises(ValueError, match=r"2 \(n\) is int: 2147483648 is not in"):
        converted(None, None, 2**31, bytes(16))


def test_an_unknown_device() -> None:
    raw = smem.RawKernel("__global__ void k() {}", "k")
    with pytest.raises(ValueError, match="device is meta, expected cpu or cuda"):
        raw.compile("meta")
