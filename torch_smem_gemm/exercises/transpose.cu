// Exercise: transpose a matrix without bank conflicts.
//
// out = in.T, where in is rows x cols. A block of 32 x 8 threads moves one 32 x 32 tile. The kernel
// is right at every size, but one of its two accesses to shared memory is slow: all lanes of a warp
// access the same bank. Change the layout of the tile so that they access 32 different banks.

#define TILE 32
#define BLOCK_ROWS 8

__global__ void transpose(const float* in, float* out, int rows, int cols) {
  __shared__ float tile[TILE][TILE];
  int tx = threadIdx.x;
  int row0 = blockIdx.y * TILE, col0 = blockIdx.x * TILE;

  for (int ty = threadIdx.y; ty < TILE; ty += BLOCK_ROWS)
    if (row0 + ty < rows && col0 + tx < cols) tile[ty][tx] = in[(row0 + ty) * cols + col0 + tx];
  __syncthreads();
  for (int ty = threadIdx.y; ty < TILE; ty += BLOCK_ROWS)
    if (col0 + ty < cols && row0 + tx < rows) out[(col0 + ty) * rows + row0 + tx] = tile[tx][ty];
}
