// As fp16x3.cpp, for the kernel of gemm_sm80.cu.
#define SMEM_FP16X3_VARIANT 1
#include "fp16x3.cpp"
