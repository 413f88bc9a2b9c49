// As fp16x3_kernels_gemm.cpp, for a small M and many columns.
#include "gemm/fp16x3/skinny_m_rs.cu"
