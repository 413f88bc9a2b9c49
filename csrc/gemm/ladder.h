// The rows of the kernel table, in the order of the ladder. To add a kernel, write its file in
// ladder/ and add its name in the two lists below. simt, gemv, mma, wgmma and fp16x3 consist of
// several files and have their own folders; their rows end in _row, because simt, gemv and fp16x3
// are namespaces, and mma and wgmma are instructions.
#pragma once

#include "gemm/gemm.h"

namespace smem::gemm::inline SMEM_BUILD {

extern const Kernel naive, panel, tiled16, tiled32, tiled32_padded, vectorized, register_tiled,
    double_buffered, simt_row, gemv_row, tensor_core, mma_row, wgmma_row, fp16x3_row;

inline constexpr const Kernel* KERNELS[] = {
    &naive,       &panel,          &tiled16,         &tiled32,    &tiled32_padded,
    &vectorized,  &register_tiled, &double_buffered, &simt_row,   &gemv_row,
    &tensor_core, &mma_row,        &wgmma_row,       &fp16x3_row,
};

}  // namespace smem::gemm::inline SMEM_BUILD
