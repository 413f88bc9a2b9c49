// How simt solves a problem: a pure function of the problem and the device, which needs no GPU.
#pragma once

#include <iosfwd>

#include "gemm/simt/tile_config.h"

namespace smem::gemm::simt {

struct SimtPlan {
  int tile = 0;  ///< index in TILES
  SplitK split_k;
  unsigned swizzle_size = 1;            ///< see SimtParams
  bool pack_a = false, pack_b = false;  ///< copy the operand into the workspace first
  LayoutPair layouts = LayoutPair::unknown;
  double microseconds = 0;  ///< the cost model's prediction
};

/// Whether TILES[tile] has kernels for elements of so many bytes, and fits an SM of the device.
bool has_tile(int tile, size_t element_bytes, const Device& device);

/// The best plan, or the best with TILES[problem.variant].
SimtPlan make_plan(const Problem& problem, const Device& device);

/// make_plan with a cache per thread: each call needs its plan twice, for the workspace and for the
/// launch.
const SimtPlan& cached_plan(const Problem& problem, const Device& device);

/// A plan in words.
std::string text_of(const SimtPlan& plan);

/// Matrices of a tensor in memory: one if the whole batch shares it.
int64_t matrices_of(const Problem& problem, Tensor tensor);

/// The pitch of a packed operand, in elements: `extent` rounded up to whole tiles.
int64_t packed_pitch(int64_t extent);

/// Bytes of the workspace, in this order: packed A, packed B, and the partials of split-K.
struct SimtWorkspace {
  size_t a = 0, b = 0, partials = 0;

  size_t bytes() const { return a + b + partials; }
};
SimtWorkspace workspace_of(const Problem& problem, const SimtPlan& plan);

}  // namespace smem::gemm::simt
