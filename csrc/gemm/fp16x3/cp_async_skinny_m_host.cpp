// The skinny kernels without TMA, built for cpu_emulator.
#include "gemm/fp16x3/cp_async_skinny_m.cu"
