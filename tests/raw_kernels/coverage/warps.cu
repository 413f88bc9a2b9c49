// Kernels of tests/test_raw_kernel_coverage.py: the lanes of a warp.
#include <cuda_fp16.h>

constexpr unsigned ALL = 0xffffffffu;

template <int WIDTH>
__global__ void shuffles(int* out) {
  const int i = threadIdx.x, n = blockDim.x;
  out[i] = __shfl_sync(ALL, i, 3, WIDTH);               // HERE: shfl
  out[n + i] = __shfl_up_sync(ALL, i, 2, WIDTH);        // HERE: up
  out[2 * n + i] = __shfl_down_sync(ALL, i, 2, WIDTH);  // HERE: down
  out[3 * n + i] = __shfl_xor_sync(ALL, i, 1, WIDTH);   // HERE: xor
}

__global__ void shuffle_types(const half2* in, double* out) {
  const int i = threadIdx.x;
  const half2 pair = __shfl_down_sync(ALL, in[i], 1);
  const half one = __shfl_xor_sync(ALL, in[i].x, 1);
  out[i] = __low2float(pair) + 100 * __half2float(one);
  out[32 + i] = __shfl_sync(ALL, i + 0.5, i + 1) + __shfl_sync(ALL, 1ll << i, 3) +
                __shfl_sync(ALL, i + 0.25f, 31 - i) + __shfl_sync(ALL, 2u * i, 1);
}

__global__ void part_of_a_warp(int* out) {
  const int i = threadIdx.x;
  if (i < 8) {
    out[i] = __shfl_sync(0xff, i, (i + 1) % 8);  // HERE: part
    out[32 + i] = __popc(__activemask());
  }
}

__global__ void votes(const int* in, unsigned* out) {
  const int i = threadIdx.x;
  out[i] = __ballot_sync(ALL, in[i] > 1);  // HERE: ballot
  out[32 + i] = __any_sync(ALL, in[i] == 2) + 2 * __all_sync(ALL, in[i] < 3);
  int all_equal;
  out[64 + i] = __match_any_sync(ALL, in[i]);  // HERE: match
  out[96 + i] = __match_all_sync(ALL, 5.0, &all_equal) + all_equal;
}

__global__ void reductions(const int* in, int* out) {
  const int i = threadIdx.x;
  out[i] = __reduce_add_sync(ALL, in[i]);  // HERE: reduce
  out[32 + i] = __reduce_min_sync(ALL, in[i]);
  out[64 + i] = __reduce_max_sync(ALL, static_cast<unsigned>(in[i]));
  out[96 + i] = __reduce_and_sync(ALL, in[i]);
  out[128 + i] = __reduce_or_sync(ALL, in[i]);
  out[160 + i] = __reduce_xor_sync(ALL, in[i]);
}

template <typename T>
__global__ void atomics(T* values, T* old) {
  __shared__ T shared[1];
  const T i = threadIdx.x;
  if (threadIdx.x == 0) shared[0] = 0;
  __syncthreads();
  atomicAdd(&shared[0], i);                     // HERE: shared
  old[threadIdx.x] = atomicAdd(&values[0], i);  // HERE: global
  if constexpr (sizeof(T) == 4 || T(1) / 2 == 0) {
    atomicExch(&values[1], T(7));
  } else {  // CUDA has none for double
    values[1] = 7;
  }
  __syncthreads();
  if (threadIdx.x == 0) values[2] = shared[0];
}

template <typename T>
__global__ void integer_atomics(T* values) {
  const T i = threadIdx.x;
  if constexpr (sizeof(T) == 4) {
    atomicSub(&values[0], i);
  } else {  // CUDA has none for long long
    atomicAdd(&values[0], 0 - i);
  }
  atomicMin(&values[1], i);
  atomicMax(&values[2], i);
  atomicAnd(&values[3], ~(T(1) << i));
  atomicOr(&values[4], T(1) << i);
  atomicXor(&values[5], i);
}

__global__ void wrapping_atomics(unsigned* values) {
  atomicInc(&values[0], 6);
  atomicDec(&values[1], 6);
}

__device__ float atomic_max(float* address, float value) {
  int* const bits = reinterpret_cast<int*>(address);
  int seen = *bits, assumed;
  do {
    assumed = seen;
    seen = atomicCAS(bits, assumed, __float_as_int(fmaxf(value, __int_as_float(assumed))));
  } while (assumed != seen);
  return __int_as_float(seen);
}

__global__ void compare_and_swap(const float* in, float* out) {
  atomic_max(out, in[blockIdx.x * blockDim.x + threadIdx.x]);
}

__global__ void half_atomics(half* one, half2* two) {
  atomicAdd(one, __float2half(0.5f));
  atomicAdd(two, __floats2half2_rn(1, 2));
}

// Lanes of a warp take the lock one after the other.
__global__ void spin_lock(int* lock, int* count) {
  bool done = false;
  while (!done) {
    if (atomicCAS(lock, 0, 1) == 0) {
      ++*reinterpret_cast<volatile int*>(count);
      __threadfence();
      atomicExch(lock, 0);
      done = true;
    }
  }
}
