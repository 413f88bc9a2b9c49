// The tiles of `simt`, and what a launch tells its blocks.
#pragma once

#include <type_traits>

#include "device/opaque.h"
#include "gemm/accumulation_order.h"
#include "gemm/gemm.h"

namespace smem::gemm::simt {

/// How an operand X(e, k) lies: runs of 16 bytes along e or along k; else element by element,
/// neighbouring threads along k or along e. `any`: the block looks, and turns runs along k.
/// `elements`: any, too, but single elements go through registers (load_pipelined.h).
enum class Lies { runs_along_e, runs_along_k, along_k, along_e, any, elements };

/// What the blocks of a launch are told of both operands, so that they need not look: a kernel
/// each.
struct Told {
  Lies a, b;
};
inline constexpr Told TOLD[] = {{Lies::any, Lies::any},
                                {Lies::runs_along_e, Lies::runs_along_e},
                                {Lies::runs_along_k, Lies::runs_along_k},
                                {Lies::runs_along_k, Lies::runs_along_e},
                                {Lies::runs_along_k, Lies::any},
                                {Lies::elements, Lies::elements}};
inline constexpr int TOLD_COUNT = sizeof(TOLD) / sizeof(TOLD[0]);
constexpr int NOTHING = 0, BOTH_ALONG_E = 1, BOTH_ALONG_K = 2, K_AND_E = 3, K_AND_ANY = 4,
              BY_ELEMENTS = 5;
constexpr unsigned bits() { return 0; }
template <typename... Others>
constexpr unsigned bits(int first, Others... others) {
  return 1u << first | bits(others...);
}

/// A block's tile of out. float64 has half the columns a thread, where there are several, and three
/// stages, so that it takes about as much shared memory.
struct TileShape {
  int thread_rows, thread_cols;  ///< of float32, a thread
  int lanes_m;                   ///< a warp's lanes are lanes_m x 32 / lanes_m
  int warps_m, warps_n;
  int depth, stages;  ///< of K a stage; stages of shared memory
  int blocks;         ///< an SM shall hold at once
  unsigned told;      ///< what its blocks may be told besides nothing, a bit each

  constexpr int threads() const { return 32 * warps_m * warps_n; }
  constexpr int rows() const { return lanes_m * warps_m * thread_rows; }
  constexpr int thread_cols_of(size_t element_bytes) const {
    return element_bytes == 8 && thread_cols > 1 ? thread_cols / 2 : thread_cols;
  }
  constexpr int cols(size_t element_bytes) const {
    return 32 / lanes_m * warps_n * thread_cols_of(element_bytes);
  }
  constexpr int stages_of(size_t element_bytes) const { return element_bytes == 8 ? 3 : stages; }
  /// The most shared memory a block takes: sums, and stages padded by 16 bytes a row.
  constexpr size_t shared_bytes(size_t element_bytes) const {
    const int extent = rows() + cols(element_bytes), padding = static_cast<int>(16 / element_bytes);
    const int stage = extent * depth + padding * (extent + 2 * depth);
    return element_bytes * (rows() * cols(element_bytes) + stages_of(element_bytes) * stage);
  }
};

/// The large one has two blocks an SM: what one does between its products, the other
/// hides. The others are for little work, and for outputs long one way and short the other. The
/// thinnest have all lanes along their length: an element of the long operand is read once then.
inline constexpr TileShape TILES[] = {
    {8, 16, 8, 2, 2, 8, 5, 2, bits(BOTH_ALONG_E, BY_ELEMENTS)},
    {4, 8, 8, 2, 2, 16, 4, 4, bits(BOTH_ALONG_E, BOTH_ALONG_K, K_AND_E)},
    {4, 4, 8, 1, 2, 16, 4, 8, bits(K_AND_E)},
    {2, 4, 8, 1, 1, 16, 4, 16, bits()},
    {4, 8, 8, 4, 1, 16, 4, 3, bits(K_AND_ANY)},
    {4, 4, 8, 4, 1, 16, 4, 4, bits(K_AND_ANY)},
    {1, 8, 32, 4, 1, 32, 3, 3, bits(K_AND_ANY)},
    {4, 8, 8, 1, 4, 16, 4, 3, bits(BOTH_ALONG_K)},
    {2, 8, 8, 1, 4, 16, 4, 4, bits(BOTH_ALONG_K)},
    {8, 1, 1, 1, 4, 32, 3, 3, bits(BOTH_ALONG_K)},
    {8, 8, 8, 1, 4, 16, 3, 3, bits(BOTH_ALONG_E, BOTH_ALONG_K, K_AND_E)},
    {8, 8, 8, 2, 2, 16, 3, 3, bits(BOTH_ALONG_E, BOTH_ALONG_K, K_AND_E)},
    {4, 1, 1, 1, 4, 32, 3, 4, bits(BOTH_ALONG_K, K_AND_E)},
    {8, 9, 8, 1, 4, 8, 3, 3, bits(BY_ELEMENTS)},
};
inline constexpr int TILE_COUNT = sizeof(TILES) / sizeof(TILES[0]);
inline constexpr const char* TILE_NAMES[TILE_COUNT] = {
    "128x128", "64x64",  "32x32", "16x16",  "128x32", "128x16", "128x8",
    "32x128",  "16x128", "8x128", "64x128", "128x64", "4x128",  "64x144"};
constexpr int TILE_128X128 = 0, TILE_64X64 = 1, TILE_32X32 = 2, TILE_64X144 = 13,
              FLOAT64_TILES = 10;

/// What a tile's blocks are told where nothing else holds.
constexpr int told_at_least(int tile, size_t element_bytes) {
  return element_bytes == 4 && (TILES[tile].told >> BY_ELEMENTS & 1) != 0 ? BY_ELEMENTS : NOTHING;
}

/// Whether there is such a kernel. nvcc takes most of a second for each, so float64 has fewer.
constexpr bool has_kernel(int tile, int told, size_t element_bytes) {
  if (element_bytes == 8 && tile >= FLOAT64_TILES) return false;
  if (told == told_at_least(tile, element_bytes)) return true;
  if (told == NOTHING || (element_bytes == 8 && told == BY_ELEMENTS)) return false;
  if (element_bytes == 8 && (tile == TILE_64X64 || tile == TILE_32X32)) return false;
  return (TILES[tile].told >> told & 1) != 0;
}
constexpr bool has_tile(int tile, size_t element_bytes) {
  return has_kernel(tile, told_at_least(tile, element_bytes), element_bytes);
}

/// Of K a stage, and stages: registers hold what is fetched for one more.
constexpr int depth_of(int tile, int told) { return told == BY_ELEMENTS ? 8 : TILES[tile].depth; }
constexpr int stages_of(int tile, int told, size_t element_bytes) {
  return told == BY_ELEMENTS ? 3 : TILES[tile].stages_of(element_bytes);
}

/// Whether chunks' sums stay in registers, at the cost of a block: 1024^3 8% faster. The tile of
/// 64 x 128 would be 6% faster there, but 3% slower at 4096^3 and 30% at 1792^3, without its third.
constexpr bool chunks_in_registers(int tile, int told) {
  return tile == TILE_64X64 && (told == BOTH_ALONG_E || told == K_AND_E);
}

/// Blocks that an SM shall hold at once. Values that are read along k take up to four
/// times the registers of others.
constexpr int blocks_of(int tile, int told) {
  const TileShape& shape = TILES[tile];
  const bool a_along_k = TOLD[told].a == Lies::runs_along_k;
  const bool both_along_k = a_along_k && TOLD[told].b == Lies::runs_along_k;
  const bool large = shape.thread_rows * shape.thread_cols >= 64;
  const bool fewer = both_along_k || chunks_in_registers(tile, told);
  const int fit = large && a_along_k ? 2 : fewer ? 3 : shape.blocks;
  return fit < shape.blocks ? fit : shape.blocks;
}

/// K in parts, one a block. The sums of each unit of a part go to the workspace, and are added
/// there in the order in which one block would add them (block.h): the same bits.
enum class Unit : int { none, chunk, superchunk };

/// Of K, for one that there is.
constexpr int64_t unit_length(Unit unit, int64_t K) {
  const int64_t chunk = chunk_length(K);
  return unit == Unit::chunk ? chunk : chunk * CHUNKS_A_SUPERCHUNK;
}

struct Cut {
  Unit by = Unit::none;
  unsigned parts = 1;
  int64_t part_length = 0;  ///< a multiple of the unit's length, or all of K
};

/// Strides and K that blocks which fetch elements count with, at most.
constexpr int64_t LARGEST_FETCHED = (int64_t{1} << 26) - 1;

struct Arguments {
  Problem problem;
  Cut cut;
  unsigned tiles_m, tiles_n, members;
  unsigned strip;  ///< rows of tiles whose blocks run side by side, so that L2 serves both operands
  bool padded_a, padded_b;  ///< packed: there are zeros beyond their rows, up to whole tiles
};

inline namespace SMEM_BUILD {

template <typename T>
__device__ __forceinline__ constexpr T lesser(T a, T b) {
  return b < a ? b : a;
}

}  // namespace SMEM_BUILD
}  // namespace smem::gemm::simt
