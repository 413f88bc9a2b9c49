// The configurations of the simt kernels: tiles, operand layouts, split-K, and the parameters of a
// launch.
//
// X(mn, k) is an operand with its M or N dimension first: A itself, or B transposed. It is MN-major
// if it is contiguous along mn, K-major if it is contiguous along k. A vec16 is a vector of 16
// bytes.
//
// What may be changed: rows of TILES may be edited, added and removed, as long as 128x128, 16x16
// and 64x144 remain. An edited row needs new cycle counts. The order of the rows decides only
// between tiles of equal predicted time. Every layout pair in a row is one more kernel, which takes
// nvcc most of a second.
#pragma once

#include <array>
#include <type_traits>

#include "device/opaque.h"
#include "gemm/accumulation_order.h"
#include "gemm/gemm.h"
#include "gemm/tile_table.h"

namespace smem::gemm::simt {

/// How a block loads an operand.
enum class LoadMode {
  vec16_along_mn,   ///< MN-major and aligned: cp.async of vec16s
  vec16_along_k,    ///< K-major and aligned: cp.async of vec16s; the stage stays K-major
  scalar_along_k,   ///< cp.async of single elements, neighbouring threads along k
  scalar_along_mn,  ///< cp.async of single elements, neighbouring threads along mn
  dynamic,          ///< the block inspects the strides and picks one; a K-major X is transposed
  scalar_via_registers,  ///< any layout: single elements through registers (load_pipelined.h)
  ldg,                   ///< any layout: single elements to registers, no stages (kernel_ldg.h)
  by_warp,               ///< any layout: each warp has stages of its own (kernel_warps_k.h)
};

/// What is known of both operands' layouts at compile time. Each value is a kernel of its own.
enum class LayoutPair : int {
  unknown,
  both_mn_major,
  both_k_major,
  a_k_major_b_mn_major,
  a_k_major_b_unknown,
  via_registers,
  ldg,
  by_warp,
};

struct LayoutPairRow {
  LayoutPair pair;
  LoadMode a, b;
};
inline constexpr LayoutPairRow LAYOUT_PAIRS[] = {
    {.pair = LayoutPair::unknown, .a = LoadMode::dynamic, .b = LoadMode::dynamic},
    {.pair = LayoutPair::both_mn_major,
     .a = LoadMode::vec16_along_mn,
     .b = LoadMode::vec16_along_mn},
    {.pair = LayoutPair::both_k_major, .a = LoadMode::vec16_along_k, .b = LoadMode::vec16_along_k},
    {.pair = LayoutPair::a_k_major_b_mn_major,
     .a = LoadMode::vec16_along_k,
     .b = LoadMode::vec16_along_mn},
    {.pair = LayoutPair::a_k_major_b_unknown, .a = LoadMode::vec16_along_k, .b = LoadMode::dynamic},
    {.pair = LayoutPair::via_registers,
     .a = LoadMode::scalar_via_registers,
     .b = LoadMode::scalar_via_registers},
    {.pair = LayoutPair::ldg, .a = LoadMode::ldg, .b = LoadMode::ldg},
    {.pair = LayoutPair::by_warp, .a = LoadMode::by_warp, .b = LoadMode::by_warp},
};

constexpr LayoutPairRow load_modes(LayoutPair pair, int row = 0) {
  return LAYOUT_PAIRS[row].pair == pair ? LAYOUT_PAIRS[row] : load_modes(pair, row + 1);
}

/// Kernels that load any layout straight to registers.
constexpr bool is_direct(LayoutPair pair) {
  return pair == LayoutPair::ldg || pair == LayoutPair::by_warp;
}

/// A set of layout pairs.
struct LayoutSet {
  unsigned bits = 0;

  constexpr bool contains(LayoutPair pair) const {
    return (bits >> static_cast<int>(pair) & 1) != 0;
  }
};
template <typename... Pairs>
constexpr LayoutSet layouts(Pairs... pairs) {
  return {(0u | ... | (1u << static_cast<int>(pairs)))};
}

/// Cycles of an SM per value of k and tile. The FMA units' limit is rows * cols / 128. Fitted
/// together with CostModel (cost_model.h), for float32 and the layouts that the tile loads
/// fastest.
struct TileSpeed {
  double full = 0;   ///< with as many blocks as the SM holds
  double alone = 0;  ///< with one block on the SM
};

/// A block's tile of out and the kernels compiled for it. float64 has half the columns per thread
/// if there are several, and three stages, so that it needs about as much shared memory.
struct TileConfig {
  const char* name;              ///< as users know it: rows x columns for float32
  int thread_rows, thread_cols;  ///< elements of out per thread, for float32
  int lanes_m;                   ///< a warp's lanes form a grid of lanes_m x 32 / lanes_m
  int warps_m, warps_n;
  int depth;              ///< values of k per stage
  int stages;             ///< stages of shared memory
  int min_blocks_per_sm;  ///< launch bound
  LayoutSet f32, f64;     ///< layout pairs that have a kernel
  TileSpeed speed = {};
  TileSpeed speed_via_registers = {};  ///< of LayoutPair::via_registers
  double start = 0;                    ///< ns that a launch takes longer than CostModel::first_wave
  double store = 0;  ///< cycles of an SM per tile, to start a block and to store its part of out
  LayoutSet interval_accum_in_registers{};  ///< see has_interval_accum_in_registers
  int warps_k = 1;                          ///< above 1: warps divide K (kernel_warps_k.h)

  constexpr int threads() const { return 32 * warps_m * warps_n * warps_k; }
  constexpr int rows() const { return lanes_m * warps_m * thread_rows; }
  constexpr int thread_cols_of(size_t element_bytes) const {
    return element_bytes == 8 && thread_cols > 1 ? thread_cols / 2 : thread_cols;
  }
  constexpr int cols(size_t element_bytes) const {
    return 32 / lanes_m * warps_n * thread_cols_of(element_bytes);
  }
  constexpr int stages_of(size_t element_bytes) const { return element_bytes == 8 ? 3 : stages; }
  /// The most shared memory that a block needs: accumulators, and stages padded by 16 bytes per
  /// row.
  constexpr size_t shared_bytes(size_t element_bytes) const {
    const int extent = rows() + cols(element_bytes), padding = static_cast<int>(16 / element_bytes);
    const int stage = extent * depth + padding * (extent + 2 * depth);
    return element_bytes * (rows() * cols(element_bytes) + stages_of(element_bytes) * stage);
  }
};

/// 128x128 has two blocks per SM, so that one multiplies while the other does something else. The
/// smaller tiles are for small problems, and the long ones for outputs that are long in one
/// dimension and short in the other. The thinnest tiles have all lanes along their length, so that
/// an element of the long operand is read once. Tiles of LayoutPair::ldg and by_warp have kernels
/// of their own (kernel_ldg.h, kernel_warps_k.h).
// clang-format off
inline constexpr auto TILES = [] {
  using L = LayoutPair;
  return std::to_array<TileConfig>({
    {.name = "128x128", .thread_rows = 8, .thread_cols = 16, .lanes_m = 8,
     .warps_m = 2, .warps_n = 2, .depth = 8, .stages = 5, .min_blocks_per_sm = 2,
     .f32 = layouts(L::both_mn_major, L::via_registers),
     .f64 = layouts(L::unknown, L::both_mn_major),
     .speed = {.full = 167, .alone = 190}, .speed_via_registers = {.full = 184, .alone = 312},
     .start = 0, .store = 2900},
    {.name = "64x64", .thread_rows = 4, .thread_cols = 8, .lanes_m = 8,
     .warps_m = 2, .warps_n = 2, .depth = 16, .stages = 4, .min_blocks_per_sm = 4,
     .f32 = layouts(L::both_mn_major, L::both_k_major, L::a_k_major_b_mn_major, L::via_registers),
     .f64 = layouts(L::unknown),
     .speed = {.full = 49, .alone = 82.8},
     .speed_via_registers = {.full = 58.1, .alone = 192},
     .start = -200, .store = 1070,
     .interval_accum_in_registers = layouts(L::both_mn_major, L::a_k_major_b_mn_major)},
    {.name = "32x32", .thread_rows = 4, .thread_cols = 4, .lanes_m = 8,
     .warps_m = 1, .warps_n = 2, .depth = 16, .stages = 4, .min_blocks_per_sm = 8,
     .f32 = layouts(L::a_k_major_b_mn_major, L::via_registers), .f64 = layouts(L::unknown),
     .speed = {.full = 16.1, .alone = 61},
     .speed_via_registers = {.full = 20.9, .alone = 186},
     .start = -120, .store = 390},
    {.name = "16x16", .thread_rows = 2, .thread_cols = 4, .lanes_m = 8,
     .warps_m = 1, .warps_n = 1, .depth = 16, .stages = 4, .min_blocks_per_sm = 16,
     .f32 = layouts(L::unknown, L::via_registers), .f64 = layouts(L::unknown),
     .speed = {.full = 6.7, .alone = 51},
     .speed_via_registers = {.full = 9.4, .alone = 117},
     .start = 100, .store = 190},
    {.name = "128x32", .thread_rows = 4, .thread_cols = 8, .lanes_m = 8,
     .warps_m = 4, .warps_n = 1, .depth = 16, .stages = 4, .min_blocks_per_sm = 3,
     .f32 = layouts(L::both_mn_major, L::a_k_major_b_unknown, L::via_registers),
     .f64 = layouts(L::unknown, L::a_k_major_b_unknown),
     .speed = {.full = 45.6, .alone = 76.4},
     .speed_via_registers = {.full = 62.9, .alone = 209},
     .start = -290, .store = 1280},
    {.name = "128x16", .thread_rows = 4, .thread_cols = 4, .lanes_m = 8,
     .warps_m = 4, .warps_n = 1, .depth = 16, .stages = 4, .min_blocks_per_sm = 4,
     .f32 = layouts(L::both_mn_major, L::a_k_major_b_unknown, L::via_registers),
     .f64 = layouts(L::unknown, L::a_k_major_b_unknown),
     .speed = {.full = 27.4, .alone = 67.7},
     .speed_via_registers = {.full = 45.7, .alone = 193},
     .start = -350, .store = 880},
    {.name = "128x8", .thread_rows = 1, .thread_cols = 8, .lanes_m = 32,
     .warps_m = 4, .warps_n = 1, .depth = 32, .stages = 3, .min_blocks_per_sm = 3,
     .f32 = layouts(L::a_k_major_b_unknown, L::via_registers),
     .f64 = layouts(L::unknown, L::a_k_major_b_unknown),
     .speed = {.full = 21.3, .alone = 53.4},
     .speed_via_registers = {.full = 39.2, .alone = 106},
     .start = -170, .store = 690},
    {.name = "32x128", .thread_rows = 4, .thread_cols = 8, .lanes_m = 8,
     .warps_m = 1, .warps_n = 4, .depth = 16, .stages = 4, .min_blocks_per_sm = 3,
     .f32 = layouts(L::both_k_major, L::via_registers), .f64 = layouts(L::unknown, L::both_k_major),
     .speed = {.full = 47.1, .alone = 86.5},
     .speed_via_registers = {.full = 64.2, .alone = 200},
     .start = -140, .store = 930},
    {.name = "16x128", .thread_rows = 2, .thread_cols = 8, .lanes_m = 8,
     .warps_m = 1, .warps_n = 4, .depth = 16, .stages = 4, .min_blocks_per_sm = 4,
     .f32 = layouts(L::both_k_major, L::via_registers), .f64 = layouts(L::unknown, L::both_k_major),
     .speed = {.full = 34.5, .alone = 66.5},
     .speed_via_registers = {.full = 49, .alone = 199},
     .start = -220, .store = 800},
    {.name = "8x128", .thread_rows = 8, .thread_cols = 1, .lanes_m = 1,
     .warps_m = 1, .warps_n = 4, .depth = 32, .stages = 3, .min_blocks_per_sm = 3,
     .f32 = layouts(L::both_k_major, L::via_registers), .f64 = layouts(L::unknown, L::both_k_major),
     .speed = {.full = 21.1, .alone = 60.8},
     .speed_via_registers = {.full = 37.2, .alone = 124},
     .start = -130, .store = 620},
    {.name = "64x128", .thread_rows = 8, .thread_cols = 8, .lanes_m = 8,
     .warps_m = 1, .warps_n = 4, .depth = 16, .stages = 3, .min_blocks_per_sm = 3,
     .f32 = layouts(L::both_mn_major, L::both_k_major, L::a_k_major_b_mn_major, L::via_registers),
     .f64 = layouts(),
     .speed = {.full = 84.7, .alone = 135},
     .speed_via_registers = {.full = 107, .alone = 207},
     .start = 150, .store = 1450},
    {.name = "128x64", .thread_rows = 8, .thread_cols = 8, .lanes_m = 8,
     .warps_m = 2, .warps_n = 2, .depth = 16, .stages = 3, .min_blocks_per_sm = 3,
     .f32 = layouts(L::both_mn_major, L::both_k_major, L::a_k_major_b_mn_major, L::via_registers),
     .f64 = layouts(),
     .speed = {.full = 88.6, .alone = 141},
     .speed_via_registers = {.full = 101, .alone = 220},
     .start = -90, .store = 1760},
    {.name = "4x128", .thread_rows = 4, .thread_cols = 1, .lanes_m = 1,
     .warps_m = 1, .warps_n = 4, .depth = 32, .stages = 3, .min_blocks_per_sm = 4,
     .f32 = layouts(L::both_k_major, L::a_k_major_b_mn_major, L::via_registers), .f64 = layouts(),
     .speed = {.full = 18.7, .alone = 51.8},
     .speed_via_registers = {.full = 33.3, .alone = 114},
     .start = -160, .store = 520},
    {.name = "64x144", .thread_rows = 8, .thread_cols = 9, .lanes_m = 8,
     .warps_m = 1, .warps_n = 4, .depth = 8, .stages = 3, .min_blocks_per_sm = 3,
     .f32 = layouts(L::via_registers), .f64 = layouts(),
     .speed_via_registers = {.full = 119, .alone = 261},
     .start = -20, .store = 1800},
    {.name = "128x48", .thread_rows = 8, .thread_cols = 12, .lanes_m = 8,
     .warps_m = 2, .warps_n = 1, .depth = 16, .stages = 3, .min_blocks_per_sm = 4,
     .f32 = layouts(L::both_mn_major, L::a_k_major_b_mn_major, L::via_registers),
     .f64 = layouts(),
     .speed = {.full = 78, .alone = 188},
     .speed_via_registers = {.full = 70.9, .alone = 317},
     .start = -230, .store = 3420},
    {.name = "512x1_ldg", .thread_rows = 4, .thread_cols = 1, .lanes_m = 32,
     .warps_m = 4, .warps_n = 1, .depth = 8, .stages = 0, .min_blocks_per_sm = 8,
     .f32 = layouts(L::ldg), .f64 = layouts(),
     .speed = {.full = 50.1, .alone = 261}, .start = -1300, .store = 490},
    {.name = "1x512_ldg", .thread_rows = 1, .thread_cols = 4, .lanes_m = 1,
     .warps_m = 1, .warps_n = 4, .depth = 8, .stages = 0, .min_blocks_per_sm = 8,
     .f32 = layouts(L::ldg), .f64 = layouts(),
     .speed = {.full = 53.6, .alone = 245}, .start = -1070, .store = 130},
    {.name = "8x256_ldg", .thread_rows = 4, .thread_cols = 4, .lanes_m = 2,
     .warps_m = 1, .warps_n = 4, .depth = 4, .stages = 0, .min_blocks_per_sm = 5,
     .f32 = layouts(L::ldg), .f64 = layouts(),
     .speed = {.full = 76.8, .alone = 302}, .start = -740, .store = 340},
    {.name = "32x64_ldg", .thread_rows = 4, .thread_cols = 4, .lanes_m = 4,
     .warps_m = 2, .warps_n = 2, .depth = 4, .stages = 0, .min_blocks_per_sm = 5,
     .f32 = layouts(L::ldg), .f64 = layouts(),
     .speed = {.full = 79.3, .alone = 306}, .start = -830, .store = 370},
    {.name = "512x4_ldg", .thread_rows = 4, .thread_cols = 4, .lanes_m = 32,
     .warps_m = 4, .warps_n = 1, .depth = 8, .stages = 0, .min_blocks_per_sm = 3,
     .f32 = layouts(L::ldg), .f64 = layouts(),
     .speed = {.full = 60, .alone = 270}, .start = -1300, .store = 900},
    {.name = "32x4", .thread_rows = 4, .thread_cols = 1, .lanes_m = 8,
     .warps_m = 1, .warps_n = 1, .depth = 32, .stages = 16, .min_blocks_per_sm = 1,
     .f32 = layouts(L::by_warp), .f64 = layouts(),
     .speed = {.full = 8.3, .alone = 17}, .start = 1200, .store = 190, .warps_k = 16},
    {.name = "16x2", .thread_rows = 1, .thread_cols = 1, .lanes_m = 16,
     .warps_m = 1, .warps_n = 1, .depth = 32, .stages = 16, .min_blocks_per_sm = 2,
     .f32 = layouts(L::by_warp), .f64 = layouts(),
     .speed = {.full = 3.7, .alone = 13}, .start = 900, .store = 190, .warps_k = 16},
    {.name = "8x8", .thread_rows = 2, .thread_cols = 1, .lanes_m = 4,
     .warps_m = 1, .warps_n = 1, .depth = 64, .stages = 16, .min_blocks_per_sm = 1,
     .f32 = layouts(L::by_warp), .f64 = layouts(),
     .speed = {.full = 5.95, .alone = 10}, .start = 360, .store = 190, .warps_k = 16},
  });
}();
// clang-format on
inline constexpr int TILE_COUNT = static_cast<int>(TILES.size());

/// The tiles' names, for the kernel table.
inline constexpr auto TILE_NAMES = names_of<TILE_COUNT>(TILES);

constexpr int TILE_128X128 = row_of<TILE_COUNT>(TILES, "128x128"),
              TILE_16X16 = row_of<TILE_COUNT>(TILES, "16x16"),
              TILE_64X144 = row_of<TILE_COUNT>(TILES, "64x144");

constexpr LayoutSet layouts_of(int tile, size_t element_bytes) {
  return element_bytes == 8 ? TILES[tile].f64 : TILES[tile].f32;
}
constexpr bool has_kernel(int tile, LayoutPair pair, size_t element_bytes) {
  return layouts_of(tile, element_bytes).contains(pair);
}

/// Values of k per stage, and stages. The kernels that load via registers need few stages, because
/// registers hold the elements for one more; thin tiles make few products per element.
constexpr int depth_of(int tile, LayoutPair pair) {
  if (pair != LayoutPair::via_registers) return TILES[tile].depth;
  return TILES[tile].thread_rows * TILES[tile].thread_cols <= 8 ? 16 : 8;
}
constexpr int stages_of(int tile, LayoutPair pair, size_t element_bytes) {
  return pair == LayoutPair::via_registers ? 3 : TILES[tile].stages_of(element_bytes);
}

/// Whether the accumulators of intervals stay in registers, instead of shared memory. This makes
/// 1024^3 8% faster with 64x64, but leaves room for one block less per SM. 64x128 would gain 6% at
/// 1024^3, but lose 3% at 4096^3 and 30% at 1792^3, without its third block.
constexpr bool has_interval_accum_in_registers(int tile, LayoutPair pair) {
  return TILES[tile].interval_accum_in_registers.contains(pair);
}

/// The launch bound on blocks per SM. The fragments of K-major operands take up to four times the
/// registers of others, so those kernels have fewer blocks. Loads through registers are one step
/// ahead only, so small tiles need more warps to hide their latency.
constexpr int min_blocks_per_sm(int tile, LayoutPair pair) {
  const TileConfig& config = TILES[tile];
  const int accumulators = config.thread_rows * config.thread_cols;
  if (pair == LayoutPair::via_registers && accumulators <= 32) {
    return (accumulators <= 16 ? 640 : 512) / config.threads();
  }
  const LayoutPairRow modes = load_modes(pair);
  const bool is_a_k_major = modes.a == LoadMode::vec16_along_k;
  const bool both_k_major = is_a_k_major && modes.b == LoadMode::vec16_along_k;
  const bool is_large = config.thread_rows * config.thread_cols >= 64;
  const bool needs_registers = both_k_major || has_interval_accum_in_registers(tile, pair);
  const int most = is_large && is_a_k_major ? 256 / config.threads()
                   : needs_registers        ? 3
                                            : config.min_blocks_per_sm;
  return most < config.min_blocks_per_sm ? most : config.min_blocks_per_sm;
}

/// Warps of a block that divides K among them: as many as K has intervals, if these are fewer than
/// a superblock's.
constexpr int warps_for(const TileConfig& tile, int64_t K) {
  const int64_t interval = accum_interval(K), intervals = (K + interval - 1) / interval;
  return intervals < 2 ? 2 : intervals < tile.warps_k ? static_cast<int>(intervals) : tile.warps_k;
}

/// The part of K that one partial of split-K sums.
enum class PartialUnit : int {
  none,  ///< K is not split
  interval,
  superblock,
};

/// Values of k per partial, if K is split.
constexpr int64_t partial_length(PartialUnit unit, int64_t K) {
  const int64_t interval = accum_interval(K);
  return unit == PartialUnit::interval ? interval : interval * INTERVALS_PER_SUPERBLOCK;
}

/// Split-K: each block computes one slice of K. A slice consists of whole intervals or superblocks.
/// The block writes the partial sum of each to the workspace, and a second kernel
/// (reduce_split_k.h) adds the partials in the order in which one block would add them
/// (accumulation_order.h), so the bits do not depend on the split.
struct SplitK {
  PartialUnit unit = PartialUnit::none;
  unsigned slices = 1;
  int64_t slice_length = 0;  ///< a multiple of partial_length, or all of K
};

/// The largest stride and the largest K for kernels that load via registers: they compute with 32
/// bits.
constexpr int64_t MAX_STRIDE_VIA_REGISTERS = (int64_t{1} << 26) - 1;

/// The parameters of a launch.
struct SimtParams {
  Problem problem;
  SplitK split_k;
  unsigned tiles_m, tiles_n, batch_count;
  unsigned swizzle_size;    ///< tile rows per swizzle group, see swizzled_tile_index in kernel.h
  bool padded_a, padded_b;  ///< packed operands have zeros beyond their rows, up to whole tiles
};

}  // namespace smem::gemm::simt
