// Kernels of tests/test_raw_kernel_coverage.py: memory. `HERE: name` marks a line that is counted.

__global__ void static_shared(const float* in, float* out) {
  __shared__ float values[64];
  values[threadIdx.x] = in[threadIdx.x];  // HERE: stored
  __syncthreads();
  out[threadIdx.x] = values[63 - threadIdx.x];  // HERE: loaded
}

extern __shared__ float dynamic_floats[];
extern __shared__ double dynamic_doubles[];

__global__ void dynamic_shared_of_floats(const float* in, float* out) {
  dynamic_floats[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = dynamic_floats[threadIdx.x ^ 1];
}

// Doubles, and behind them integers.
__global__ void dynamic_shared_of_doubles(const double* in, double* out) {
  int* const numbers = reinterpret_cast<int*>(dynamic_doubles + blockDim.x);
  dynamic_doubles[threadIdx.x] = in[threadIdx.x];  // HERE: doubles
  numbers[threadIdx.x] = threadIdx.x;              // HERE: integers
  __syncthreads();
  out[threadIdx.x] = dynamic_doubles[numbers[threadIdx.x ^ 1]];
}

__constant__ float weights[4];
__device__ int total;
__device__ float history[2][32] = {{1, 2, 3}};

__global__ void variables(const int* in, float* out) {
  const int i = threadIdx.x;
  out[i] = in[i] * weights[i % 4] + history[0][i];
  history[1][i] = out[i];
  atomicAdd(&total, in[i]);
}

__global__ void vectors(const float4* a, const int2* b, const double2* c, const uchar4* d,
                        float4* out) {
  const int i = threadIdx.x;
  const float4 x = a[i];                                                         // HERE: float4
  const int2 y = b[i];                                                           // HERE: int2
  const double2 z = c[i];                                                        // HERE: double2
  const uchar4 w = d[i];                                                         // HERE: uchar4
  out[i] = make_float4(x.x + x.w, y.x + y.y, z.x * z.y, w.x + w.y + w.z + w.w);  // HERE: out
}

__global__ void vectors_of_a_float_pointer(const float* in, float* out) {
  __shared__ __align__(16) float tile[128];
  float4* const tile4 = reinterpret_cast<float4*>(tile);
  tile4[threadIdx.x] = reinterpret_cast<const float4*>(in)[threadIdx.x];  // HERE: tile
  __syncthreads();
  out[threadIdx.x] = tile[4 * threadIdx.x];  // HERE: stride_4
}

__global__ void cached(const float* __restrict__ in, const float4* in4, float* out) {
  const float4 v = __ldg(&in4[threadIdx.x]);  // HERE: ldg4
  __stcs(out + threadIdx.x, __ldg(in + threadIdx.x) + __ldcg(in + 32 + threadIdx.x) + v.w);
}

union Bits {
  float number;
  unsigned word;
  struct {
    unsigned mantissa : 23, exponent : 8, sign : 1;
  } fields;
};

__global__ void local_objects(const float* in, int* out) {
  Bits bits;
  bits.number = in[threadIdx.x];
  int powers[8];
  for (int i = 0; i < 8; ++i) powers[i] = i * i;
  out[threadIdx.x] = static_cast<int>(bits.fields.exponent) - 127 + powers[threadIdx.x % 8];
}

// A reduction of the CUDA guide's old days: lanes in lock step, shared memory volatile.
__global__ void volatile_warp(const float* in, float* out) {
  __shared__ volatile float sums[64];
  const int i = threadIdx.x;
  sums[i] = in[i];
  sums[i + 32] = 0;
  for (int step = 16; step > 0; step /= 2) sums[i] = sums[i] + sums[i + step];
  if (i == 0) *out = sums[0];
}

// Each block adds to what the block before it has stored.
__global__ void chained(const int* in, int* partial, int* flag) {
  const int block = blockIdx.x;
  if (threadIdx.x == 0) {
    while (block > 0 && atomicAdd(&flag[block - 1], 0) == 0) {
    }
    const int before = block > 0 ? *reinterpret_cast<volatile int*>(&partial[block - 1]) : 0;
    partial[block] = before + in[block];
    __threadfence();
    atomicExch(&flag[block], 1);
  }
}

__device__ unsigned finished;

// The last block to finish adds what all blocks have stored.
__global__ void last_block(const int* in, int* partial, int* out) {
  __shared__ bool is_last;
  if (threadIdx.x == 0) {
    partial[blockIdx.x] = in[blockIdx.x];
    __threadfence();
    is_last = atomicInc(&finished, gridDim.x - 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (is_last && threadIdx.x == 0) {
    int sum = 0;
    for (int i = 0; i < gridDim.x; ++i) sum += partial[i];
    *out = sum;
  }
}
