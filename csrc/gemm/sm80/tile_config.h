// The tile shapes of the mma kernels: one row of TILES per shape.
//
// To add a tile, add a row; the static_asserts at the end check it, and instances.h compiles its
// kernels. The order of the rows has no meaning: between tiles that the cost model expects to be
// equally fast, heuristics.cpp takes the first.
#pragma once

#include <cstddef>

#include "device/dtype.h"
#include "gemm/tile_table.h"

namespace smem::gemm::sm80 {

constexpr int VEC_BYTES = 16;  ///< one cp.async, and one row of an ldmatrix

/// How a tile's operands come into registers.
enum class LoadMode {
  multistage,  ///< aligned vectors through stages in shared memory (mainloop.h)
  unaligned,   ///< the same with rows that begin anywhere (mainloop_unaligned*.h)
  ldg          ///< by ld.global, with rows that begin anywhere (mainloop_ldg.h)
};

/// The sizes of a tile; a template argument of the kernel.
struct TileConfig {
  int tile_m, tile_n;         ///< rows and columns of out that a block computes
  int vecs_k;                 ///< vectors of 16 bytes along K per stage: 8 are 64 16-bit elements
  int stages = 0;             ///< depth of the shared memory pipeline; LoadMode::ldg has none
  int warps_m, warps_n;       ///< the block's grid of warps
  int copy_parts = 2;         ///< into which the copies of a k-tile are spread over its mma steps
  int min_blocks_per_sm = 1;  ///< launch bound: limits the registers of a thread
  LoadMode load = LoadMode::multistage;
  int loader_warps = 0;  ///< that load for the grid of warps (unaligned); 0: each warp does both

  constexpr int mma_threads() const { return 32 * warps_m * warps_n; }
  constexpr int threads() const { return mma_threads() + 32 * loader_warps; }
  constexpr int loader_threads() const { return loader_warps > 0 ? 32 * loader_warps : threads(); }
  constexpr int warp_m() const { return tile_m / warps_m; }
  constexpr int warp_n() const { return tile_n / warps_n; }
  constexpr int a_bytes() const { return tile_m * vecs_k * VEC_BYTES; }
  constexpr int b_bytes() const { return tile_n * vecs_k * VEC_BYTES; }
  constexpr int stage_bytes() const { return a_bytes() + b_bytes(); }
  /// A stage of rows as they lie in memory: RAW_PITCH apart (load_unaligned.h), for which a vector
  /// more than in a swizzled stage for each row of 16-bit elements is enough.
  constexpr int a_raw_bytes() const { return a_bytes() + raw_rows(tile_m) * VEC_BYTES; }
  constexpr int raw_stage_bytes() const {
    return a_raw_bytes() + b_bytes() + raw_rows(tile_n) * VEC_BYTES;
  }
  constexpr int shared_bytes() const {
    if (load == LoadMode::ldg) return 4 * tile_m * tile_n;  // for the epilogue
    return load == LoadMode::unaligned ? 2 * stage_bytes() + stages * raw_stage_bytes()
                                       : stages * stage_bytes();
  }
  constexpr int tile_k(size_t element_bytes) const {
    return vecs_k * VEC_BYTES / static_cast<int>(element_bytes);
  }

  /// The mma steps whose fragments a warp loads at once (LoadMode::ldg): as many as about 32
  /// registers hold.
  constexpr int ldg_steps() const {
    constexpr int REGISTERS = 32;
    const int words = (warp_m() + warp_n()) / 4;
    return words < REGISTERS ? REGISTERS / words : 1;
  }

  /// Of a warp's rows of 16 accumulators, how many it stages at once for its stores, as elements of
  /// so many bytes: as many as the stages hold, or the one that a tile of unaligned operands has.
  constexpr int staged_fragments(size_t element_bytes) const {
    const int bytes = load == LoadMode::unaligned ? stage_bytes() : shared_bytes();
    int fragments = warp_m() / 16;
    while (tile_n * warps_m * 16 * fragments * static_cast<int>(element_bytes) > bytes) {
      fragments /= 2;
    }
    return fragments;
  }

  constexpr bool is_valid() const {
    const auto is_power_of_2 = [](int x) { return x > 0 && (x & (x - 1)) == 0; };
    return is_power_of_2(warp_m()) && is_power_of_2(warp_n()) && warp_m() % 16 == 0 &&
           warp_n() % 16 == 0 && vecs_k % (2 * copy_parts) == 0 && vecs_k % 4 == 0 &&
           16 % vecs_k == 0 && staged_fragments(4) >= 1;
  }

 private:
  /// Rows of a stage: along K, or along M or N; of the smallest elements.
  constexpr int raw_rows(int tile_mn) const { return tile_mn > tile_k(2) ? tile_mn : tile_k(2); }
};

/// The dtypes in which a tile's kernels are also built for the emulator. A kernel takes about 0.6 s
/// to compile.
enum class OnCpu : int { none, bf16, all };

/// A row of TILES.
struct TileVariant {
  const char* name;  ///< as in kernel="mma:128x256"
  TileConfig config;
  OnCpu on_cpu = OnCpu::none;
  bool is_for_sm75 = false;  ///< has kernels for sm_75, in float16
};

// A warp computes 64 x 64 where it can: it then reads 128 bytes of shared memory per mma. Two
// blocks of four such warps fill an SM's registers, as one block of eight does; the latter reads a
// quarter less from L2, the former computes in one block while the other stores. Small tiles have
// many stages: what an SM has in flight must cover the latency of DRAM. All but 128x256 fit into
// the 99 KB that a block has on the GPUs of 8.6 and 8.9; 128x128_k32 fits twice. The tiles of sm_75
// fit its 64 KB twice with two stages each. Those that load rows of any alignment are for thin or
// short operands, whose packed copies would take longer than the product; with four loader warps
// two blocks have 128 registers a thread. Those that load by ld.global are for outputs of few rows
// or columns, and for small products.
// clang-format off
inline constexpr TileVariant TILES[] = {
    {.name = "128x256",
     .config = {.tile_m = 128, .tile_n = 256, .vecs_k = 8, .stages = 3, .warps_m = 2, .warps_n = 4,
                .copy_parts = 4}},
    {.name = "128x128",
     .config = {.tile_m = 128, .tile_n = 128, .vecs_k = 8, .stages = 3, .warps_m = 2, .warps_n = 2,
                .min_blocks_per_sm = 2}},
    {.name = "128x128_k32",
     .config = {.tile_m = 128, .tile_n = 128, .vecs_k = 4, .stages = 3, .warps_m = 2, .warps_n = 2,
                .min_blocks_per_sm = 2},
     .on_cpu = OnCpu::bf16,
     .is_for_sm75 = true},
    {.name = "64x128",
     .config = {.tile_m = 64, .tile_n = 128, .vecs_k = 8, .stages = 4, .warps_m = 2, .warps_n = 2,
                .min_blocks_per_sm = 2}},
    {.name = "64x64",
     .config = {.tile_m = 64, .tile_n = 64, .vecs_k = 8, .stages = 6, .warps_m = 2, .warps_n = 2,
                .min_blocks_per_sm = 2},
     .on_cpu = OnCpu::all,
     .is_for_sm75 = true},
    {.name = "32x32",
     .config = {.tile_m = 32, .tile_n = 32, .vecs_k = 8, .stages = 12, .warps_m = 1, .warps_n = 2,
                .min_blocks_per_sm = 2}},
    {.name = "16x32",
     .config = {.tile_m = 16, .tile_n = 32, .vecs_k = 8, .stages = 16, .warps_m = 1, .warps_n = 2,
                .min_blocks_per_sm = 2},
     .on_cpu = OnCpu::all,
     .is_for_sm75 = true},
    {.name = "128x128_unaligned",
     .config = {.tile_m = 128, .tile_n = 128, .vecs_k = 4, .stages = 3, .warps_m = 2, .warps_n = 2,
                .min_blocks_per_sm = 2, .load = LoadMode::unaligned}},
    {.name = "64x64_unaligned",
     .config = {.tile_m = 64, .tile_n = 64, .vecs_k = 8, .stages = 3, .warps_m = 2, .warps_n = 2,
                .min_blocks_per_sm = 2, .load = LoadMode::unaligned, .loader_warps = 4},
     .on_cpu = OnCpu::all},
    {.name = "16x32_unaligned",
     .config = {.tile_m = 16, .tile_n = 32, .vecs_k = 16, .stages = 4, .warps_m = 1, .warps_n = 2,
                .min_blocks_per_sm = 2, .load = LoadMode::unaligned, .loader_warps = 8},
     .on_cpu = OnCpu::all},
    {.name = "128x16_unaligned",
     .config = {.tile_m = 128, .tile_n = 16, .vecs_k = 8, .stages = 3, .warps_m = 4, .warps_n = 1,
                .min_blocks_per_sm = 2, .load = LoadMode::unaligned, .loader_warps = 4}},
    {.name = "16x128_unaligned",
     .config = {.tile_m = 16, .tile_n = 128, .vecs_k = 8, .stages = 3, .warps_m = 1, .warps_n = 4,
                .min_blocks_per_sm = 2, .load = LoadMode::unaligned, .loader_warps = 4}},
    {.name = "256x16_ldg",
     .config = {.tile_m = 256, .tile_n = 16, .vecs_k = 8, .warps_m = 4, .warps_n = 1,
                .min_blocks_per_sm = 4, .load = LoadMode::ldg},
     .on_cpu = OnCpu::bf16},
    {.name = "16x256_ldg",
     .config = {.tile_m = 16, .tile_n = 256, .vecs_k = 8, .warps_m = 1, .warps_n = 4,
                .min_blocks_per_sm = 4, .load = LoadMode::ldg},
     .on_cpu = OnCpu::bf16},
    {.name = "32x32_ldg",
     .config = {.tile_m = 32, .tile_n = 32, .vecs_k = 8, .warps_m = 2, .warps_n = 2,
                .min_blocks_per_sm = 5, .load = LoadMode::ldg},
     .on_cpu = OnCpu::all},
};
// clang-format on
inline constexpr int TILE_COUNT = sizeof(TILES) / sizeof(TILES[0]);

/// The tiles' names, for the kernel table.
inline constexpr auto TILE_NAMES = names_of<TILE_COUNT>(TILES);

/// The sizes of a tile in code for a compute capability. Before 8.0 there are two stages: vectors
/// wait in registers, not in shared memory.
constexpr TileConfig tile_config(int tile, int code_capability) {
  TileConfig config = TILES[tile].config;
  if (code_capability < 80) config.stages = 2;
  return config;
}

constexpr bool is_on_cpu(int tile, DType dtype) {
  const OnCpu on_cpu = TILES[tile].on_cpu;
  return on_cpu == OnCpu::all || (on_cpu == OnCpu::bf16 && dtype == DType::bf16);
}

constexpr bool tiles_are_valid() {
  for (int tile = 0; tile < TILE_COUNT; ++tile) {
    const TileConfig& config = TILES[tile].config;
    if (!config.is_valid() || (config.load != LoadMode::ldg && config.stages < 3)) return false;
    if (TILES[tile].is_for_sm75 && !tile_config(tile, 75).is_valid()) return false;
  }
  return true;
}
static_assert(
    tiles_are_valid(),
    "warps have whole fragments, whose count is a power of two for the exclusive or of "
    "their addresses; steps along K alternate between two sets of fragments and are "
    "divided among the parts of the copies; an accumulation interval, which is a multiple "
    "of 256 bytes, has whole k-tiles; and the stages hold the accumulators that a warp "
    "stages at once");

}  // namespace smem::gemm::sm80
