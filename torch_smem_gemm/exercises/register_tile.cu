// Exercise: a matrix product with a tile in registers.
//
// c = a @ b, where a is m x k and b is k x n. A block of 16 x 16 threads computes a 64 x 64 tile of
// c, a thread 4 x 4 elements of it. The kernel is right, but it reads two values from shared memory
// for each product. For each kk, read 4 values of a_tile and 4 of b_tile into registers: those 8
// are enough for 16 products. (float4 loads can save more; the goal is reached without them.)

#define TILE 64
#define TILE_K 16
#define THREADS 16  // per dimension
#define PER_THREAD 4

__global__ void register_tile(const float* a, const float* b, float* c, int m, int n, int k) {
  __shared__ float a_tile[TILE][TILE_K], b_tile[TILE_K][TILE];
  int tx = threadIdx.x, ty = threadIdx.y, tid = ty * THREADS + tx;
  int row0 = blockIdx.y * TILE, col0 = blockIdx.x * TILE;

  float accum[PER_THREAD][PER_THREAD] = {};
  for (int k0 = 0; k0 < k; k0 += TILE_K) {
    for (int e = tid; e < TILE * TILE_K; e += THREADS * THREADS) {
      int row = e / TILE_K, kk = e % TILE_K;
      bool is_inside = row0 + row < m && k0 + kk < k;
      a_tile[row][kk] = is_inside ? a[(row0 + row) * k + k0 + kk] : 0;
    }
    for (int e = tid; e < TILE_K * TILE; e += THREADS * THREADS) {
      int kk = e / TILE, col = e % TILE;
      bool is_inside = k0 + kk < k && col0 + col < n;
      b_tile[kk][col] = is_inside ? b[(k0 + kk) * n + col0 + col] : 0;
    }
    __syncthreads();
    for (int i = 0; i < PER_THREAD; ++i)
      for (int j = 0; j < PER_THREAD; ++j)
        for (int kk = 0; kk < TILE_K; ++kk)
          accum[i][j] += a_tile[ty + THREADS * i][kk] * b_tile[kk][tx + THREADS * j];
    __syncthreads();
  }

  for (int i = 0; i < PER_THREAD; ++i)
    for (int j = 0; j < PER_THREAD; ++j) {
      int row = row0 + ty + THREADS * i, col = col0 + tx + THREADS * j;
      if (row < m && col < n) c[row * n + col] = accum[i][j];
    }
}
