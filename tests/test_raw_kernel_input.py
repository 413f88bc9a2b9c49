"""smem.RawKernel and bad input: sources, names, arguments, and kernels that must be stopped."""

import re
import signal
from pathlib import Path

import numpy
import pytest
import torch

import torch_smem_gemm as smem

STORE = "__global__ void store(float* x, float y) { x[threadIdx.x] = y; }"
TWO_NAMESPACES = (
    "namespace a { __global__ void store(float* x) { x[0] = 1; } }\n"
    "namespace b { __global__ void store(float* x) { x[0] = 2; } }\n"
)


def stored(source: str | Path, name: str = "store") -> list[float]:
    """Return what a kernel like STORE stores with two threads."""
    x = torch.zeros(3)
    smem.RawKernel(source, name)(1, 2, (x, 5.0))
    return x.tolist()


@pytest.mark.parametrize(
    "source",
    [
        "\ufeff" + STORE,
        "// 核 é\r\n"
        + STORE.replace("{", "{\r\n#pragma unroll\r\n for (int i = 0; i < 1; ++i)\r\n"),
        "#define BODY \\   \n  x[threadIdx.x] = y; \\\n  }\n"
        "__global__ void store(float* x, float y) {\nBODY",
        'extern "C" {\n' + STORE + "\n}  // no line break at the end",
        STORE + "\n#define NOTHING",
    ],
    ids=["byte order mark", "CRLF", "spaces after a backslash", "extern C", "a last directive"],
)
def test_sources_as_they_come(source: str, tmp_path: Path) -> None:
    assert stored(source) == [5, 5, 0]
    file = tmp_path / "with space and é" / "store.cu"
    file.parent.mkdir()
    file.write_bytes(source.encode())
    assert stored(file) == [5, 5, 0]


def test_a_kernel_in_one_of_two_namespaces() -> None:
    for name, value in (("a::store", 1), ("b::store", 2)):
        x = torch.zeros(1)
        smem.RawKernel(TWO_NAMESPACES, name)(1, 1, (x,))
        assert x.item() == value
    with pytest.raises(smem.CompileError, match="may be a::store and b::store: name one of them"):
        smem.RawKernel(TWO_NAMESPACES, "store").compile()


@pytest.mark.parametrize(
    ("source", "name", "message"),
    [
        (STORE, "stare", "the source has no kernel of this name; it has store$"),
        ("__device__ void f() {}", "f()", "'f()' is no name of a kernel"),
        (STORE, "", "'' is no name of a kernel"),
        (
            "template <typename T, int N> __global__ void k(T* x) { x[0] = N; }",
            "k",
            "it is a template <typename T, int N>: the name must have the arguments",
        ),
        (
            "template <int N> __global__ void k(int* x) { x[0] = N; }",
            "k<M>",
            "the kernel's name: .M. was not declared",
        ),
        (
            "__global__ void k(int* x) {} __global__ void k(float* x) {}",
            "k",
            "the source has several kernels k, which differ in their parameters",
        ),
        (
            "__global__ void k(int* x) {\n  if (*x) {\n    *x = 1;\n}\n",
            "k",
            r"kernel\.cu:1:27: error: this '{' has no '}'",
        ),
    ],
)
def test_errors_of_names(source: str, name: str, message: str) -> None:
    with pytest.raises((smem.CompileError, ValueError), match=message.replace("f()", r"f\(\)")):
        smem.RawKernel(source, name).compile()


def test_errors_are_english(monkeypatch: pytest.MonkeyPatch) -> None:
    """g++ and binutils speak the user's language, where it is installed; messages are read here."""
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    with pytest.raises(smem.CompileError, match=r"kernel\.cu:1:\d+: error: .y. was not declared"):
        smem.RawKernel("__global__ void k(int* x) { *x = y; }", "k").compile()


def test_sizes_of_numpy() -> None:
    x = torch.zeros(4)
    smem.RawKernel(STORE, "store")(
        numpy.int64(1), (numpy.int32(4), 1), (x, 1), shared_mem=numpy.int64(8)
    )
    assert x.tolist() == [1, 1, 1, 1]


def fake() -> torch.Tensor:
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode():
        return torch.zeros(4)


@pytest.mark.filterwarnings("ignore:Accessing the data pointer of FakeTensor")
@pytest.mark.parametrize(
    ("args", "message"),
    [
        (torch.zeros(4), "args is of type Tensor, expected a tuple"),
        (3, "args is of type int, expected a tuple"),
        (
            (fake(), 1),
            r"argument 0 (x) is float*: expected a tensor that has memory, got FakeTensor",
        ),
        ((torch.zeros(4, device="meta"), 1), "expected a dense tensor on the CPU, got one on meta"),
        (
            (torch.zeros(4, dtype=torch.complex64).conj().imag, 1),
            "expected a tensor whose memory has its values",
        ),
        ((numpy.zeros(4, ">f4"), 1), "expected numbers in this machine's byte order, got >f4"),
        ((numpy.broadcast_to(numpy.float32(1), 4), 1), "expected an array that can be written"),
    ],
)
def test_arguments_that_have_no_memory_of_their_values(args: object, message: str) -> None:
    with pytest.raises(TypeError, match=re.escape(message)):
        smem.RawKernel(STORE, "store")(1, 4, args)


def test_empty_tensors() -> None:
    kernel = smem.RawKernel(
        "__global__ void k(float* x, int n) { if (threadIdx.x < n) x[threadIdx.x] = 1; }", "k"
    )
    for empty in (torch.zeros(0), torch.zeros(3, 0).T, numpy.zeros(0, numpy.float32)):
        kernel(1, 4, (empty, 0))
        with pytest.raises(smem.KernelFault, match="out of bounds"):
            kernel(1, 4, (empty, 1))


class Interrupted(Exception):
    pass


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize(
    "loop",
    [
        "while (*(volatile int*)x == 0);",
        "while (atomicAdd(x, 0) == 0);",
        "while (true) __syncthreads();",
        "for (long i = 0; i < 1l << 60; ++i) x[1] += i;",
    ],
)
def test_a_signal_stops_a_kernel_within_a_block(loop: str, traced: bool) -> None:
    """As Ctrl-C does; all of its blocks, and the next call is as if nothing had been."""

    def stop(signal_number: int, frame: object) -> None:
        raise Interrupted

    kernel = smem.RawKernel(f"__global__ void k(int* x) {{ {loop} }}", "k")
    kernel.compile()
    args = (torch.zeros(2, dtype=torch.int32),)
    run = kernel.trace if traced else kernel
    before = signal.signal(signal.SIGALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(Interrupted):
            run(2, 64, args, max_steps=2**62)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert stored(STORE) == [5, 5, 0]


def test_a_fault_of_the_processor_is_not_the_process_s() -> None:
    """Whoever has the signal otherwise keeps it; the other threads run on."""
    seen = signal.getsignal(signal.SIGFPE)
    x, out = torch.tensor([1, 0, 2, 4], dtype=torch.int32), torch.zeros(4, dtype=torch.int32)
    divide = smem.RawKernel(
        "__global__ void k(const int* x, int* y) { y[threadIdx.x] = 8 / x[threadIdx.x]; }", "k"
    )
    with pytest.raises(smem.KernelFault, match=r"division by zero in k at kernel\.cu:1.* thread 1"):
        divide(1, 4, (x, out))
    assert out.tolist() == [8, 0, 4, 2]
    assert signal.getsignal(signal.SIGFPE) == seen
