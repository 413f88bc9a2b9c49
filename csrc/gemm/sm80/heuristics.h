// How the mma kernels solve a problem: the choice of the tile, and everything that follows from it.
// A plan is a pure function of the problem and the device, and making one needs no GPU.
#pragma once

#include <cstddef>
#include <iosfwd>

#include "gemm/gemm.h"
#include "gemm/operand_desc.h"
#include "gemm/sm80/tile_config.h"

namespace smem::gemm::sm80 {

/// mma.sync of float16 is as old as sm_75.
constexpr TensorCores TENSOR_CORES{.capability = 80, .float16 = 75};

struct Plan {
  int tile;              ///< index in TILES
  int swizzle_size;      ///< in tiles, see TileScheduler
  int split_k_slices;    ///< slices of K that are blocks of their own; 1: no split-K
  int64_t slice_length;  ///< values of k per slice: decides the bits, and is therefore a function
                         ///< of N, K and the dtype alone
  int64_t blocks;        ///< that are launched: one per work tile, or as many as run at one time
  OperandDesc a, b;
  double microseconds;  ///< expected by the cost model
};

/// Whether these kernels can solve the problem: dtype, device, K > 0, sizes within 32 bits.
bool can_implement(const Problem& problem, const Device& device);

/// Whether TILES[tile] is built, and fits the shared memory of the device.
bool has_tile(int tile, DType dtype, const Device& device);

/// The best plan, or the best one with TILES[problem.variant].
Plan plan(const Problem& problem, const Device& device);

/// The same from a cache of the calling thread: making a plan takes some microseconds.
const Plan& cached_plan(const Problem& problem, const Device& device);

/// A description of the plan for users.
std::string describe(const Plan& plan);

/// Bytes that `launch` needs, aligned to 256, uninitialised.
size_t workspace_bytes(const Problem& problem, const Plan& plan);

inline namespace SMEM_BUILD {

void launch(const Problem& problem, const Plan& plan, void* workspace, const Device& device);

/// The function of the plan's main kernel, for cudaFuncGetAttributes.
const void* kernel_function(DType dtype, const Plan& plan);

}  // namespace SMEM_BUILD
}  // namespace smem::gemm::sm80
