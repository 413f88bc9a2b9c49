#define TILE 32
#define ROWS 8
#ifndef PAD
#define PAD 0
#endif

__global__ void transpose(const float* in, float* out, int n) {
  __shared__ float tile[TILE][TILE + PAD];
  int tx = threadIdx.x, row0 = blockIdx.y * TILE, col0 = blockIdx.x * TILE;

  for (int i = threadIdx.y; i < TILE; i += ROWS)
    tile[i][tx] = in[(row0 + i) * n + col0 + tx];
  __syncthreads();
  for (int i = threadIdx.y; i < TILE; i += ROWS)
    out[(col0 + i) * n + row0 + tx] = tile[tx][i];
}
