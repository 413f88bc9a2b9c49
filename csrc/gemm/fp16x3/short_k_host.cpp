// The product for a short K, built for cpu_emulator.
#include "gemm/fp16x3/short_k.cu"
