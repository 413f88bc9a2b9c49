// How the SM90 kernels solve a problem: the choice of the tile, and everything that follows from
// it. A plan is a pure function of the problem and the device, and making one needs no GPU.
#pragma once

#include <cstddef>
#include <iosfwd>

#include "gemm/gemm.h"
#include "gemm/operand_desc.h"
#include "gemm/sm90/stored_columns.h"
#include "gemm/sm90/tile_config.h"

namespace smem::gemm::sm90 {

struct Plan {
  int tile;            ///< index in TILES
  int tile_n;          ///< columns from tile to tile: at most the mma_n of TILES[tile]
  bool overlaps;       ///< tiles compute OVERLAP_COLS more, so that each stores whole sectors
  int log2_box_vecs;   ///< a box of the TMA store has 8 << log2_box_vecs columns
  int swizzle_size;    ///< in cluster tiles, see TileScheduler
  int split_k_slices;  ///< slices of K that are work tiles of their own; 1: no split-K
  int accum_interval;  ///< k-tiles after which a new accumulator begins: decides the bits, and is
                       ///< therefore a function of N, K and the dtype alone
  int clusters;        ///< that are launched
  bool dynamic_scheduler;  ///< they take work tiles from a counter (dynamic_scheduler.h)
  bool transposed;         ///< the transposed problem is computed: `a` is B
  OperandDesc a, b;
  StoreMode store_mode;
  EpilogueKind epilogue;  ///< the smallest that the problem needs
  double microseconds;    ///< expected by the cost model

  /// The columns of B that a tile loads.
  int loaded_columns() const { return tile_n + (overlaps ? OVERLAP_COLS : 0); }
  int64_t tile_columns(int64_t N) const { return sm90::tile_columns(N, tile_n, overlaps); }
};

/// Whether these kernels can solve the problem: dtype, device, K > 0, sizes within 32 bits.
bool can_implement(const Problem& problem, const Device& device);

/// Whether TILES[tile] is built for a dtype, and for the CPU if that is the device.
bool has_tile(int tile, DType dtype, const Device& device);

/// Whether every plan packs an operand first.
bool packs_operands(const Problem& problem);

/// The best plan, or the best one with TILES[problem.variant].
Plan plan(const Problem& original, const Device& device);

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

}  // namespace smem::gemm::sm90
