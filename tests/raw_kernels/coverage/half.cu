// Kernels of tests/test_raw_kernel_half.py, for half or (-DBFLOAT16) bfloat16. Each writes a row of
// n numbers for every function.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#ifdef BFLOAT16
using H = __nv_bfloat16;
using H2 = __nv_bfloat162;
#define FROM_FLOAT(mode) __float2bfloat16_##mode
#define TO_INTEGER(mode) __bfloat162int_##mode
#define PAIR_OF __floats2bfloat162_rn
#define PAIR_TO_FLOATS __bfloat1622float2
#define BITS_OF __bfloat16_as_ushort
#else
using H = half;
using H2 = half2;
#define FROM_FLOAT(mode) __float2half_##mode
#define TO_INTEGER(mode) __half2int_##mode
#define PAIR_OF __floats2half2_rn
#define PAIR_TO_FLOATS __half22float2
#define BITS_OF __half_as_ushort
#endif

__device__ int index() { return blockIdx.x * blockDim.x + threadIdx.x; }

__global__ void narrow(int n, const float* in, H* out) {
  const int i = index();
  if (i >= n) return;
  out[i] = FROM_FLOAT(rn)(in[i]);
  out[n + i] = FROM_FLOAT(rz)(in[i]);
  out[2 * n + i] = FROM_FLOAT(rd)(in[i]);
  out[3 * n + i] = FROM_FLOAT(ru)(in[i]);
  out[4 * n + i] = in[i];
  out[5 * n + i] = static_cast<double>(in[i]);
}

__global__ void widen(int n, const H* in, float* floats, int* integers) {
  const int i = index();
  if (i >= n) return;
  floats[i] = in[i];
  integers[i] = TO_INTEGER(rn)(in[i]);
  integers[n + i] = TO_INTEGER(rz)(in[i]);
  integers[2 * n + i] = TO_INTEGER(rd)(in[i]);
  integers[3 * n + i] = TO_INTEGER(ru)(in[i]);
}

__global__ void arithmetic(int n, const H* a, const H* b, const H* c, H* out) {
  const int i = index();
  if (i >= n) return;
  out[i] = a[i] + b[i];
  out[n + i] = __hsub(a[i], b[i]);
  out[2 * n + i] = __hmul(a[i], b[i]);
  out[3 * n + i] = a[i] / b[i];
  out[4 * n + i] = __hfma(a[i], b[i], c[i]);
  out[5 * n + i] = __hmax(a[i], b[i]);
  out[6 * n + i] = __hmin_nan(a[i], b[i]);
  out[7 * n + i] = __hneg(__habs(a[i]));
  out[8 * n + i] = __hadd_sat(a[i], b[i]);
}

__global__ void comparisons(int n, const H* a, const H* b, int* out) {
  const int i = index();
  if (i >= n) return;
  out[i] = (a[i] == b[i]) | (a[i] != b[i]) << 1 | (a[i] < b[i]) << 2 | (a[i] >= b[i]) << 3 |
           __hgt(a[i], b[i]) << 4 | __hgtu(a[i], b[i]) << 5 | __hne(a[i], b[i]) << 6 |
           __hisnan(a[i]) << 7 | (__hisinf(a[i]) != 0) << 8;
}

__global__ void elementary(int n, const H* in, H* out) {
  const int i = index();
  if (i >= n) return;
  out[i] = hexp(in[i]);
  out[n + i] = hexp2(in[i]);
  out[2 * n + i] = hlog(in[i]);
  out[3 * n + i] = hlog2(in[i]);
  out[4 * n + i] = hsqrt(in[i]);
  out[5 * n + i] = hrsqrt(in[i]);
  out[6 * n + i] = hrcp(in[i]);
  out[7 * n + i] = hsin(in[i]);
  out[8 * n + i] = hcos(in[i]);
  out[9 * n + i] = hfloor(in[i]);
  out[10 * n + i] = hrint(in[i]);
}

__global__ void pairs(int n, const H2* a, const H2* b, H2* out, unsigned* masks) {
  const int i = index();
  if (i >= n) return;
  const H2 sum = __hadd2(a[i], b[i]);  // HERE: load_pairs
  out[i] = sum;                        // HERE: store_pair
  out[n + i] = __hfma2(a[i], b[i], sum);
  out[2 * n + i] = h2exp(a[i]);
  out[3 * n + i] = __hmax2(a[i], b[i]) * b[i];
  const float2 floats = PAIR_TO_FLOATS(a[i]);
  out[4 * n + i] = PAIR_OF(floats.y, __high2float(b[i]));
  out[5 * n + i] = __hgt2(a[i], b[i]);
  masks[i] = __hlt2_mask(a[i], b[i]) ^ __hbeq2(a[i], a[i]);
}

// A tile in shared memory, read as pairs and as vectors of eight.
__global__ void shared_tile(const H* in, H* out) {
  __shared__ __align__(16) H tile[256];
  reinterpret_cast<uint4*>(tile)[threadIdx.x] = reinterpret_cast<const uint4*>(in)[threadIdx.x];
  __syncthreads();
  const H2* const tile2 = reinterpret_cast<const H2*>(tile);
  const H2 pair = tile2[threadIdx.x];  // HERE: pair_in_shared
  out[threadIdx.x] = pair.x + pair.y;
  out[32 + threadIdx.x] = tile[128 + threadIdx.x];  // HERE: one_in_shared
}
