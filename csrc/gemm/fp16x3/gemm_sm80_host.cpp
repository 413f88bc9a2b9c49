// The product of two split operands by mma.sync, built for cpu_emulator.
#include "gemm/fp16x3/gemm_sm80.cu"
