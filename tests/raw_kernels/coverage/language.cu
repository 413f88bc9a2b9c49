// Kernels of tests/test_raw_kernel_coverage.py: the language.
#include <assert.h>
#include <stdio.h>

#include <algorithm>
#include <cuda/std/cstdint>
#include <cuda/std/limits>

template <typename T>
struct Affine {
  T scale, offset;
  __host__ __device__ T operator()(T x) const { return scale * x + offset; }
};

namespace kernels {

template <typename T, int N>
__global__ void __launch_bounds__(64, 2) apply(Affine<T> affine, const T* in, T* out) {
  T sum = 0;
#pragma unroll
  for (int i = 0; i < N; ++i) sum += affine(in[threadIdx.x * N + i]);
  out[threadIdx.x] = sum;
}

}  // namespace kernels

__device__ int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
__device__ int square(int x) { return x * x; }
__device__ __noinline__ int cube(int x) { return x * x * x; }
using Function = int (*)(int);
__device__ const Function FUNCTIONS[] = {fibonacci, square, cube};

template <typename F>
__device__ __forceinline__ int twice(F f, int x) {
  return f(f(x));
}

__global__ void functions(int* out) {
  const int i = threadIdx.x;
  const auto add = [i](int x) { return x + i; };
  out[i] = fibonacci(i % 8) + FUNCTIONS[i % 3](i % 8) + twice(add, 1);
}

__global__ void control_flow(const int* in, int* out) {
  const int i = threadIdx.x;
  int n = in[i], steps = 0;
  while (n != 1) {  // Collatz
    n = n % 2 ? 3 * n + 1 : n / 2;
    ++steps;
  }
  int odd = 0, k = 0;
  do {
    if (k % 2 == 0) continue;
    if (k > i) break;
    odd += k;
  } while (++k < 20 || k % 2);
  int down = i;
again:
  if (down > 3) {
    down -= 3;
    goto again;
  }
  switch (i % 4) {
    case 0:
      out[i] = steps;
      break;
    case 1:
      out[i] = odd;
      [[fallthrough]];
    case 2:
      out[i] += 1000;
      break;
    default:
      out[i] = down;
  }
}

__global__ void grid_stride(int n, const float* in, float* out) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    out[i] = 2 * in[i];  // HERE: grid_stride
  }
}

__global__ void early_return(int n, float* out) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  out[i] = i;  // HERE: early_return
}

__global__ void three_dimensions(int* out) {
  const dim3 size = blockDim;
  const uint3 place = {blockIdx.x * size.x + threadIdx.x, blockIdx.y * size.y + threadIdx.y,
                       blockIdx.z * size.z + threadIdx.z};
  const unsigned width = gridDim.x * size.x, height = gridDim.y * size.y;
  out[(place.z * height + place.y) * width + place.x] = place.x + 100 * place.y + 10000 * place.z;
}

__global__ void barriers(const int* in, int* out) {
  const int i = threadIdx.x;
  __shared__ int values[64];
  values[i] = in[i];
  __syncwarp();
  const int neighbour = values[i / 32 * 32 + (i + 1) % 32];
  __threadfence_block();
  out[i] = __syncthreads_count(in[i] > 3) + 100 * (__syncthreads_and(in[i] >= 0) != 0) +
           1000 * (__syncthreads_or(in[i] == 7) != 0) + 10000 * neighbour;
}

__global__ void prints(const float* in) {
  if (threadIdx.x % 16 == 0) {
    printf("lane %d of block %u: %.2f %s\n", threadIdx.x, blockIdx.x, in[threadIdx.x], "m");
  }
  if (threadIdx.x == 0) printf("done\n");
}

__global__ void asserts(const float* in) {
  assert(in[threadIdx.x] < 20);  // HERE: assert
}

__global__ void clocks(long long* out) {
  const clock_t start = clock();
  const long long begin = clock64();
  __nanosleep(100);
  out[threadIdx.x] = clock() - start >= 0 && clock64() - begin >= 0;
}

__global__ void cpp_library(const float* in, cuda::std::uint32_t* out) {
  float low = cuda::std::numeric_limits<float>::max();
  low = std::min(low, in[threadIdx.x]);  // HERE: std_min
  out[threadIdx.x] = low;
}

__global__ void special_registers(unsigned* out) {
  unsigned lane, warp;
  asm("mov.u32 %0, %%laneid;" : "=r"(lane));
  asm volatile("mov.u32 %0, %warpid;" : "=r"(warp));
  out[threadIdx.x] = lane + 100 * warp;
}

__global__ void approximations(const float* in, float* out) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(in[threadIdx.x]));
  out[threadIdx.x] = y;
}
