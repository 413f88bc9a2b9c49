// How `simt` solves a problem: a pure function of the problem and the device, that needs no GPU.
#pragma once

#include <iosfwd>

#include "gemm/simt/tile_config.h"

namespace smem::gemm::simt {

struct Plan {
  int tile = 0;  ///< index in TILES
  Cut cut;
  unsigned strip = 1;
  bool pack_a = false, pack_b = false;  ///< into the workspace first
  int told = NOTHING;                   ///< index in TOLD
  double microseconds = 0;              ///< what the model expects
};

/// The best plan, or the best with TILES[problem.variant].
Plan plan(const Problem& problem, const Device& device);

/// The same, remembered by the calling thread, as each call asks twice: for its workspace and for
/// its launch.
const Plan& remembered_plan(const Problem& problem, const Device& device);

/// A plan in words.
std::string text_of(const Plan& plan);

/// Matrices of a tensor in memory: one where the batch's members share it.
int64_t matrices_of(const Problem& problem, Tensor tensor);

/// Elements between the columns of a packed operand of `extent` rows: whole tiles, padded by zeros.
int64_t packed_pitch(int64_t extent);

/// Bytes of the workspace: the packed operands, A first, then the sums of K's units.
struct Workspace {
  size_t a = 0, b = 0, sums = 0;

  size_t bytes() const { return a + b + sums; }
};
Workspace workspace_of(const Problem& problem, const Plan& plan);

}  // namespace smem::gemm::simt
