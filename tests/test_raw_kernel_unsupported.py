"""How users' sources are read on the CPU: headers, inline PTX, and what cannot run, by its name."""

import re
from pathlib import Path

import pytest
import torch

import torch_smem_gemm as smem
from torch_smem_gemm.raw_kernel import ptx, source, text

# What the kernel does, and the message's name of it; each stands in the third line.
UNSUPPORTED = {
    "wmma::bmma_sync(c, a, b, c);": "bmma_sync: fragments of 1 and 4 bits cannot run on the CPU",
    "wmma::fragment<wmma::accumulator, 8, 8, 32, wmma::experimental::precision::u4> f;": (
        "wmma::experimental: fragments of 1 and 4 bits cannot run on the CPU yet"
    ),
    'asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0}, {%1};" : "=f"(d) : "r"(a));': (
        r"asm: PTX \(mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32\) cannot run on the CPU yet"
    ),
    'asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(a) : "r"(b));': (
        r"asm: PTX \(ldmatrix.sync.aligned.m8n8.x1.shared.b16\) cannot run on the CPU yet"
    ),
    'asm("wgmma.fence.sync.aligned;\\n" ::: "memory");': r"asm: PTX \(wgmma.fence.sync.aligned\)",
    "child<<<1, 32>>>(x);": "<<<>>>: a kernel that launches kernels cannot run on the CPU",
    "using Sort = cub::BlockRadixSort<float, 128, 4>;": (
        "cub::BlockRadixSort: device libraries cannot run on the CPU"
    ),
    "curand_init(1, 2, 3, &state);": "curand_init: device libraries cannot run",
    "x[0] = tex2D<float>(image, 0, 1);": "tex2D: textures and surfaces cannot run on the CPU yet",
    "auto cluster = cg::this_cluster();": "this_cluster: thread block clusters cannot run",
    "__shared__ cg::block_tile_memory<128> scratch;": (
        "block_tile_memory: tiles of several warps cannot run on the CPU yet"
    ),
    "float* y = (float*)malloc(4);": "malloc: a kernel on the CPU cannot allocate memory yet",
    "if (x[0] < 0) abort();": "abort: a kernel cannot call a function of the host",
    "std::exit(3);": "std::exit: a kernel cannot call a function of the host",
    "float* y = new float[4];": "new: a kernel on the CPU cannot allocate memory yet",
}


@pytest.mark.parametrize("statement", UNSUPPORTED)
def test_what_cannot_run_is_named_with_its_line(statement: str) -> None:
    code = f"__global__ void k(float* x) {{\n  int i = threadIdx.x;\n  {statement}\n}}\n"
    with pytest.raises(smem.CompileError, match=f"kernel.cu:3: {UNSUPPORTED[statement]}"):
        smem.RawKernel(code, "k").compile()


def test_numbers_of_cufft() -> None:
    code = (
        "#include <cufft.h>\n__global__ void k(const cufftComplex* in, cufftReal* out) "
        "{ out[threadIdx.x] = in[threadIdx.x].y; }\n"
        "__global__ void plan(int* x) { cufftPlan1d(x); }"
    )
    x, out = torch.randn(4, dtype=torch.complex64), torch.zeros(4)
    smem.RawKernel(code, "k")(1, 4, (x, out))
    assert torch.equal(out, x.imag)
    with pytest.raises(smem.CompileError, match="cufftPlan1d: libraries of the host"):
        smem.RawKernel(code, "plan").compile()


def test_only_the_kernel_that_uses_it_is_refused(tmp_path: Path) -> None:
    """Neither other kernels, nor helpers and macros that the kernel does not use."""
    file = tmp_path / "mixed.cu"
    file.write_text(
        "#include <mma.h>\n#include <cub/cub.cuh>\n#include <cublas_v2.h>\n"
        "using namespace nvcuda;\nstatic cublasHandle_t handle;\n"
        '#define LOAD(a, b) asm("ld.x %0, [%1];" : "=r"(a) : "r"(b))\n'
        "__device__ void tensor_core() { wmma::bmma_sync(a, b, c, d); }\n"
        "__device__ float load(float* x) { float y; LOAD(y, x); return y; }\n"
        "struct Buffer { float* data; Buffer() { cudaMalloc(&data, 4); } };\n"
        "__global__ void plain(float* x) { x[threadIdx.x] = threadIdx.x; }\n"
        "__global__ void helped(float* x) { tensor_core(); }\n"
        "__global__ void by_macro(float* x) { x[0] = load(x); }\n"
        "__device__ float indirect() { tensor_core(); return 1; }\n"
        "__device__ float more_indirect() { return 2 * indirect(); }\n"
        "__global__ void far(float* x) { x[0] = more_indirect(); }\n"
        "int main() { plain<<<1, 32>>>(nullptr); }\n"
    )
    out = torch.zeros(32)
    smem.RawKernel(file, "plain")(1, 32, (out,))
    assert out.tolist() == list(range(32))
    for name in ("helped", "far"):
        with pytest.raises(smem.CompileError, match=r"mixed\.cu:7: bmma_sync: fragments of 1 and"):
            smem.RawKernel(file, name).compile()
    with pytest.raises(smem.CompileError, match=r"mixed\.cu:6: asm: PTX \(ld\.x\)"):
        smem.RawKernel(file, "by_macro").compile()


def test_a_missing_header_is_named_with_what_it_would_have_had() -> None:
    code = '#include "tables.h"\n__global__ void k(float* x) { x[0] = TABLE[1]; }\n'
    with pytest.raises(smem.CompileError) as raised:
        smem.RawKernel(code, "k").compile()
    assert re.search(r"kernel\.cu:2:\d+: error: .TABLE. was not declared", str(raised.value))
    assert str(raised.value).endswith("(there is no header tables.h)")


def test_headers_of_the_user_are_read_as_the_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside the source and on the path of options, once, with functions of the host."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "include").mkdir()
    (tmp_path / "include" / "scale.cuh").write_text(
        "#pragma once\n#include <cublas_v2.h>\n#include <vector>\n"
        "inline void host(float* x) { k<<<1, 1>>>(x); }\n"
        "__constant__ float scale = 3;\n"
        "__device__ inline float scaled(const float* x) {\n  return scale * *x;\n}\n"
    )
    (tmp_path / "kernels.cuh").write_text(
        '#include "include/scale.cuh"\n#include <scale.cuh>\n'
        "template <int N> __global__ void k(const float* in, float* out) {\n"
        "#pragma unroll\n  for (int i = 0; i < N; ++i) out[i] = scaled(in + i);\n}\n"
    )
    (tmp_path / "main.cu").write_text('#include "kernels.cuh"\nint main() { host(0); }\n')
    kernel = smem.RawKernel("main.cu", "k<4>", options=("-Iinclude",))
    x, out = torch.randn(4), torch.empty(4)
    traced = kernel.trace(1, 1, (x, out))
    assert torch.equal(out, 3 * x)
    assert set(traced.tensor_bytes) == {"in", "out"}
    lines = {(Path(line.file).name, line.line, line.memory) for line in traced.launches[0].lines}
    assert lines == {("scale.cuh", 7, "in"), ("scale.cuh", 7, "scale"), ("kernels.cuh", 5, "out")}
    (tmp_path / "include" / "scale.cuh").write_text(
        "#pragma once\n__device__ inline float scaled(const float* x) { return -*x; }\n"
    )
    smem.RawKernel("main.cu", "k<4>", options=("-Iinclude",))(1, 1, (x, out))
    assert torch.equal(out, -x)


CP_ASYNC = """
#define COPY(to, from) \\
  asm volatile("cp.async.cg.shared.global [%0], [%1], %2;\\n" ::"r"(to), "l"(from), "n"(16))
__device__ void commit() { asm volatile("cp.async.commit_group;\\n" ::); }
__global__ void k(const float4* in, float4* out) {
  __shared__ float4 tile[32];
  const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(&tile[threadIdx.x]));
  COPY(to, in + threadIdx.x);
  commit();
  asm volatile("cp.async.wait_group %0;\\n" ::"n"(0) : "memory");
  asm volatile("" ::: "memory");
  asm volatile("bar.sync 0;");
  out[threadIdx.x] = tile[31 - threadIdx.x];
}
"""


def test_inline_ptx_of_asynchronous_copies() -> None:
    x, out = torch.randn(32, 4), torch.empty(32, 4)
    traced = smem.RawKernel(CP_ASYNC, "k").trace(1, 32, (x, out))
    assert traced.faults == ()
    assert torch.equal(out, x.flip(0))
    copies = {(line.line, line.action, line.requests) for line in traced.launches[0].lines}
    assert {(8, "copy_from", 1), (8, "copy_to", 1), (12, "barrier", 1)} <= copies


GUARDED = r"""
__device__ unsigned shared_address(const void* pointer) {
  unsigned address;
  asm("{.reg .u64 wide;\n cvta.to.shared.u64 wide, %1;\n cvt.u32.u64 %0, wide;}\n"
      : "=r"(address) : "l"(pointer));
  return address;
}
__global__ void k(const float* in, float* out, int n) {
  __shared__ float row[32];
  const int t = threadIdx.x;
  float value = 7;
  asm volatile(
      "{.reg .pred p;\n"
      " setp.ne.b32 p, %2, 0;\n"
      " @!p mov.b32 %0, 0;\n"
#if __CUDACC_VER_MAJOR__ >= 11 && \
    __CUDA_ARCH__ >= 750
      " @p ld.global.nc.L2::128B.f32 %0, [%1];}\n"
#else
      " @p ld.global.nc.f64 %0, [%1];}\n"
#endif
      : "+f"(value) : "l"(in + t), "r"((int)(t < n)));
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(shared_address(row + t)), "f"(value));
  __syncwarp();
  asm volatile(
      "{ .reg .pred p; setp.eq.s32 p, %2, 1; @p st.global.f32 [%0], %1; }"
      ::"l"(out + t), "f"(row[31 - t]), "r"(t % 2));
  assert(t != 40);
}
"""


def test_inline_ptx_with_registers_and_predicates() -> None:
    x, out = torch.randn(20), torch.zeros(32)
    kernel = smem.RawKernel(GUARDED, "k")
    traced = kernel.trace(1, 32, (x, out, 20))
    wanted = torch.cat([x, torch.zeros(12)]).flip(0)
    wanted[::2] = 0
    assert torch.equal(out, wanted)
    assert traced.faults == ()
    assert traced.count("lanes", memory="in") == 20
    assert traced.count("lanes", memory="out") == 16
    translated = ptx.to_cpp(GUARDED).splitlines()
    lines = GUARDED.splitlines()
    assert len(translated) == len(lines)
    last = next(i for i, line in enumerate(lines) if "assert" in line)
    assert translated[last] == lines[last]


def test_ptx_that_is_known_becomes_cpp_and_the_rest_stays() -> None:
    known = 'asm("fma.rn.f32 %0, %1, %2, %3;" : "=f"(d) : "f"(a), "f"(x::b), "f"(c));'
    assert ptx.to_cpp(known) == "do { (d) = fmaf((a), (x::b), (c)); } while (0);"
    two = 'asm volatile("mov.u32 %0, %%laneid;\\n\\t"\n "mov.u32 %1, 7;" : "=r"(a), "=r"(b));'
    assert ptx.to_cpp(two) == "do { (a) = smem_lane(); (b) = 7; } while (0)\n;"
    for other in (
        'asm volatile("" ::: "memory");',
        'asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 %0, %1;" : "=f"(a) : "r"(b));',
        'asm("mov.u32 %0, %unknown;" : "=r"(a));',
        'asm(OPCODE " %0;" : "=r"(a));',
        '// asm("mov.u32 %0, %laneid;" : "=r"(a));',
    ):
        assert ptx.to_cpp(other) == other


def test_declarations_are_found() -> None:
    code = text.mask(
        '#define F(x) { x }\nusing namespace a;\nextern "C" {\nint f(int x);\n}\n'
        "template <typename T> __global__ void __launch_bounds__(256, 2) k(T* x) { if (x) {} }\n"
        "struct alignas(16) S { int a; } s;\nconst int table[] = {1, 2};\n"
        "namespace n { __device__ auto g(int x) -> int { return x; } }\n"
    )
    found = [(d.name, d.is_function, d.is_type) for d in text.declarations(code)]
    assert found == [
        ("a", False, False),
        ("f", False, False),
        ("k", True, False),
        ("S", False, True),
        ("s", False, False),
        ("table", False, False),
        ("table", False, False),
        ("g", True, False),
    ]


def test_other_kernels_are_left_out() -> None:
    kept = "\n__global__ void b() {}\n"
    code = "__global__ void a() {}" + kept
    assert source.for_cpu(code, "x.cu", "n::b<3>", {}, {}).text == " " * 22 + kept
