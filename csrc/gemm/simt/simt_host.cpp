// simt compiled for the CPU emulator, apart from the ladder to keep compile times short.
#include "gemm/simt/simt.cu"
#include "gemm/simt/simt_float64.cu"
