// The product of two split operands, and the reduction of split-K, built for cpu_emulator.
#include "gemm/fp16x3/gemm.cu"
#include "gemm/fp16x3/split_k.cu"
