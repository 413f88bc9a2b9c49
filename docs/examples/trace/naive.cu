__global__ void transpose(const float* in, float* out, int n) {
  int col = blockIdx.x * blockDim.x + threadIdx.x;
  int row = blockIdx.y * blockDim.y + threadIdx.y;
  out[col * n + row] = in[row * n + col];
}
