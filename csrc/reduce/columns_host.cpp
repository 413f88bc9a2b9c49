// columns compiled for the CPU emulator, apart from the other kernels so that two cores share the
// work.
#include "reduce/columns.cu"
#include "reduce/columns_max.cu"
