__global__ void block_sum(const int* x, int* out) {
  __shared__ int partial[256];
  int thread = threadIdx.x;
  partial[thread] = x[blockIdx.x * blockDim.x + thread];
  for (int half = blockDim.x / 2; half > 0; half /= 2) {
    if (thread < half) partial[thread] += partial[thread + half];
    __syncthreads();
  }
  if (thread == 0) out[blockIdx.x] = partial[0];
}
