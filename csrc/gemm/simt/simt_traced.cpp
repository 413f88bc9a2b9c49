// simt, built to be traced: apart from the ladder's kernels, for the time that an edit takes.
#pragma GCC optimize("O1")  // for the time that compiling takes: bench/NOTES.md
#define SMEM_TRACED

#include "gemm/simt/simt.cu"
#include "gemm/simt/simt_float64.cu"
