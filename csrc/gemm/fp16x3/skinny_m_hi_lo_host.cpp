// The kernels for a small M and a kept split of B, built for cpu_emulator.
#include "gemm/fp16x3/skinny_m_hi_lo.cu"
