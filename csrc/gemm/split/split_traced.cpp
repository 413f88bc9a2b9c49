// The same kernels, built to be traced.
#pragma GCC optimize("Og")  // for the time that compiling takes: bench/NOTES.md
#define SMEM_TRACED

#include "gemm/split/columns.cu"
#include "gemm/split/extremes.cu"
#include "gemm/split/rows.cu"
#include "gemm/split/turned.cu"

namespace smem::gemm::split {

const Kernels& traced_kernels() { return KERNELS; }

}  // namespace smem::gemm::split
