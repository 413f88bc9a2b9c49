// What a block of skinny_m_kernel.h is: its shared memory, and the tiles of columns that it goes
// through.
#pragma once

#include "gemm/fp16x3/split_metadata.h"
#include "gemm/fp16x3/promotion.h"
#include "gemm/fp16x3/split_producer.h"
#include "gemm/sm90/epilogue_params.h"
#include "gemm/sm90/pipeline.h"

namespace smem::gemm::fp16x3::few {
inline namespace SMEM_BUILD {

using sm90::BatchStrides;

constexpr int TILE_ROWS = 8;            ///< of A, the columns of an instruction
constexpr int64_t SYSTEM_BYTES = 1024;  ///< of a block's shared memory
constexpr int MOST_TILES = 1024;        ///< of a block
static_assert(PIECES % TURN == 0, "a stage ends where a group's turn does");

struct Arguments {
  CUtensorMap a_map;
  split::Split b;
  Lines a_lines, b_lines;
  Epilogue<float> epilogue;  ///< of the first member
  BatchStrides strides;
  float* partials;                   ///< of split_k.h, where there are several parts
  unsigned parts, tiles, all_tiles;  ///< tiles of columns, of a part and of all
  int rows, stages, steps;           ///< these along K, if it is one part
};

/// What a block's threads must not forget until it has been through its tiles.
struct Notes {
  uint32_t again[MOST_TILES / 32];  ///< a bit for each tile that must be split otherwise
  uint32_t has_exact;               ///< lines
};

/// COLUMN_GROUPS of 16 columns; ROW_WARPS warps a group multiply, each with ROW_TILES times 8 rows
/// of A.
template <typename Lie_, int COLUMN_GROUPS_, int ROW_WARPS_, int ROW_TILES_, int STAGES_, int LOADS>
struct Shape {
  using Lie = Lie_;
  static constexpr int STAGES = STAGES_;  ///< of split columns and of A's rows
  using Turn = sm90::PipelineState<STAGES>;
  static constexpr int COLUMN_GROUPS = COLUMN_GROUPS_, ROW_WARPS = ROW_WARPS_,
                       ROW_TILES = ROW_TILES_;
  using Columns = Splitter<Lie, COLUMN_GROUPS, LOADS>;
  static constexpr int ROWS = ROW_WARPS * ROW_TILES * TILE_ROWS, COLS = Columns::COLS;
  static constexpr int SPLITTING = Columns::THREADS, MULTIPLYING = COLUMN_GROUPS * ROW_WARPS * WARP;
  static constexpr int THREADS = SPLITTING + MULTIPLYING + WARP;
  static constexpr int A_PIECE_BYTES = ROWS * PIECE_BYTES, A_BYTES = PIECES * A_PIECE_BYTES;
  static constexpr int B_BYTES = COLS * COLUMN_BYTES;
  static constexpr int RAW_BYTES = Columns::RAW_BYTES;
  static constexpr size_t SHARED =
      sm90::SWIZZLE_ATOM + RAW_BYTES +
      STAGES * (A_BYTES + B_BYTES + COLS * (sizeof(float) + sizeof(int)) + 2 * sizeof(Barrier)) +
      sizeof(Notes);
  /// Blocks an SM, by its shared memory.
  static constexpr int BLOCKS_AT_ONCE = sm90::SHARED_BYTES / (SHARED + SYSTEM_BYTES);
  static_assert(ROWS + COLS <= THREADS, "a thread for each line");
  static_assert(SHARED <= sm90::SHARED_BYTES, "stages within an SM's shared memory");
};

template <typename Shape>
struct Shared {
  unsigned char* stages;
  Run* raw;
  float* scales;
  Barrier *full, *empty;
  Notes* notes;

  __device__ __forceinline__ Shared() {
    auto* const begin = dynamic_shared<unsigned char>();
    stages = begin + (-shared_address(begin) & (sm90::SWIZZLE_ATOM - 1));
    raw = reinterpret_cast<Run*>(b(Shape::STAGES));
    scales = reinterpret_cast<float*>(b(Shape::STAGES) + Shape::RAW_BYTES);
    full = reinterpret_cast<Barrier*>(codes(Shape::STAGES));
    empty = full + Shape::STAGES;
    notes = reinterpret_cast<Notes*>(empty + Shape::STAGES);
  }
  __device__ __forceinline__ unsigned char* a(int stage) const {
    return stages + stage * Shape::A_BYTES;
  }
  __device__ __forceinline__ unsigned char* b(int stage) const {
    return a(Shape::STAGES) + stage * Shape::B_BYTES;
  }
  __device__ __forceinline__ float* factors(int stage) const {
    return scales + stage * Shape::COLS;
  }
  /// Of the columns' scales, after a tile's last stage.
  __device__ __forceinline__ int* codes(int stage) const {
    return reinterpret_cast<int*>(factors(Shape::STAGES)) + stage * Shape::COLS;
  }
};

/// The part of K that a tile is of, and how long that is: all of it, but IN_PARTS.
template <typename Shape>
struct PartOfTile {
  unsigned index, member, part = 0;  ///< among all members' parts; in its member
  int length, stages, steps;

  __device__ __forceinline__ PartOfTile(const Arguments& args, unsigned tile)
      : index(tile / args.tiles),
        member(index),
        length(static_cast<int>(args.b.length)),
        stages(args.stages),
        steps(args.steps) {
    if constexpr (Shape::Lie::IN_PARTS) {
      member = index / args.parts;
      part = index - member * args.parts;
      const int whole = static_cast<int>(args.b.part_length);
      length = min(whole, length - static_cast<int>(part) * whole);
      stages = ceil_div(length, STAGE_K);
      steps = ceil_div(length, split::PIECE);
    }
  }
};

/// Calls visit(tile, how many the block has before it) for the block's tiles, or for those that are
/// to be split again.
template <typename Visit>
__device__ __forceinline__ void for_each_tile(const Arguments& args, const Notes& notes, bool again,
                                              const Visit& visit) {
  for (unsigned i = 0, tile = blockIdx.x; tile < args.all_tiles; ++i, tile += gridDim.x) {
    if (!again || notes.again[i / 32] >> i % 32 & 1) visit(tile, i);
  }
}

}  // namespace SMEM_BUILD
}  // namespace smem::gemm::fp16x3::few
