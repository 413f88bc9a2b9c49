// The dispatch for a small M and the kernels for a K-major B, built for cpu_emulator.
#include "gemm/fp16x3/skinny_m.cu"
