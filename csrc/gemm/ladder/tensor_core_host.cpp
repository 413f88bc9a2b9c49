// tensor_core compiled for the CPU emulator.
#include "gemm/ladder/tensor_core.cu"
#include "gemm/ladder/tensor_core_bf16.cu"
#include "gemm/ladder/tensor_core_tf32.cu"
