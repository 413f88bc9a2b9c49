// The same kernels, built for host_run.
#include "gemm/split/columns.cu"
#include "gemm/split/extremes.cu"
#include "gemm/split/rows.cu"
#include "gemm/split/turned.cu"

namespace smem::gemm::split {

const Kernels& host_kernels() { return KERNELS; }

}  // namespace smem::gemm::split
