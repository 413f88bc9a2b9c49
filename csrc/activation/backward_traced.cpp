// The same kernel, compiled for the CPU emulator with tracing.
#pragma GCC optimize("Og")  // for the time that compiling takes: bench/NOTES.md
#define SMEM_TRACED

#include "activation/backward.cu"
