// As fp16x3_kernels_gemm.cpp, for a short K.
#include "gemm/fp16x3/short_k.cu"
