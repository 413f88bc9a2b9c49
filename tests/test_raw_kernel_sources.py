"""Sources as they are found in public: what belongs to the host in them, and CUDA's own syntax."""

import numpy
import pytest
import torch

import torch_smem_gemm as smem

# Nothing of this compiles without the host's libraries, but no kernel needs it.
HOST = """
static unknown_t handle;
extern "C" void prototype(unknown_t a);
template <class T> class Checker {
  bool check(T a) { return unknown(a); }
};
template <> class Checker<int> {
  bool check(int a) { return unknown_for_int(a); }
};
template <class T> void launch(T* x) { twice<<<1, 32>>>(x); }
template void launch<float>(float* x);
struct Timer { unknown_t begin; void start() { cudaUnknown(&begin); } };
"""
TWICE = "__global__ void twice(float* x) { x[threadIdx.x] *= 2; }\n"


def test_what_only_the_host_has_is_left_out() -> None:
    x = torch.ones(32)
    smem.RawKernel(HOST + TWICE, "twice")(1, 32, (x,))
    assert x.eq(2).all()


def test_an_error_in_what_the_kernel_uses_is_shown() -> None:
    code = "struct P { unknown_t a; int n; };\n__global__ void k(P p, int* out) { *out = p.n; }"
    with pytest.raises(smem.CompileError, match=r"kernel\.cu:1:\d+: error: .unknown_t. does not"):
        smem.RawKernel(code, "k").compile()


def test_a_specialisation_is_not_left_out() -> None:
    """Without it, the kernel would compile and be another."""
    code = """
    template <class T> struct Traits { static constexpr int n = 1; };
    template <> struct Traits<float> { static constexpr int n = unknown; };
    __global__ void k(int* out) { *out = Traits<float>::n; }
    """
    with pytest.raises(smem.CompileError, match=r"unknown. was not declared"):
        smem.RawKernel(code, "k").compile()


def test_variables_that_only_python_sets() -> None:
    code = """
    static __constant__ int given[2];
    static __device__ int taken[2];
    __global__ void k() { taken[threadIdx.x] = given[threadIdx.x] + 1; }
    """
    kernel = smem.RawKernel(code, "k")
    kernel.variable("given", numpy.int32)[:] = [3, 4]
    kernel(1, 2, ())
    assert kernel.variable("taken", numpy.int32).tolist() == [4, 5]


def test_shared_arrays_that_are_aligned_or_begin_with_an_underscore() -> None:
    code = """
    __global__ void k(float4* x) {
      extern __shared__ alignas(16) float4 __dynamic[];
      __shared__ alignas(alignof(float4)) float _row[4 * 32];
      const int t = threadIdx.x;
      __dynamic[t] = x[t];
      reinterpret_cast<float4*>(_row)[t] = __dynamic[t];
      __syncthreads();
      x[t] = reinterpret_cast<float4*>(_row)[31 - t];
    }
    """
    x = torch.randn(32, 4)
    wanted = x.flip(0)
    trace = smem.RawKernel(code, "k").trace(1, 32, (x,), shared_mem=512)
    assert trace.faults == ()
    assert torch.equal(x, wanted)
    arrays = {line.array for line in trace.launches[0].lines if line.memory == "shared"}
    assert arrays == {"__dynamic", "_row"}


def test_attributes_that_depend_on_the_compiler() -> None:
    """A helper whose attributes are conditional or a macro's is not the host's."""
    code = """
    template <class T>
    #if defined(__CUDACC__)
    __host__ __device__
    #endif
    T doubled(T a) { return a + a; }
    #define HOST_DEVICE __host__ __device__
    HOST_DEVICE inline int one() { return 1; }
    EXPORT_API void of_the_host() { unknown<<<1, 1>>>(); }
    __global__ void k(int* out) { *out = doubled(one()); }
    """
    out = torch.zeros(1, dtype=torch.int32)
    smem.RawKernel(code, "k")(1, 1, (out,))
    assert out.item() == 2


@pytest.mark.parametrize("options", [(), ("-DOFFSET",)])
def test_parameters_that_depend_on_a_condition(options: tuple[str, ...]) -> None:
    code = """
__global__ void k(float* x,
#ifdef OFFSET
                  int offset,
#endif
                  float y) {
#ifdef OFFSET
  x[offset] = y;
#else
  x[1] = y;
#endif
}
void host(int (x),
#ifdef OFFSET
          int y,
#endif
          int z) {
  unknown(z);
}
"""
    x = torch.zeros(3)
    smem.RawKernel(code, "k", options=options)(1, 1, (x, *((2,) if options else ()), 4.0))
    assert x.tolist() == ([0, 0, 4] if options else [0, 4, 0])


def test_an_aligned_template_is_a_type() -> None:
    code = """
    #include <memory>
    template <class T> struct alignas(2 * sizeof(T)) Two { T x, y; };
    template <class T> struct __align__(sizeof(T) * (1 + 1)) Other { T x, y; };
    __device__ __noinline__ float last(Two<float> two) { return two.y; }
    __global__ void k(const float* x, float* out) {
      *out = last(*reinterpret_cast<const Two<float>*>(x)) + alignof(Other<float>);
    }
    """
    x, out = torch.tensor([1.0, 2.0]), torch.zeros(1)
    smem.RawKernel(code, "k")(1, 1, (x, out))
    assert out.item() == 10
