// simt compiled for the CPU emulator, apart from the ladder to keep compile times short.
#pragma GCC optimize("O1")  // reduces compile time: bench/NOTES.md

#include "gemm/simt/simt.cu"
#include "gemm/simt/simt_float64.cu"
