// The kernels for a small M with split-K, built for cpu_emulator.
#include "gemm/fp16x3/skinny_m_split_k.cu"
