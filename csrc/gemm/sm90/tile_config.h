// The tiles of out that the Hopper kernels compute: their sizes, and what they need of a block.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/dtype.h"
#include "device/launch.h"

namespace smem::gemm::sm90 {

/// One step along K: a row of 128 bytes, as wide as the widest swizzle.
constexpr int ROW_BYTES = 128;
template <typename T>
constexpr int STEP_K = ROW_BYTES / static_cast<int>(sizeof(T));
constexpr int step_k(DType dtype) { return ROW_BYTES / static_cast<int>(size_of(dtype)); }
constexpr int PANEL = 64;         ///< rows of wgmma's A
constexpr int ELEMENT_BYTES = 2;  ///< where they are rounded from sums
constexpr size_t SHARED_BYTES = 227 * 1024, SWIZZLE_ATOM = 1024;
/// Where a warp turns its sums into rows of out: twice 16 rows of 64 two-byte elements, or once of
/// floats.
constexpr int STAGING_ROWS = 16, STAGING_COLS = 64, STAGING_SLOT = 2048, STAGING_BYTES = 4096;

/// Of the boxes in which floats leave: a row has 128 bytes.
constexpr int FLOAT_BOX_ROWS = 8, FLOAT_BOX_COLS = 32;

/// How sums leave the kernel.
enum class Output : int {
  boxes,     ///< rounded, through TMA
  rows,      ///< rounded, where rows of out begin anywhere, which TMA does not reach
  elements,  ///< everything else: element by element, as Epilogue has it
  partials,  ///< a chunk's sums as floats, for a second kernel to add
};

/// What a kernel can do with its sums: one of the above each, boxes and rows with alpha, a bias and
/// relu at most and of one chain, or any but partials. One way out is a quarter of the code of all
/// of them, and where nothing of it is cached every 128 bytes of it come from DRAM.
enum class Exit : int { boxes, rows, partials, any };

/// rows x cols of out a block. `steps` of K travel together, `stages` times. The blocks of a
/// cluster stand below each other: each loads a part of B for all. `blocks` share an SM.
/// Floats have those tiles alone that are best, or nearly, wherever another is. Where `narrower` is
/// not 0 instructions multiply by so many columns only, in the place of `cols`: a more even share
/// of the work for all SMs is worth a kernel, but not with every exit.
struct Tile {
  int rows, cols, stages, steps = 1, cluster = 1, blocks = 1;
  bool for_floats = false;
  int narrower = 0;
  bool is_plain = false;  ///< boxes and rows alone; a tile before it in the table has every exit

  /// Warpgroups that multiply. Another one, or a warp of it, has TMA load.
  constexpr int consumers() const { return rows >= 128 ? 2 : 1; }
  constexpr int rows_of_warpgroup() const { return rows / consumers(); }
  /// Whether a thread has registers for the sums of the chunks of K before, too.
  constexpr bool adds_chunks() const { return cols <= 128; }
  constexpr int threads() const { return consumers() == 2 ? 384 : 160; }
  constexpr int width() const { return narrower ? narrower : cols; }
  constexpr int a_bytes() const { return rows * ROW_BYTES; }
  constexpr int b_bytes() const { return cols * ROW_BYTES; }
  constexpr int stage_bytes() const { return steps * (a_bytes() + b_bytes()); }
  constexpr int staging_bytes() const { return 4 * consumers() * STAGING_BYTES; }
  constexpr size_t shared_bytes() const {
    // The atom is for aligning the start, which only 16 bytes are promised for.
    return SWIZZLE_ATOM + size_t(stages) * stage_bytes() + staging_bytes() +
           2 * stages * sizeof(uint64_t);
  }
  constexpr bool is_valid() const {
    constexpr size_t SYSTEM_BYTES = 1024;  // of each block, which the 227 KiB leave out once
    return rows_of_warpgroup() == PANEL && cols % PANEL == 0 && cols <= 256 && width() % 16 == 0 &&
           width() <= cols && width() / 8 % cluster == 0 &&
           blocks * (shared_bytes() + SYSTEM_BYTES) <= SHARED_BYTES + SYSTEM_BYTES;
  }
};

// clang-format off
constexpr Tile TILES[] = {
    {128, 256, 4, 1, 2, 1, true},
    {128, 256, 4, 1, 1, 1, false, 256, true},
    {128, 256, 4, 1, 2, 1, false, 208, true},
    {128, 192, 4, 1, 2, 1, true},
    {128, 192, 4, 1, 1, 1, false, 192, true},
    {128, 192, 4, 1, 1, 1, false, 160, true},
    {128, 192, 4, 1, 1, 1, false, 144, true},
    {128, 128, 6, 1, 1, 1, true},
    {128,  64, 8, 1, 1, 1, true},
    { 64, 256, 5},
    { 64, 192, 6, 1, 1, 1, false, 160, true},
    { 64, 128, 8, 1, 1, 1, true},
    { 64, 128, 8, 1, 2, 1, false, 128, true},
    { 64,  64, 6, 2, 1, 1, true},
    { 64,  64, 3, 1, 1, 3, true},
};
// clang-format on
constexpr int TILE_COUNT = sizeof(TILES) / sizeof(TILES[0]);
/// Apart from the tiles, which are template arguments and can hold no pointer.
constexpr const char* TILE_NAMES[TILE_COUNT] = {
    "128x256_cluster2", "128x256", "128x208_cluster2", "128x192_cluster2", "128x192",
    "128x160",      "128x144", "128x128",      "128x64",       "64x256",
    "64x160",       "64x128",  "64x128_cluster2",  "64x64",        "64x64_3cta",
};

}  // namespace smem::gemm::sm90
