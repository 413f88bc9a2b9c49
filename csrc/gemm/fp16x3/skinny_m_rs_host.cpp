// The product for a small M whose warpgroups split B, built for cpu_emulator.
#include "gemm/fp16x3/skinny_m_rs.cu"
