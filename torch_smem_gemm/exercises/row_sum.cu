// Exercise: a reduction tree without bank conflicts.
//
// out[row] = the sum of the row. A block of 256 threads sums one row: each thread adds every 256th
// element, and a tree in shared memory adds the 256 partial sums. The result is right, but the
// lanes of a warp access elements that are 2 * stride apart, and so the same banks. In each round
// let neighbouring threads access neighbouring elements.

#define THREADS 256

__global__ void row_sum(const float* x, float* out, int cols) {
  __shared__ float partial[THREADS];
  int tid = threadIdx.x, row = blockIdx.x;

  float sum = 0;
  for (int col = tid; col < cols; col += THREADS) sum += x[row * cols + col];
  partial[tid] = sum;
  __syncthreads();
  for (int stride = 1; stride < THREADS; stride *= 2) {
    int i = 2 * stride * tid;
    if (i < THREADS) partial[i] += partial[i + stride];
    __syncthreads();
  }
  if (tid == 0) out[row] = partial[0];
}
