// The kernels for a small M and an MN-major B, built for cpu_emulator.
#include "gemm/fp16x3/skinny_m_mn_major.cu"
