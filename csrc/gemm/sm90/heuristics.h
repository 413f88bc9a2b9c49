// How the Hopper kernels solve a problem: a pure function of the problem and the device, that needs
// no GPU.
#pragma once

#include <cstddef>
#include <iosfwd>

#include "device/major.h"
#include "gemm/gemm.h"
#include "gemm/sm90/tile_config.h"

namespace smem::gemm::sm90 {

/// An operand as TMA will read it: in place, or packed into the workspace first.
struct Source {
  Major major;
  bool packed;
  bool batched;                    ///< false where every member of the batch has the same
  int64_t length, lines, members;  ///< contiguous elements, lines of them, matrices
  int64_t line_stride, member_stride;

  int64_t packed_elements() const { return packed ? members * member_stride : 0; }
};

struct Plan {
  int tile;            ///< index in TILES
  int tile_cols;       ///< a block's step along N, at most its tile's width
  int log_box_pieces;  ///< of 16 bytes in a row of the boxes that out is written by
  int strip;           ///< cluster tiles, see Schedule
  int chunks;          ///< of K that are pieces of their own
  int chunk_steps;     ///< along K, after which a new sum begins: of N, K and the dtype alone
  int clusters;        ///< launched
  bool turned;         ///< the transposed product is computed: a is B
  Source a, b;
  Output output;
  Exit exit;            ///< the least that the kernel must be able to do
  double microseconds;  ///< what the model expects
};

/// Whether these kernels can solve the problem: dtype, device, K > 0, sizes within 32 bits.
bool takes(const Problem& problem, const Device& device);

/// Whether TILES[tile] is built for a dtype.
bool has_tile(int tile, DType dtype);

/// The best plan, or the best with TILES[problem.variant].
Plan plan(const Problem& problem, const Device& device);

/// The same, remembered by the calling thread: a plan takes some microseconds to make.
const Plan& remembered_plan(const Problem& problem, const Device& device);

/// A plan in words.
std::string text_of(const Plan& plan);

/// Bytes that `launch` needs, aligned to 256, uninitialised.
size_t workspace_bytes(const Problem& problem, const Plan& plan);

void launch(const Problem& problem, const Plan& plan, void* workspace, const Device& device);

/// The function of the plan's main kernel, for cudaFuncGetAttributes.
const void* kernel_function(DType dtype, const Plan& plan);

}  // namespace smem::gemm::sm90
