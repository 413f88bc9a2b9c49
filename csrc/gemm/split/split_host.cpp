// The same kernels, built for host_run.

#pragma GCC optimize("O1")  // for the time that compiling takes: bench/NOTES.md

#include "gemm/split/columns.cu"
#include "gemm/split/extremes.cu"
#include "gemm/split/rows.cu"
#include "gemm/split/turned.cu"

namespace smem::gemm::split {

const Kernels& host_kernels() { return KERNELS; }

}  // namespace smem::gemm::split
