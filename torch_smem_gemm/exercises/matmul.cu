// Exercise: find the bugs of a tiled matrix product.
//
// c = a @ b, where a is m x k and b is k x n. A block of 32 x 32 threads computes one 32 x 32 tile
// of c, and its threads share tiles of a and b. Two bugs are planted: a race, and a bound that
// matters only when 32 does not divide a size. Find both.

#define TILE 32

__global__ void matmul(const float* a, const float* b, float* c, int m, int n, int k) {
  __shared__ float a_tile[TILE][TILE], b_tile[TILE][TILE];
  int tx = threadIdx.x, ty = threadIdx.y;
  int row = blockIdx.y * TILE + ty, col = blockIdx.x * TILE + tx;

  float accum = 0;
  for (int k0 = 0; k0 < k; k0 += TILE) {
    a_tile[ty][tx] = row < m ? a[row * k + k0 + tx] : 0;
    b_tile[ty][tx] = col < n ? b[(k0 + ty) * n + col] : 0;
    __syncthreads();
    for (int i = 0; i < TILE; ++i) accum += a_tile[ty][i] * b_tile[i][tx];
  }
  if (row < m && col < n) c[row * n + col] = accum;
}
