// simt compiled for the CPU emulator with tracing, apart from the ladder to keep compile times
// short.
#pragma GCC optimize("O1")  // reduces compile time: bench/NOTES.md
#define SMEM_TRACED

#include "gemm/simt/simt.cu"
#include "gemm/simt/simt_float64.cu"
