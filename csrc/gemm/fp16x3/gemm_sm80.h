// The product of two split operands by mma.sync, for GPUs without wgmma: sm_80 and newer.
#pragma once

#include "gemm/fp16x3/gemm_tiles.h"
#include "gemm/fp16x3/split.h"
#include "gemm/gemm.h"

namespace smem::gemm::fp16x3::mma::inline SMEM_BUILD {

/// As launch_gemm of gemm.h, with the same bits.
void launch_gemm(const Problem& problem, const split::SplitOperand& a, const split::SplitOperand& b,
                 float* partials, const Device& device);

/// The width of the tiles that launch_gemm takes.
TileChoice choose_tile(const Problem& problem, int64_t k_slices, const Device& device);

/// The expected time of a problem with at most one batch loop, its splits and split-K included. The
/// rates are those of gemm/gpu_rates.h.
double expected_ns(const Problem& problem, const split::SplitOperand& a,
                   const split::SplitOperand& b, const Device& device);

/// The kernel's function, for cudaFuncGetAttributes.
const void* gemm_function();

}  // namespace smem::gemm::fp16x3::mma::inline SMEM_BUILD
