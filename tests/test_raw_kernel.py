"""smem.RawKernel: calls, arguments, and what is said of bad input."""

import ctypes
import multiprocessing
import re
import threading
import warnings
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import numpy
import pytest
import torch
from twice_kernel import TWICE

import torch_smem_gemm as smem
from torch_smem_gemm.raw_kernel import source

TRANSPOSE = """
template <typename T, int TILE>
__global__ void transpose(const T* in, T* out, int rows, int cols) {
  __shared__ T tile[TILE][TILE + 1];
  int row = blockIdx.y * TILE + threadIdx.y, col = blockIdx.x * TILE + threadIdx.x;
  if (row < rows && col < cols) tile[threadIdx.y][threadIdx.x] = in[row * cols + col];
  __syncthreads();
  row = blockIdx.y * TILE + threadIdx.x, col = blockIdx.x * TILE + threadIdx.y;
  if (row < rows && col < cols) out[col * rows + row] = tile[threadIdx.x][threadIdx.y];
}
"""


# ------------------------------------------------------------------------------------------ calls


def test_tensors_arrays_and_numbers() -> None:
    kernel = smem.RawKernel(TWICE, "twice")
    x = torch.randn(100)
    for out in (torch.zeros(100), numpy.zeros(100, dtype=numpy.float32)):
        kernel(4, 32, (x, out, 100))
        assert torch.equal(torch.as_tensor(out), 2 * x)
    out = torch.zeros(100)
    kernel((2, 1, 1), (32,), (x.numpy(), out, numpy.int64(40)))
    assert torch.equal(out[:40], 2 * x[:40])
    assert out[40:].eq(0).all()


@pytest.mark.parametrize(("rows", "cols"), [(64, 64), (33, 70), (1, 5)])
def test_templates_by_name_expression(rows: int, cols: int) -> None:
    for dtype, name in (
        (torch.float32, "float"),
        (torch.int64, "long long"),
        (torch.uint8, "unsigned char"),
    ):
        kernel = smem.RawKernel(TRANSPOSE, f"transpose<{name}, 16>")
        x = torch.randint(0, 200, (rows, cols)).to(dtype)
        out = torch.zeros(cols, rows, dtype=dtype)
        kernel((-(-cols // 16), -(-rows // 16)), (16, 16), (x, out, rows, cols))
        assert torch.equal(out, x.T)


def test_views_have_the_memory_of_their_elements() -> None:
    """An offset counts for sectors; beyond the view is out of bounds."""
    kernel = smem.RawKernel(TWICE, "twice")
    whole, out = torch.randn(200), torch.zeros(32)
    trace = kernel.trace(1, 32, (whole[1:33], out, 32))
    assert trace.count("sectors", memory="in") == 5
    assert trace.count("sectors", memory="out") == 4
    assert torch.equal(out, 2 * whole[1:33])
    with pytest.raises(smem.KernelFault, match="0 bytes after the end of in"):
        kernel(2, 32, (whole[1:33], torch.zeros(64), 64))


def test_beyond_one_tensor_is_not_another() -> None:
    """Wherever the two are in memory: here side by side."""
    text = "__global__ void k(float* a, float* b) { a[threadIdx.x + blockIdx.x] = b[threadIdx.x]; }"
    kernel, memory = smem.RawKernel(text, "k"), torch.ones(64)
    for a, b in ((memory[:32], memory[32:]), (memory[32:], memory[:32])):
        kernel(1, 32, (a, b))
        faults = kernel.trace(2, 32, (a, b)).faults
        assert [(fault.kind, fault.count) for fault in faults] == [("out of bounds", 1)]
        assert faults[0].detail == "0 bytes after the end of a (128 bytes)"


def test_views_of_one_tensor_may_overlap() -> None:
    text = "__global__ void k(const float* a, float* b) { b[threadIdx.x] = a[threadIdx.x] + 1; }"
    memory = torch.zeros(33)
    smem.RawKernel(text, "k")(1, 32, (memory[1:], memory[:32]))
    assert memory.tolist() == [1.0] * 32 + [0.0]
    memory = torch.zeros(32)
    smem.RawKernel(text, "k")(1, 32, (memory, memory))
    assert memory.eq(1).all()


def test_structs_null_pointers_and_each_kind_of_number() -> None:
    text = """
    struct Pair { int a; float b; };
    __global__ void all(double* out, Pair pair, bool truth, char c, unsigned long long big,
                        double d, const float* none) {
      out[0] = pair.a; out[1] = pair.b; out[2] = truth; out[3] = c; out[4] = big; out[5] = d;
      out[6] = none == nullptr;
    }"""

    class Pair(ctypes.Structure):
        _fields_ = (("a", ctypes.c_int), ("b", ctypes.c_float))

    kernel, out = smem.RawKernel(text, "all"), torch.zeros(7, dtype=torch.float64)
    expected = torch.tensor([3, 0.5, 1, -4, 2.0**40, 0.25, 1], dtype=torch.float64)
    pair = Pair(3, 0.5)
    as_numpy = numpy.array((3, 0.5), dtype=[("a", "i4"), ("b", "f4")])[()]
    for given in (pair, bytes(pair), as_numpy):
        out.zero_()
        kernel(1, 1, (out, given, True, -4, 2**40, 0.25, None))
        assert torch.equal(out, expected)


def test_a_file_with_what_it_includes(tmp_path: Path) -> None:
    (tmp_path / "factor.h").write_text("constexpr float FACTOR = 3;\n")
    file = tmp_path / "a kernel ü.cu"
    file.write_text(
        '#include "factor.h"\n#include <cuda_runtime.h>\n#include <cstdio>\n'
        "__global__ void scale(float* x) { x[threadIdx.x] *= FACTOR * SIGN; }\n"
        "int main() { scale<<<1, 32>>>(nullptr); cudaDeviceSynchronize(); return 0; }"
    )
    x = torch.ones(32)
    smem.RawKernel(file, "scale", options=["-DSIGN=-1"])(1, 32, (x,))
    assert x.eq(-3).all()
    trace = smem.RawKernel(str(file), "scale", options=["-DSIGN=-1"]).trace(1, 32, (x,))
    assert {line.file for line in trace.launches[0].lines} == {str(file)}
    assert {line.line for line in trace.launches[0].lines} == {4}
    # A change of what is included compiles it again.
    (tmp_path / "factor.h").write_text("constexpr float FACTOR = 5;  // more\n")
    x = torch.ones(32)
    smem.RawKernel(file, "scale", options=["-DSIGN=-1"])(1, 32, (x,))
    assert x.eq(-5).all()


def test_lanes_meet_in_a_plain_call() -> None:
    """Which counts nothing: shuffles, votes, barriers of warps and of the block."""
    text = """
    __global__ void sum(float* x) {
      float v = x[threadIdx.x];
      for (int offset = 16; offset > 0; offset /= 2) v += __shfl_xor_sync(~0u, v, offset);
      __syncwarp();
      if (!__any_sync(~0u, v < 0)) x[threadIdx.x] = v;
      __syncthreads();
    }"""
    kernel = smem.RawKernel(text, "sum")
    for _ in range(3):
        x = torch.ones(1024)
        kernel(1, 1024, (x,))
        assert x.eq(32).all()


def test_variables_of_the_device() -> None:
    text = """
    __constant__ float factors[4];
    __device__ int calls = 7;
    __global__ void scale(float* x) {
      x[threadIdx.x] *= factors[threadIdx.x % 4];
      if (threadIdx.x == 0) calls += 1;
    }"""
    kernel, x = smem.RawKernel(text, "scale"), torch.ones(32)
    kernel.variable("factors", numpy.float32)[:] = [1, 2, 3, 4]
    trace = kernel.trace(1, 32, (x,))
    assert trace.faults == ()
    assert torch.equal(x, torch.tensor([1.0, 2, 3, 4]).repeat(8))
    assert kernel.variable("calls", numpy.int32).tolist() == [8]
    (line,) = (line for line in trace.launches[0].lines if line.memory == "factors")
    assert (line.requests, line.lanes, line.sectors) == (1, 32, 0)
    assert trace.count("requests", memory="constant") == 1
    # Of x and of calls.
    assert trace.count("requests", actions=["load"], memory="global") == 2
    assert trace.global_bytes_loaded == 32 * 4 + 4
    with pytest.raises(KeyError, match=r"no variable 'factor'; there are: .*factors"):
        kernel.variable("factor", numpy.float32)


def test_a_device_is_named() -> None:
    kernel = smem.RawKernel("__device__ int calls; __global__ void k() { ++calls; }", "k")
    kernel(1, 1, (), device="cpu")
    assert kernel.variable("calls", numpy.int32).tolist() == [1]
    with pytest.raises(ValueError, match="device is meta, expected cpu or cuda"):
        kernel(1, 1, (), device="meta")
    if not torch.cuda.is_available():
        with pytest.raises(RuntimeError, match="device is cuda, and torch finds no CUDA GPU"):
            kernel(1, 1, (), device="cuda")


def test_calls_from_several_threads() -> None:
    """Blocks have their own shared memory whichever thread of the system runs them."""
    kernel = smem.RawKernel(TRANSPOSE, "transpose<float, 16>")

    def right(seed: int) -> bool:
        x, out = torch.full((64, 48), float(seed)).cumsum(1), torch.zeros(48, 64)
        kernel((3, 4), (16, 16), (x, out, 64, 48))
        return torch.equal(out, x.T)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(right, range(24)))
    failed: list[BaseException] = []
    thread = threading.Thread(target=lambda: right(1) or failed.append(AssertionError()))
    thread.start()
    thread.join()
    assert not failed


# ------------------------------------------------------------------------------------------ traces


def test_counts_and_totals() -> None:
    x, out = torch.randn(64, 64), torch.zeros(64, 64)
    for pad, ways in (("", 16), (" + 1", 1)):
        text = TRANSPOSE.replace(" + 1]", f"{pad}]")
        trace = smem.RawKernel(text, "transpose<float, 32>").trace(
            (2, 2), (32, 32), (x, out, 64, 64)
        )
        assert torch.equal(out, x.T)
        assert trace.faults == ()
        assert trace.count("sectors") == 2 * 4 * 128
        (read,) = (
            line
            for line in trace.launches[0].lines
            if (line.action, line.memory) == ("load", "shared")
        )
        assert read.array == "tile"
        assert read.requests == 128
        assert read.wavefronts == (128 if ways == 1 else 128 * 32)
        assert trace.barriers == 1
        assert trace.launches[0].static_shared_bytes == 32 * (33 if pad else 32) * 4
    assert "transpose" in repr(trace)
    assert trace.sources["kernel.cu"] == TRANSPOSE.splitlines()


def test_a_sample_of_the_blocks() -> None:
    kernel, x = smem.RawKernel(TWICE, "twice"), torch.randn(3200)
    out = torch.zeros(3200)
    trace = kernel.trace(100, 32, (x, out, 3200), blocks=[3, 99])
    assert trace.count("requests", memory="in") == 2
    changed = out.nonzero()[:, 0] // 32
    assert set(changed.tolist()) == {3, 99}
    with pytest.raises(ValueError, match="blocks names block 100, and the grid has 100"):
        kernel.trace(100, 32, (x, out, 3200), blocks=[100])
    with pytest.raises(ValueError, match="blocks is empty"):
        kernel.trace(100, 32, (x, out, 3200), blocks=[])


def test_a_grid_too_large_says_how_long_it_would_take() -> None:
    kernel = smem.RawKernel(TWICE, "twice")
    x = torch.ones(32)
    with pytest.raises(
        ValueError,
        match=r"1000000 blocks make about .* accesses .* take some \d+ s.*"
        r"blocks=range\(4\)",
    ):
        kernel.trace(10**6, 256, (x, torch.zeros(32), 32), max_accesses=100)
    assert x.eq(1).all()


def test_what_is_refused_before_it_is_tried_changes_nothing() -> None:
    """The block that is tried first works on copies."""
    text = "__global__ void add(float* x) { atomicAdd(x + threadIdx.x, 1); }"
    x = torch.zeros(256)
    smem.RawKernel(text, "add").trace(10**3, 256, (x,), blocks=range(600))
    assert x.eq(600).all()


# --------------------------------------------------------------------------------------- bad input


def test_wrong_arguments_are_named() -> None:
    kernel = smem.RawKernel(TWICE, "twice")
    x, y = torch.ones(32), torch.ones(32)
    for args, said in (
        ((x, y), "twice takes 3 arguments .const float\\* in, float\\* out, int n.*, and 2 came"),
        ((x, y, 1.5), r"argument 2 \(n\) is int: expected an integer, got float"),
        ((x, y, 2**31), r"argument 2 \(n\) is int: 2147483648 is not in -2147483648 to 2147483647"),
        ((x, y.double(), 32), r"1 \(out\) is float\*: expected memory of float32, got float64"),
        ((x.half(), y, 32), r"0 \(in\) is const float\*: expected memory of float32, got float16"),
        ((x, 3, 32), r"argument 1 \(out\) .* expected a tensor, a NumPy array or None, got int"),
        ((x.to("meta"), y, 32), r"0 \(in\) .* expected a dense tensor on the CPU, got one on meta"),
        ((x.to_sparse(), y, 32), r"argument 0 \(in\) .* expected a dense tensor"),
        ((x, y, None), r"argument 2 \(n\) is int: expected an integer, got NoneType"),
    ):  # fmt: skip
        with pytest.raises((TypeError, ValueError), match=said):
            kernel(1, 32, args)
    frozen = numpy.zeros(32, dtype=numpy.float32)
    frozen.flags.writeable = False
    kernel(1, 32, (frozen, y, 32))
    with pytest.raises(
        TypeError, match=r"argument 1 \(out\) .* expected an array that can be written"
    ):
        kernel(1, 32, (x, frozen, 32))


def test_a_file_that_may_only_be_read(tmp_path: Path) -> None:
    numpy.arange(32, dtype=numpy.float32).tofile(tmp_path / "numbers")
    x = numpy.memmap(tmp_path / "numbers", dtype=numpy.float32, mode="r")
    y = torch.empty(32)
    smem.RawKernel(TWICE, "twice")(1, 32, (x, y, 32))
    assert torch.equal(y, 2 * torch.arange(32.0))


def test_wrong_launches_are_named() -> None:
    kernel = smem.RawKernel(TWICE, "twice")
    args = torch.ones(32), torch.ones(32), 32
    for grid, block, said in (
        (0, 32, "grid is 0, expected 1 to"),
        ((1, 70000), 32, r"grid is \(1, 70000\), expected 1 to 65535 where 70000 is"),
        (1, (64, 32), "2048 threads, and a block has at most 1024"),
        (1, (1, 1, 65), "expected 1 to 64 where 65 is"),
        (1, "32", "block is '32', expected one to three integers"),
        ((1, 1, 1, 1), 32, "expected one to three integers"),
        (1, 2.0, "block is 2.0, expected one to three integers"),
    ):
        with pytest.raises((TypeError, ValueError), match=said):
            kernel(grid, block, args)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="shared_mem is -1, expected a number of bytes"):
        kernel(1, 32, args, shared_mem=-1)
    with pytest.raises(TypeError, match="blocks is 0, expected numbers of blocks"):
        kernel.trace(1, 32, args, blocks=0)
    for options in ("-O2", ("-DA", 3)):
        with pytest.raises(TypeError, match="expected a sequence of strings"):
            smem.RawKernel(TWICE, "twice", options=options)  # type: ignore[arg-type]
    for option in ("-std=c++11", "--std=gnu++0x"):
        with pytest.raises(ValueError, match=r"expected C\+\+14 or a later standard"):
            smem.RawKernel(TWICE, "twice", options=(option,))
    with pytest.raises(TypeError, match="name is None, expected a string"):
        smem.RawKernel(TWICE, None)  # type: ignore[arg-type]
    with pytest.raises(
        ValueError, match="shared_mem is 300000 bytes, and a block has at most 232448"
    ):
        kernel(1, 32, args, shared_mem=300_000)


@pytest.mark.parametrize(
    ("floats", "dynamic", "said"),
    [
        (12_289, 0, "k: its __shared__ arrays have 49156 bytes, and nvcc compiles at most 49152"),
        (12_288, 200_000, "k: shared_mem is 200000 bytes beside 49152 of its __shared__ arrays"),
        (12_288, 183_296, None),
    ],
)
def test_shared_memory_that_a_block_has_not(floats: int, dynamic: int, said: str | None) -> None:
    code = f"__global__ void k(float* x) {{ __shared__ float s[{floats}]; *x = s[5] = 3; }}"
    kernel, x = smem.RawKernel(code, "k"), torch.zeros(1)
    for run in (kernel, kernel.trace):
        x.zero_()
        if said is None:
            run(1, 1, (x,), shared_mem=dynamic)
        else:
            with pytest.raises(ValueError, match=said):
                run(1, 1, (x,), shared_mem=dynamic)
            assert x.item() == 0


def test_a_compile_error_shows_the_users_line(tmp_path: Path) -> None:
    file = tmp_path / "bad.cu"
    file.write_text("\n\n__global__ void bad(float* x) {\n  x[0] = y;\n}\n")
    with pytest.raises(
        smem.CompileError, match=r"bad does not compile: .*bad\.cu:4:\d+: error: .y. was not"
    ):
        smem.RawKernel(file, "bad")(1, 1, (None,))
    with pytest.raises(smem.CompileError, match="no kernel of this name; it has twice"):
        smem.RawKernel(TWICE, "missing")(1, 1, ())
    with pytest.raises(smem.CompileError, match="it returns int, and a __global__ function must"):
        smem.RawKernel("__global__ int k(float* x) { return *x; }", "k")(1, 1, (None,))
    helper = "__device__ void h(float* x) { *x = 1; } __global__ void k(float* x) { h(x); }"
    with pytest.raises(smem.CompileError, match="h does not compile: it is a __device__ function"):
        smem.RawKernel(helper, "h")(1, 1, (None,))
    macros = "#define DEVICE __device__\nKERNEL void k(float* x) { *x = 2; }"
    x = torch.zeros(1)
    smem.RawKernel(macros, "k", options=["-DKERNEL=__global__"])(1, 1, (x,))
    assert x.item() == 2
    library = "__device__ void cublasSgemm(int); __global__ void k() { cublasSgemm(1); }"
    with pytest.raises(
        smem.CompileError, match=r"kernel\.cu:1: cublasSgemm: libraries of the host"
    ):
        smem.RawKernel(library, "k")(1, 1, ())
    with pytest.raises(
        ValueError, match=r"'missing\.cu' is neither a source nor the path of a file"
    ):
        smem.RawKernel("missing.cu", "k")
    large = "__global__ void k(float* x, int n) { volatile float y[100000]; y[n] = 1; *x = y[1]; }"
    with pytest.raises(smem.CompileError, match="bytes of local variables, and the CPU takes at"):
        smem.RawKernel(large, "k")(1, 1, (torch.ones(1), 0))


def test_a_kernel_goes_to_another_process() -> None:
    """Not what this one has loaded, but the source."""
    kernel, x = smem.RawKernel(TWICE, "twice"), torch.zeros(32)
    kernel(1, 32, (torch.ones(32), x, 32))
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        assert pool.submit(sum_of_twice, kernel).result() == 64


def sum_of_twice(kernel: smem.RawKernel) -> float:
    x = torch.zeros(32)
    kernel(1, 32, (torch.ones(32), x, 32))
    return x.sum().item()


def test_what_a_kernel_may_only_read_is_not_stored(tmp_path: Path) -> None:
    numpy.arange(32, dtype=numpy.float32).tofile(tmp_path / "numbers")
    mapped = numpy.memmap(tmp_path / "numbers", dtype=numpy.float32, mode="r")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the tensor must not be written
        x = torch.from_numpy(mapped)
    y = torch.zeros(32)
    smem.RawKernel(TWICE, "twice")(1, 32, (x, y, 32))
    assert torch.equal(y, 2 * torch.arange(32.0))


def test_autograd_learns_what_is_written() -> None:
    x, y = torch.ones(32), torch.zeros(32, requires_grad=True).exp()
    y.sum().backward(retain_graph=True)
    smem.RawKernel(TWICE, "twice")(1, 32, (x, y.detach(), 32))
    assert x._version == 0
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


# -------------------------------------------------------------------------------------- the source


def test_the_source_keeps_its_lines() -> None:
    text = (
        "#include <x.h>\n"
        "// a comment with { and <<<\n"
        'const char* s = "}";\n'
        "static int host(int a)\n{\n  return a;\n}\n"
        "namespace n {\n__device__ int f() { return 1; }\nvoid g() { k<<<1, 2>>>(); }\n}\n"
        "struct S { int m() { return 2; } };\n"
        "template <int N> __global__ void k(int a) {\n#pragma unroll\n  for (;;) {}\n"
        "#pragma unroll 4\n#pragma unroll (N)\n}\n"
        "int table[] = {1, 2};\n"
        "int main() { k<3><<<1, 1>>>(1); }\n"
    )
    seen = source.for_cpu(text, "kernel.cu", "k<3>", {}, {}).text
    assert seen.count("\n") == text.count("\n")
    for kept in ("f() { return 1; }", "struct S { int m() { return 2; } };", "table[] = {1, 2}"):
        assert kept in seen
    for gone in ("host", "main", "g()", "pragma unroll\n"):
        assert gone not in re.sub("//.*", "", seen)
    unrolled = re.findall(r"#pragma GCC unroll (\d+)", seen)
    assert unrolled == ["65534", "4", "65534"]
    assert source.parameter_names(text, "k<3>") == ["a"]
