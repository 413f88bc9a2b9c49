// Kernels for the script that tries public ones: tests/test_public_kernels.py.
__constant__ int offset[1];
static __device__ int last;

template <int TIMES>
__global__ void scale(const int* in, int* out) {
  __shared__ int row[32];
  row[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = TIMES * row[31 - threadIdx.x] + offset[0];
  last = 7;
}

__global__ void race(int* out) {
  __shared__ int x;
  x = threadIdx.x;
  out[threadIdx.x] = x;
}
