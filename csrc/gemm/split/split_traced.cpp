// The same kernels, built to be traced.
#define SMEM_TRACED

#include "gemm/split/columns.cu"
#include "gemm/split/extremes.cu"
#include "gemm/split/rows.cu"
#include "gemm/split/turned.cu"

namespace smem::gemm::split {

const Kernels& traced_kernels() { return KERNELS; }

}  // namespace smem::gemm::split
