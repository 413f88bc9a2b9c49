// The same kernel, built to be traced.
#define SMEM_TRACED

#include "activation/backward.cu"
