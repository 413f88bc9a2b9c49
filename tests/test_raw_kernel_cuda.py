"""RawKernel on CUDA tensors: what it computes is what it computes on the CPU."""

import functools
import importlib
import inspect
import itertools
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch

import torch_smem_gemm as smem
from torch_smem_gemm.raw_kernel import toolkit

pytestmark = pytest.mark.gpu
ROOT = Path(__file__).resolve().parent.parent
SAXPY = """
__global__ void saxpy(int n, float a, const float* x, float* y) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    y[i] = a * x[i] + y[i];
  }
}
"""
SHARED = """
__global__ void reverse(const float* x, float* y) {
  extern __shared__ float tile[];
  __shared__ float twice[32];
  int n = blockDim.x * PER_THREAD;
  for (int i = threadIdx.x; i < n; i += blockDim.x) tile[i] = x[i];
  if (threadIdx.x < 32) twice[threadIdx.x] = 2;
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] = twice[i % 32] * tile[n - 1 - i];
}
"""


@pytest.fixture(autouse=True)
def _compiler() -> None:
    try:
        toolkit.nvrtc()
    except ModuleNotFoundError as error:
        pytest.skip(str(error))


def saxpy(device: str = "cuda:0", n: int = 1000) -> tuple[torch.Tensor, torch.Tensor]:
    """Return y of a call, and what it should be."""
    x, y = torch.randn(2, n, device=device)
    expected = torch.add(y, x, alpha=3.0)
    smem.RawKernel(SAXPY, "saxpy")(4, 128, (n, 3.0, x, y))
    return y, expected


def test_a_call() -> None:
    y, expected = saxpy()
    torch.testing.assert_close(y, expected)


def test_views_and_null_pointers() -> None:
    kernel = smem.RawKernel(SAXPY, "saxpy")
    x, y = torch.randn(2, 100, device="cuda")
    expected = y.clone()
    expected[40:50] += x[10:20]
    kernel(1, 32, (torch.tensor(10), numpy.float32(1), x[10:20], y[40:]))
    torch.testing.assert_close(y, expected)
    kernel(1, 32, (0, 1.0, None, None))
    torch.cuda.synchronize()


def test_it_runs_on_the_current_stream() -> None:
    spin = smem.RawKernel(
        "__global__ void spin(long long cycles, int* x) {"
        " long long begin = clock64(); while (clock64() - begin < cycles) {} x[0] = 1; }",
        "spin",
    )
    x = torch.zeros(1, dtype=torch.int32, device="cuda")
    spin(1, 1, (1, x))
    x.zero_()
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        spin(1, 1, (500_000_000, x))
        copy = x.clone()
    # The call returned, and the default stream does not wait.
    assert not stream.query()
    assert x.cpu().item() == 0
    stream.synchronize()
    assert copy.item() == 1


@pytest.mark.parametrize("warm", [True, False])
def test_a_captured_graph(warm: bool) -> None:
    # Another source for each case, which nobody has loaded.
    kernel = smem.RawKernel(f"// {warm}\n{SAXPY}", "saxpy")
    x, y = torch.ones(2, 100, device="cuda")
    if warm:
        kernel.compile("cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernel(1, 32, (100, 2.0, x, y))
    assert y.eq(1).all()
    graph.replay()
    graph.replay()
    assert y.eq(5).all()


def test_many_threads() -> None:
    barrier = threading.Barrier(8)

    def work(i: int) -> bool:
        barrier.wait()
        x, y = torch.ones(2, 1000, device="cuda")
        for _ in range(50):
            kernel(4, 128, (1000, float(i), x, y))
        return bool(y.eq(1 + 50 * i).all())

    kernel = smem.RawKernel(f"// threads\n{SAXPY}", "saxpy")
    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))


FRESH = """
import threading, torch, torch_smem_gemm as smem
code = '__global__ void k(float* x) { x[threadIdx.x] += 1; }'
kernel = smem.RawKernel(code, 'k')
x = torch.zeros(32, device='cuda:0')

def call():
    kernel(1, 32, (x,))

def capture():
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernel(1, 32, (x,))
    graph.replay()

thread = threading.Thread(target={situation})
thread.start()
thread.join()
torch.cuda.synchronize()
assert x.eq(1).all(), x
"""


@pytest.mark.parametrize("situation", ["call", "capture"])
def test_the_first_call_of_a_thread(situation: str) -> None:
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-c", FRESH.replace("{situation}", situation)],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.gpu2
def test_a_second_device() -> None:
    for device in ("cuda:1", "cuda:0", "cuda:1"):
        y, expected = saxpy(device)
        torch.testing.assert_close(y, expected)
    x, y = torch.ones(8, device="cuda:0"), torch.ones(8, device="cuda:1")
    with pytest.raises(TypeError, match=r"3 \(y\) .* dense tensor on cuda:0, .* got one on cuda:1"):
        smem.RawKernel(SAXPY, "saxpy")(1, 32, (8, 1.0, x, y))


@pytest.mark.parametrize("bytes_", [16 * 1024, 100 * 1024])
def test_dynamic_shared_memory(bytes_: int) -> None:
    n = bytes_ // 4
    kernel = smem.RawKernel(SHARED, "reverse", options=[f"-DPER_THREAD={n // 256}"])
    x, y = torch.randn(2, n, device="cuda")
    kernel(1, 256, (x, y), shared_mem=bytes_)
    assert torch.equal(y, 2 * x.flip(0))


def test_variables() -> None:
    code = """
    namespace model { __constant__ float weights[4]; __device__ int calls; }
    __global__ void k(float* y) {
      y[threadIdx.x] = model::weights[threadIdx.x];
      if (threadIdx.x == 0) ++model::calls;
    }
    """
    kernel = smem.RawKernel(code, "k")
    weights = kernel.variable("weights", torch.float32, device="cuda:0")
    calls = kernel.variable("calls", numpy.int32, device="cuda")
    assert (weights.shape, weights.device) == ((4,), torch.device("cuda:0"))
    y = torch.zeros(4, device="cuda")
    for i in range(3):
        weights.copy_(torch.arange(4.0) + i)
        kernel(1, 4, (y,))
        assert y.tolist() == [i, i + 1, i + 2, i + 3]
    assert calls.tolist() == [3]
    # The CPU's are others.
    assert kernel.variable("calls", numpy.int32).tolist() == [0]
    with pytest.raises(KeyError, match="no variable 'bias'; there are: "):
        kernel.variable("bias", torch.float32, device="cuda")


def test_a_launch_without_tensors() -> None:
    code = "__device__ int calls; __global__ void k(int by) { atomicAdd(&calls, by); }"
    kernel = smem.RawKernel(code, "k")
    kernel(2, 32, (3,), device="cuda")
    kernel(1, 1, (1,))
    assert kernel.variable("calls", numpy.int32, device="cuda").tolist() == [192]
    assert kernel.variable("calls", numpy.int32).tolist() == [1]
    x = smem.RawKernel("__global__ void k(float* x) {}", "k")
    with pytest.raises(TypeError, match=r"\(x\) is float\*: expected .*cuda"):
        x(1, 1, (torch.zeros(1),), device="cuda")
    with pytest.raises(TypeError, match=r"\(x\) is float\*: expected .*"):
        x(1, 1, (torch.zeros(1, device="cuda"),), device="cpu")


def test_a_cooperative_launch() -> None:
    kernel = smem.RawKernel(ROOT / "tests" / "raw_kernels" / "coverage" / "groups.cu", "grid_sync")
    out = torch.zeros(2, 128, dtype=torch.int32, device="cuda")
    kernel(2, 64, (out,), cooperative=True)
    # Each block reads what the other one stored before.
    assert out[1].tolist() == [*reversed(range(128))]


def test_errors_of_arguments() -> None:
    kernel = smem.RawKernel(SAXPY, "saxpy")
    x, y = torch.ones(2, 8, device="cuda")
    for args, message in (
        ((8, 1.0, x.cpu(), y), r"2 \(x\) is const float\*: .* tensor on cuda:0, .* one on cpu"),
        ((8, 1.0, x, y.cpu().numpy()), r"3 \(y\) is float\*: .* tensor on cuda:0, .* ndarray"),
        ((8, 1.0, x.double(), y), r"2 \(x\) .* expected memory of float32, got float64"),
        ((x[0], 1.0, x, y), r"0 \(n\) is int: expected an integer, got Tensor"),
        ((8, "1", x, y), r"1 \(a\) is float: expected a number, got str"),
    ):
        with pytest.raises(TypeError, match=message):
            kernel(1, 32, args)
    with pytest.raises(ValueError, match=r"0 \(n\) is int: 2147483648 is not in"):
        kernel(1, 32, (2**31, 1.0, x, y))
    with pytest.raises(TypeError, match=r"a trace runs on the CPU, .* on cuda:0: pass copies"):
        kernel.trace(1, 32, (8, 1.0, x, y))


def test_errors_of_launches() -> None:
    kernel = smem.RawKernel(SHARED, "reverse", options=["-DPER_THREAD=1"])
    x, y = torch.ones(2, 32, device="cuda")
    with pytest.raises(
        ValueError, match=r"shared_mem is \d+ bytes, and a block of reverse has at "
    ):
        kernel(1, 32, (x, y), shared_mem=2**20)
    with pytest.raises(ValueError, match="grid is 0, expected 1 to 2147483647"):
        kernel(0, 32, (x, y))
    bounded = smem.RawKernel("__global__ void __launch_bounds__(64) k(float* x) {}", "k")
    with pytest.raises(ValueError, match=r"128 threads, and k takes at most 64 on "):
        bounded(1, 128, (x,))
    with pytest.raises(RuntimeError, match="COOPERATIVE_LAUNCH_TOO_LARGE"):
        bounded(2**20, 64, (x,), cooperative=True)
    with pytest.raises(smem.CompileError, match=r"kernel.cu\(1\): error: .*\"y\" is undefined"):
        smem.RawKernel("__global__ void k(float* x) { x[0] = y; }", "k")(1, 1, (x,))


# ------------------------------------------------------------- every kernel of the coverage tests

MODULES = (
    *("test_raw_kernel_coverage", "test_raw_kernel_half", "test_raw_kernel_warps"),
    "test_raw_kernel_math",
)
# A test of its own is above; or the GPU would end with the kernel.
ELSEWHERE = {
    *("test_constant_and_device_variables", "test_grid_sync_needs_one_block"),
    "test_assert_is_a_fault_at_its_line",
}
# CUDA has no such atomics of these types.
NOT_IN_CUDA = {
    "atomics_on_global_and_shared_memory-double",  # atomicExch
    "atomics_on_integers-unsigned long long",  # atomicSub
}
# The arguments whose values depend on the order of threads, or (%warpid) on the SM.
UNORDERED = {"atomics": {1}, "library_atomics": {2}, "special_registers": {0}}
# Of approximate functions; what is exact on both is compared by its own test on the CPU.
TOLERANCES = {
    torch.float64: 1e-12,
    torch.float32: 1e-5,
    torch.float16: 2e-3,
    torch.bfloat16: 1.6e-2,
}


def coverage() -> Iterator[Any]:
    """Yield the tests of what CUDA C++ has, with the values of their parameters."""
    for module in MODULES:
        for name, test in vars(importlib.import_module(module)).items():
            marks = [m for m in getattr(test, "pytestmark", ()) if m.name == "parametrize"]
            known = [mark.args[0] for mark in marks]
            if not name.startswith("test_") or set(known) != set(
                inspect.signature(test).parameters
            ):
                continue
            if name in ELSEWHERE or "RawKernel(" not in _source(test):
                continue
            for values in itertools.product(*(mark.args[1] for mark in marks)):
                parameters = dict(zip(known, values, strict=True))
                label = "-".join([name.removeprefix("test_"), *map(str, values)])
                if label in NOT_IN_CUDA:
                    continue
                yield pytest.param(functools.partial(test, **parameters), id=label)


def _source(test: Callable[..., None]) -> str:
    """Return a test's text with that of the helpers that it calls."""
    text = inspect.getsource(test)
    helpers = ("trace(", "run(", "evaluate(")
    return text + "RawKernel(" * any(helper in text for helper in helpers)


def on(device: str, value: Any) -> Any:
    """Return a copy of an argument on a device."""
    return value.detach().clone().to(device) if isinstance(value, torch.Tensor) else value


@pytest.mark.parametrize("test", coverage())
def test_the_same_as_on_the_cpu(test: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """What the kernels of a test on the CPU leave in memory, they leave there on a GPU."""
    launches: list[tuple[Any, ...]] = []

    def recorded(original: Callable[..., Any]) -> Callable[..., Any]:
        def method(
            self: smem.RawKernel, grid: Any, block: Any, args: Any, shared_mem: int = 0
        ) -> Any:
            before = [on("cuda", arg) for arg in args]
            result = original(self, grid, block, args, shared_mem=shared_mem)
            after = [on("cpu", arg) for arg in args]
            launches.append((self, grid, block, before, shared_mem, after))
            return result

        return method

    for name in ("__call__", "trace"):
        monkeypatch.setattr(smem.RawKernel, name, recorded(getattr(smem.RawKernel, name)))
    test()
    monkeypatch.undo()
    assert launches
    for kernel, grid, block, args, shared_mem, wanted in launches:
        kernel(grid, block, args, shared_mem=shared_mem)
        for i, (found, expected) in enumerate(zip(args, wanted, strict=True)):
            if not isinstance(found, torch.Tensor) or i in UNORDERED.get(
                kernel.name.partition("<")[0], ()
            ):
                continue
            tolerance = TOLERANCES.get(expected.dtype, 0)
            torch.testing.assert_close(
                found.cpu(),
                expected,
                rtol=tolerance,
                atol=tolerance,
                equal_nan=True,
                msg=lambda said, i=i, name=kernel.name: f"{name}, argument {i}: {said}",
            )
