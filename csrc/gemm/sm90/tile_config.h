// The tile shapes of the SM90 kernels: one row of TILES per shape.
//
// To add a tile, add a row to TILES and a file to instances/ that names it. The static_asserts at
// the end check its sizes, its shared memory and its fallback; bench/sweep.py measures whether the
// cost model chooses it where it is fastest. The order of the rows has no meaning: between tiles
// that the cost model expects to be equally fast, heuristics.cpp takes the first.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/dtype.h"
#include "device/launch.h"
#include "device/major.h"
#include "gemm/tile_scheduler.h"
#include "gemm/tile_table.h"

namespace smem::gemm::sm90 {

/// A k-tile holds 128 bytes of K for each row of A and each column of B: the widest swizzle.
constexpr int ROW_BYTES = 128;
template <typename T>
constexpr int TILE_K = ROW_BYTES / static_cast<int>(sizeof(T));
constexpr int tile_k(DType dtype) { return ROW_BYTES / static_cast<int>(size_of(dtype)); }
/// The bytes of a row in a stage that has so many rows of A, or columns of B. The rows of an
/// MN-major operand run along these: they make a panel of 128 bytes, or one of fewer.
constexpr int stage_row_bytes(Major major, int stage_mn, size_t element_bytes) {
  const int bytes = stage_mn * static_cast<int>(element_bytes);
  return major == Major::MN && bytes < ROW_BYTES ? bytes : ROW_BYTES;
}
constexpr int WGMMA_M = 64;       ///< rows of A that one wgmma multiplies
constexpr int ELEMENT_BYTES = 2;  ///< size of a 16-bit element
constexpr size_t SHARED_BYTES = 227 * 1024, SWIZZLE_ATOM = 1024;

/// Each consumer warp has a staging area for its stores: two buffers of 16 rows of 64 two-byte
/// elements, one buffer of floats, or rows that begin anywhere (shifted_rows.h).
constexpr int STAGING_ROWS = 16, STAGING_COLS = 64, STAGING_BUFFER_BYTES = 2048,
              STAGING_BYTES = 4096;

/// Tiles that overlap (stored_columns.h) have at least so many columns: narrower ones would
/// compute too many twice.
constexpr int MIN_OVERLAPPING_N = 64;

/// The box of a TMA store of floats; its rows have 128 bytes.
constexpr int FLOAT_BOX_ROWS = 8, FLOAT_BOX_COLS = 32;

/// Outputs of so few rows or columns, or of fewer elements, are stored by few warps: in tf32
/// straight from registers, for staging takes time.
constexpr int64_t MOST_NARROW = 16, MIN_STAGED_ELEMENTS = 1 << 17;

/// How one launch stores its results. The plan chooses it at run time.
enum class StoreMode : int {
  tma,              ///< rounded, by TMA
  direct,           ///< rounded, by plain stores: rows of out may begin at any element
  scalar,           ///< element by element: any strides, C, float32 results of 16-bit operands
  splitk_partials,  ///< float32 partials of a split-K slice, which reduce_split_k.cu adds
};

/// Which epilogue code a kernel contains. `tma` and `direct` support alpha, a bias and relu, and
/// one accumulator for all of K; `any` supports every StoreMode but splitk_partials. A kernel with
/// one store path has a quarter of the code of `any`, and with a cold instruction cache every 128
/// bytes of code are read from DRAM.
enum class EpilogueKind : int { tma, direct, splitk_partials, any };

/// The sizes of a tile; a template argument of the kernel.
struct TileConfig {
  int tile_m, tile_n;         ///< rows and columns of out that a block computes
  int mma_n = tile_n;         ///< N of the wgmma instruction: at most tile_n, a multiple of 16
  int stage_n = tile_n;       ///< columns of B in a stage
  int stages;                 ///< depth of the shared memory pipeline
  int k_tiles_per_stage = 1;  ///< k-tiles that are loaded and released together
  int cluster_m = 1;          ///< blocks of a cluster, along M; each loads a part of B for all
  int min_blocks_per_sm = 1;  ///< blocks that must fit on an SM

  constexpr int consumer_warpgroups() const { return tile_m >= 128 ? 2 : 1; }
  constexpr int warpgroup_m() const { return tile_m / consumer_warpgroups(); }
  constexpr bool has_narrow_stages() const { return stage_n < tile_n; }
  /// An MN-major A of tf32 goes through registers (wgmma_rs), with stages as wide as the tile.
  constexpr bool takes_mn_major_tf32() const { return !has_narrow_stages(); }
  /// Whether a thread has registers for a second set of accumulators, see accumulate_k in kernel.h.
  constexpr bool fits_second_accumulator() const { return tile_n <= 192; }
  /// The producer is a whole warpgroup beside two consumer warpgroups, because setmaxnreg moves
  /// registers between warpgroups; beside one consumer warpgroup it is a single warp.
  constexpr int threads() const { return consumer_warpgroups() == 2 ? 384 : 160; }
  constexpr int a_bytes() const { return tile_m * ROW_BYTES; }
  constexpr int b_bytes() const { return stage_n * ROW_BYTES; }
  constexpr int stage_bytes() const { return k_tiles_per_stage * (a_bytes() + b_bytes()); }
  constexpr int staging_bytes() const { return 4 * consumer_warpgroups() * STAGING_BYTES; }
  constexpr size_t shared_bytes() const {
    // Dynamic shared memory is aligned to 16 bytes only; one atom is for aligning the stages.
    return SWIZZLE_ATOM + size_t(stages) * stage_bytes() + staging_bytes() +
           2 * stages * sizeof(uint64_t) + work_tile_slots(stages) * WORK_TILE_SLOT_BYTES;
  }
  constexpr bool is_valid() const {
    // CUDA reserves 1 KiB per block; SHARED_BYTES leaves out that of one block.
    constexpr size_t RESERVED_BYTES = 1024;
    return warpgroup_m() == WGMMA_M && tile_n % 64 == 0 && tile_n <= 256 && mma_n % 16 == 0 &&
           mma_n <= stage_n && stage_n <= tile_n && mma_n / 8 % cluster_m == 0 &&
           min_blocks_per_sm * (shared_bytes() + RESERVED_BYTES) <= SHARED_BYTES + RESERVED_BYTES;
  }
};

/// Which kernels of a tile are also built for cpu_emulator: none, those of bfloat16 with the
/// epilogue `any`, or those of all dtypes with it and with split-K. A kernel takes about 0.6 s to
/// compile.
enum class OnCpu : int { none, bf16, all };

/// A row of TILES.
struct TileVariant {
  const char* name;  ///< as in kernel="wgmma:128x256"
  TileConfig config;
  /// Whether kernels for tf32 are built, too. Only tiles that are the best for some problem, or
  /// within a few percent of it, are worth their compile time.
  bool has_tf32 = false;
  /// A tile with a fallback is built for EpilogueKind::tma and ::direct only. A problem that needs
  /// another epilogue, or whose MN-major A it does not take, is computed by the fallback, which is
  /// built for all of them.
  const char* fallback = nullptr;
  OnCpu on_cpu = OnCpu::none;
};

// clang-format off
constexpr TileVariant TILES[] = {
    {.name = "128x256_cluster2",
     .config = {.tile_m = 128, .tile_n = 256, .stages = 4, .cluster_m = 2},
     .has_tf32 = true},
    {.name = "128x256",
     .config = {.tile_m = 128, .tile_n = 256, .stages = 4},
     .fallback = "128x256_cluster2"},
    {.name = "128x208_cluster2",
     .config = {.tile_m = 128, .tile_n = 256, .mma_n = 208, .stages = 4, .cluster_m = 2},
     .fallback = "128x256_cluster2"},
    {.name = "128x192_cluster2",
     .config = {.tile_m = 128, .tile_n = 192, .stages = 4, .cluster_m = 2},
     .has_tf32 = true},
    {.name = "128x192",
     .config = {.tile_m = 128, .tile_n = 192, .stages = 4},
     .fallback = "128x192_cluster2"},
    {.name = "128x160",
     .config = {.tile_m = 128, .tile_n = 192, .mma_n = 160, .stages = 4},
     .fallback = "128x192_cluster2"},
    {.name = "128x128",
     .config = {.tile_m = 128, .tile_n = 128, .stages = 6},
     .has_tf32 = true},
    {.name = "128x64",
     .config = {.tile_m = 128, .tile_n = 64, .stages = 8},
     .has_tf32 = true,
     .on_cpu = OnCpu::bf16},
    {.name = "64x160",
     .config = {.tile_m = 64, .tile_n = 192, .mma_n = 160, .stages = 6},
     .fallback = "64x128"},
    {.name = "64x128",
     .config = {.tile_m = 64, .tile_n = 128, .stages = 8},
     .has_tf32 = true},
    {.name = "64x128_cluster2",
     .config = {.tile_m = 64, .tile_n = 128, .stages = 8, .cluster_m = 2},
     .fallback = "64x128",
     .on_cpu = OnCpu::bf16},
    {.name = "64x64",
     .config = {.tile_m = 64, .tile_n = 64, .stages = 6, .k_tiles_per_stage = 2},
     .has_tf32 = true,
     .on_cpu = OnCpu::all},
    {.name = "64x32",
     .config = {.tile_m = 64,
                .tile_n = 64,
                .mma_n = 32,
                .stage_n = 32,
                .stages = 8,
                .k_tiles_per_stage = 2},
     .has_tf32 = true,
     .fallback = "64x64",
     .on_cpu = OnCpu::bf16},
    {.name = "64x64_3cta",
     .config = {.tile_m = 64, .tile_n = 64, .stages = 3, .min_blocks_per_sm = 3},
     .has_tf32 = true,
     .on_cpu = OnCpu::bf16},
};
// clang-format on
constexpr int TILE_COUNT = sizeof(TILES) / sizeof(TILES[0]);

/// The tiles' names, for the kernel table.
inline constexpr auto TILE_NAMES = names_of<TILE_COUNT>(TILES);

constexpr int tile_index(const char* name) { return row_of<TILE_COUNT>(TILES, name); }

constexpr bool tiles_are_valid(int from = 0) {
  if (from == TILE_COUNT) return true;
  const TileVariant& tile = TILES[from];
  const bool has_full_fallback =
      tile.fallback ? !TILES[tile_index(tile.fallback)].fallback : !tile.config.has_narrow_stages();
  return tile.config.is_valid() && has_full_fallback && tiles_are_valid(from + 1);
}
static_assert(tiles_are_valid(),
              "wgmma's M and N fit each tile, its shared memory fits an SM, and its fallback is a "
              "tile with all epilogues");

}  // namespace smem::gemm::sm90
