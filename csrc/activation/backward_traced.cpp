// The same kernel, built to be traced.
#pragma GCC optimize("Og")  // for the time that compiling takes: bench/NOTES.md
#define SMEM_TRACED

#include "activation/backward.cu"
