// The stride halves in each round: the first threads add their neighbours' elements to their own,
// so that a warp accesses 32 neighbouring elements, and whole warps become idle.

#define THREADS 256

__global__ void row_sum(const float* x, float* out, int cols) {
  __shared__ float partial[THREADS];
  int tid = threadIdx.x, row = blockIdx.x;

  float sum = 0;
  for (int col = tid; col < cols; col += THREADS) sum += x[row * cols + col];
  partial[tid] = sum;
  __syncthreads();
  for (int stride = THREADS / 2; stride > 0; stride /= 2) {
    if (tid < stride) partial[tid] += partial[tid + stride];
    __syncthreads();
  }
  if (tid == 0) out[row] = partial[0];
}
