// How the columns of B lie in memory, and so which elements a thread has that splits them
// (split_producer.h).
#pragma once

#include "gemm/fp16x3/scale.h"

namespace smem::gemm::fp16x3 {
inline namespace SMEM_BUILD {

using split::RUN;

/// Along K: a stage is four pieces, in each of which a column's 32 hi stand before its 32 lo.
constexpr int PIECES = 4, STAGE_K = PIECES * split::PIECE;
constexpr int PIECE_BYTES = 2 * split::PIECE * 2;
/// Of a column's stage: 16 bytes more than it has, so that eight columns lie in different banks.
constexpr int COLUMN_BYTES = PIECES * PIECE_BYTES + 16;
/// Columns that a group of warps splits: the rows of an instruction on the tensor cores.
constexpr int COLUMNS = 16;

/// B's columns lie along K: 8 lanes share one, each with 4 elements of every piece.
struct AlongK {
  static constexpr bool SIDE_BY_SIDE = false, IN_PARTS = false;
  static constexpr int WIDTH = RUN;                    ///< of what is loaded at once
  static constexpr int WARPS = 4;                      ///< of a group
  static constexpr int VECTORS = PIECES;               ///< of 16 bytes a thread and stage
  static constexpr int LINES = 1;                      ///< columns of a thread
  static constexpr int ELEMENTS = RUN;                 ///< of a column and piece, neighbours
  static constexpr int FIRST_STEP = 1, LAST_STEP = 4;  ///< between lanes that share columns

  int column, along;  ///< the thread's first column, and its elements' place in a piece

  /// Two columns that are stored at once are four apart, in other banks.
  __device__ __forceinline__ AlongK(int warp, int lane)
      : column(warp + lane / 8 * 4), along(lane % 8 * RUN) {}
  /// A vector's place along K after the first one's, and in memory.
  __device__ __forceinline__ static constexpr int k_of(int vector) { return vector * split::PIECE; }
  __device__ __forceinline__ static int64_t offset_of(int vector, int64_t) { return k_of(vector); }
  /// Element e of a line in a piece.
  template <typename Runs>
  __device__ __forceinline__ static auto& element(Runs& runs, int, int piece, int e) {
    return runs[piece].lane[e];
  }
};

/// B's columns lie side by side: 16 lanes share four, each with 2 elements of every piece.
struct AcrossK {
  static constexpr bool SIDE_BY_SIDE = true, IN_PARTS = false;
  static constexpr int WIDTH = RUN;
  static constexpr int WARPS = 2;
  static constexpr int VECTORS = 2 * PIECES;
  static constexpr int LINES = RUN;
  static constexpr int ELEMENTS = 2;
  static constexpr int FIRST_STEP = 2, LAST_STEP = 16;

  int column, along;

  __device__ __forceinline__ AcrossK(int warp, int lane)
      : column(warp * 8 + lane % 2 * RUN), along(lane / 2 * 2) {}
  __device__ __forceinline__ static constexpr int k_of(int vector) {
    return vector / 2 * split::PIECE + vector % 2;
  }
  __device__ __forceinline__ static int64_t offset_of(int vector, int64_t stride) {
    return k_of(vector) * stride;
  }
  template <typename Runs>
  __device__ __forceinline__ static auto& element(Runs& runs, int line, int piece, int e) {
    return runs[2 * piece + e].lane[line];
  }
};

/// The same where K is cut into parts (split_k.h). Kernels of their own: those for both were 5 to
/// 35% slower where K is not cut, as registers ran out.
template <typename Lie>
struct InParts : Lie {
  static constexpr bool IN_PARTS = true;
  using Lie::Lie;
};

/// Columns along K where runs cannot be loaded at once, or are inside in part. In parts or not.
struct RaggedAlongK : InParts<AlongK> {
  static constexpr int WIDTH = 1;
  using InParts<AlongK>::InParts;
};

}  // namespace SMEM_BUILD
}  // namespace smem::gemm::fp16x3
