// gemv compiled for the CPU emulator.
#include "gemm/gemv/gemv.cu"
