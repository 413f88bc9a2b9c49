// mma compiled for the CPU emulator.
#include "gemm/sm80/launch.cu"
#include "gemm/sm80/mma.cu"
#include "gemm/sm80/mma_bf16.cu"
#include "gemm/sm80/mma_f16.cu"
#include "gemm/sm80/mma_tf32.cu"
