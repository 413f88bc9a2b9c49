#include "gemm/sm90/heuristics.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>

#include "gemm/accum_interval.h"
#include "gemm/batch.h"
#include "gemm/plan_cache.h"
#include "gemm/reduce_split_k.h"
#include "gemm/sm90/cost_model.h"
#include "gemm/tile_counter.h"

namespace smem::gemm::sm90 {
namespace {

/// The store mode without split-K.
StoreMode store_mode_of(const Problem& problem) {
  const bool is_row_major = problem.out.col_stride == 1 || problem.N == 1;
  if (!is_row_major || problem.c.data || problem.out_dtype != problem.dtype) {
    return StoreMode::scalar;
  }
  if (problem.dtype == DType::f32 && (problem.pre || is_costly(problem.activation))) {
    return StoreMode::scalar;
  }
  // TMA writes whole vectors of 16 bytes, even if the tensor ends within one.
  const int64_t vec = vec_elements(problem.dtype);
  const bool fits_tma = problem.N % vec == 0 && problem.out.row_stride % vec == 0 &&
                        problem.out.row_stride > 0 && batch_is_aligned(problem, OUT) &&
                        is_aligned(problem.out.data) && is_aligned(problem.pre);
  return fits_tma ? StoreMode::tma : problem.pre ? StoreMode::scalar : StoreMode::direct;
}

/// Whether tiles may compute columns twice in order to store whole sectors. Small outputs of floats
/// are stored in another way (epilogue_tf32.h has the same limits), which leaves columns out then.
bool may_overlap(const Problem& problem, const Plan& p) {
  const bool is_small =
      std::min(problem.M, problem.N) <= MOST_NARROW || problem.M * problem.N < MIN_STAGED_ELEMENTS;
  return (p.store_mode == StoreMode::tma || p.store_mode == StoreMode::direct) && !p.transposed &&
         !problem.pre && !is_small && rows_split_sectors(problem) &&
         p.accum_interval == k_tiles_of(problem);
}

/// The swizzle with which the tiles that are computed at one time read the fewest rows and columns.
int swizzle_size_of(const Plan& p, int64_t rows) {
  const TileConfig& tile = TILES[p.tile].config;
  int best = 1;
  double least = 0;
  for (int size = 1; size < 2 * rows && size <= 32; size *= 2) {
    const double read =
        double(size) * tile.tile_m * tile.cluster_m + double(p.clusters) / size * p.tile_n;
    if (least == 0 || read < least) {
      least = read;
      best = size;
    }
  }
  return best;
}

/// Whether a dynamic scheduler is worth its atomics, which take 0.3 to 1 us. The time of products
/// from 100 us on is 1.002 times that of the static one (23 problems on an H100, alone on the GPU);
/// those with many work tiles gain, up to 14%. With 8 of 132 SMs held by another kernel, 8192^3 in
/// bfloat16 takes 1455 us instead of 2428. Work tiles of less than 2 us lose: 16,384 products of
/// 32^3, 1.0 us each, took 43 us instead of 37. So do those that share columns of B where DRAM is
/// busy: they drift apart, and B is read again (512 x 28,672 x 4096 201 us instead of 164, 512 x
/// 10,240 x 8192 125 instead of 118).
bool has_dynamic_scheduler(const Problem& problem, const Device& device, const Plan& p) {
  constexpr int64_t MANY_ROUNDS = 12;
  constexpr double SHORTEST_ROUND = 2;  // us
  constexpr double BUSY_DRAM = 0.25;    // of the time, for reading the operands once
  const TileConfig& tile = TILES[p.tile].config;
  const int64_t work_tiles = work_tiles_of(problem, p), rounds = ceil_div(work_tiles, p.clusters);
  const bool shares_columns = problem.M > int64_t{tile.tile_m} * tile.cluster_m;
  const bool reads_again =
      shares_columns && operands_ns(problem, p) > BUSY_DRAM * 1000 * p.microseconds;
  return !device.host && rounds > 1 && !reads_again &&
         p.microseconds >= SHORTEST_ROUND * static_cast<double>(rounds) &&
         (p.microseconds >= MIN_DYNAMIC_MICROSECONDS || rounds >= MANY_ROUNDS);
}

/// The smallest epilogue that supports the plan. The CPU has no specialized ones.
EpilogueKind epilogue_kind_of(const Problem& problem, const Device& device, const Plan& p) {
  if (p.store_mode == StoreMode::splitk_partials) return EpilogueKind::splitk_partials;
  if (device.host) return EpilogueKind::any;
  const bool needs_any = p.store_mode == StoreMode::scalar || problem.pre ||
                         is_costly(problem.activation) || p.accum_interval != k_tiles_of(problem);
  return needs_any                        ? EpilogueKind::any
         : p.store_mode == StoreMode::tma ? EpilogueKind::tma
                                          : EpilogueKind::direct;
}

/// The operands as the kernels load them. For tf32 one may be MN-major (mainloop_tf32_rs.h).
struct Operands {
  OperandDesc a, b;

  explicit Operands(const Problem& problem)
      : a(describe_operand(problem, A)), b(describe_operand(problem, B)) {
    if (problem.dtype != DType::f32 || a.major != Major::MN || b.major != Major::MN) return;
    const bool a_is_smaller = a.inner_size * a.batch_count <= b.inner_size * b.batch_count;
    (a_is_smaller ? a : b) = describe_operand(problem, a_is_smaller ? A : B, false);
  }
};

/// The parts of a plan that do not depend on the tile.
Plan untiled_plan(const Problem& problem) {
  const Operands operands(problem);
  Plan p{};
  p.a = operands.a;
  p.b = operands.b;
  // The operand that is MN-major must be the first.
  p.transposed = problem.dtype == DType::f32 && p.b.major == Major::MN;
  if (p.transposed) std::swap(p.a, p.b);
  p.accum_interval = static_cast<int>(accum_interval_of(problem));
  p.split_k_slices = 1;
  p.store_mode = store_mode_of(problem);
  if (p.transposed && p.store_mode == StoreMode::tma) p.store_mode = StoreMode::direct;
  return p;
}

/// The same with split-K: each accumulation interval is a slice, and a second kernel adds them.
Plan with_split_k(const Problem& problem, Plan p) {
  p.split_k_slices = static_cast<int>(ceil_div(k_tiles_of(problem), int64_t{p.accum_interval}));
  p.store_mode = StoreMode::splitk_partials;
  return p;
}

/// The widest box that divides tile_n. If N is a single tile, the box may be wider: TMA does not
/// write beyond the end of out.
int widest_box(int tile_n, int64_t N) {
  int log2 = 3;
  while (N > tile_n && tile_n % (8 << log2) != 0) --log2;
  return log2;
}

Plan with_tile_n(const Problem& problem, const Device& device, Plan p, int index, int tile_n) {
  const TileConfig& tile = TILES[index].config;
  p.tile = index;
  p.tile_n = tile_n;
  p.log2_box_vecs = p.store_mode == StoreMode::tma ? widest_box(tile_n, problem.N) : 3;
  if (problem.dtype == DType::f32 && p.store_mode == StoreMode::tma) {
    // Boxes of float32 have one width.
    if (8 << p.log2_box_vecs < FLOAT_BOX_COLS) p.store_mode = StoreMode::direct;
    p.log2_box_vecs = 2;
    static_assert(8 << 2 == FLOAT_BOX_COLS);
  }
  p.epilogue = epilogue_kind_of(problem, device, p);
  p.clusters = static_cast<int>(
      std::min<int64_t>(work_tiles_of(problem, p),
                        std::max(1, tile.min_blocks_per_sm * device.sm_count / tile.cluster_m)));
  p.swizzle_size = swizzle_size_of(p, ceil_div(problem.M, int64_t{tile.tile_m} * tile.cluster_m));
  p.microseconds = expected_ns(problem, p, device.sm_count) / 1000;
  return p;
}

constexpr std::array<int, TILE_COUNT> fallback_indices() {
  std::array<int, TILE_COUNT> result{};
  for (int i = 0; i < TILE_COUNT; ++i) {
    result[i] = TILES[i].fallback ? tile_index(TILES[i].fallback) : i;
  }
  return result;
}

/// The same by whole sectors.
Plan with_overlap(Plan p) {
  p.store_mode = StoreMode::direct;
  p.overlaps = true;
  return p;
}

Plan with_best_tile_n(const Problem& problem, const Device& device, const Plan& untiled,
                      int index) {
  constexpr std::array<int, TILE_COUNT> FALLBACKS = fallback_indices();
  const EpilogueKind epilogue = epilogue_kind_of(problem, device, untiled);
  const bool is_special = epilogue == EpilogueKind::tma || epilogue == EpilogueKind::direct;
  const bool is_mn_major_tf32 = problem.dtype == DType::f32 && untiled.a.major == Major::MN;
  const bool takes_a = !is_mn_major_tf32 || TILES[index].config.takes_mn_major_tf32();
  if (!device.host && !(is_special && takes_a)) index = FALLBACKS[index];
  const TileConfig& tile = TILES[index].config;
  // Each block of a cluster loads as many columns of B as the others, in whole swizzle atoms. Tiles
  // that overlap begin at whole sectors of a row that does.
  const int overlap = untiled.overlaps ? OVERLAP_COLS : 0;
  const int unit = std::max(8 * tile.cluster_m, overlap);
  const int widest =
      static_cast<int>(std::min<int64_t>(tile.mma_n - overlap, round_up(problem.N, unit)));
  Plan best = with_tile_n(problem, device, untiled, index, widest);
  // A smaller tile_n is faster if it spreads the work evenly over the SMs. Candidates fill all SMs
  // 1 to 6 times; beside each, the next larger one that needs the fewest subtiles.
  constexpr int MOST_ROUNDS = 6, SMALLEST_TILE_N = 32;
  const int64_t tiles_per_column = work_tiles_of(problem, best) / best.tile_columns(problem.N);
  const int64_t resident = int64_t{tile.min_blocks_per_sm} * device.sm_count / tile.cluster_m;
  for (int rounds = 1; rounds <= MOST_ROUNDS; ++rounds) {
    const int64_t columns = rounds * resident / tiles_per_column;
    if (columns == 0) continue;
    const int64_t even = round_up(ceil_div(problem.N, columns), unit);
    const int64_t whole_subtiles = round_up(even + overlap, STAGING_COLS) - overlap;
    for (const int64_t tile_n : {even, whole_subtiles}) {
      if (tile_n < SMALLEST_TILE_N || tile_n >= widest) continue;
      const Plan next = with_tile_n(problem, device, untiled, index, static_cast<int>(tile_n));
      if (next.microseconds < 0.99 * best.microseconds) best = next;
    }
  }
  return best;
}

/// Accumulation intervals, if there are any, are computed in parallel by split-K, or one after the
/// other if the tile has registers for that and it is faster. The bits are the same.
Plan with_tile(const Problem& problem, const Device& device, const Plan& untiled, int index) {
  const auto best = [&](const Plan& p) { return with_best_tile_n(problem, device, p, index); };
  if (untiled.accum_interval == k_tiles_of(problem)) return best(untiled);
  if (device.host && TILES[index].on_cpu != OnCpu::all) return best(untiled);
  const Plan parallel = best(with_split_k(problem, untiled));
  if (!TILES[index].config.fits_second_accumulator()) return parallel;
  const Plan sequential = best(untiled);
  return sequential.microseconds < parallel.microseconds ? sequential : parallel;
}

/// Whether a plan must not be chosen, whatever the cost model expects of it.
bool is_excluded(const Problem& problem, const Device& device, const Plan& p) {
  const TileConfig& tile = TILES[p.tile].config;
  // For tf32, several blocks per SM are faster only in a batch of tiles with a single k-tile:
  // 16,384 problems of 32^3 take 87 us with three blocks per SM and 114 us with one, but 8192
  // problems of 48^3 take 75 us and 66 us.
  const bool is_one_k_tile = problem.M <= 64 && problem.N <= 64 && k_tiles_of(problem) == 1;
  if (tile.min_blocks_per_sm > 1 && problem.dtype == DType::f32 && !is_one_k_tile) return true;
  // 64x32 is for a long K. With so few k-tiles of 16-bit floats its time is 1.00 to 1.03 of that of
  // 64x64 (28 problems on an H200).
  constexpr int FEW_K_TILES = 8;
  if (tile.has_narrow_stages() && problem.dtype != DType::f32 &&
      k_tiles_of(problem) <= FEW_K_TILES) {
    return true;
  }
  // An MN-major B has rows of 64 bytes there, which take as many requests as rows of 128. Where
  // more than half of the SMs load them, 64x32 takes 1.05 times as long as 64x64, unless A has few
  // rows and nothing is packed; elsewhere 0.94 (128 problems on an H200).
  const bool has_short_rows = tile.has_narrow_stages() && p.b.major == Major::MN;
  const bool is_few_rows_in_place = problem.M <= tile.tile_m && !p.a.packed && !p.b.packed;
  if (has_short_rows && 2 * p.clusters > device.sm_count && !is_few_rows_in_place) return true;
  // Clusters of 64-row tiles are for operands with rows that begin within a 32-byte sector. TMA's
  // requests are the bottleneck then, and a cluster makes fewer: 1000^3 takes 9.0 us instead of
  // 10.4 us. They are slower otherwise (1024^3 takes 7.3 us instead of 6.6 us), and with a small
  // tile_n.
  const bool is_small_cluster = tile.cluster_m > 1 && tile.tile_m == WGMMA_M;
  const int sector = tile_k(problem.dtype) / 4;
  const bool splits_sectors = p.a.outer_stride % sector != 0 || p.b.outer_stride % sector != 0;
  return is_small_cluster && (!splits_sectors || problem.M <= WGMMA_M || p.tile_n <= WGMMA_M);
}

}  // namespace

bool can_implement(const Problem& problem, const Device& device) {
  // Rows and columns are counted in 32 bits, up to a tile beyond the last.
  constexpr int64_t LARGEST = (int64_t{1} << 31) - 1024, MOST_TILES = int64_t{1} << 30;
  if (problem.dtype == DType::f64) return false;
  if (!device.host && !device.runs_sm90a()) return false;
  if (device.shared_bytes < SHARED_BYTES) return false;
  if (problem.M < 1 || problem.N < 1 || problem.K < 1) return false;
  if (problem.M >= LARGEST || problem.N >= LARGEST || problem.K >= LARGEST) return false;
  return ceil_div(problem.M, 64) * ceil_div(problem.N, 32) * inner_batch_count(problem) *
             ceil_div(k_tiles_of(problem), accum_interval_of(problem)) <
         MOST_TILES;
}

bool has_tile(int tile, DType dtype, const Device& device) {
  const TileVariant& variant = TILES[tile];
  if (device.host) {
    return variant.on_cpu == OnCpu::all || (variant.on_cpu == OnCpu::bf16 && dtype == DType::bf16);
  }
  return dtype != DType::f32 || variant.has_tf32;
}

bool packs_operands(const Problem& problem) {
  const Operands operands(problem);
  return operands.a.packed || operands.b.packed;
}

Plan plan(const Problem& original, const Device& device) {
  const Plan untiled = untiled_plan(original);
  const Problem problem = untiled.transposed ? transposed(original) : original;
  // These tiles are never excluded and are built for all dtypes.
  constexpr int DEFAULT = tile_index("128x256_cluster2"), CPU_DEFAULT = tile_index("64x64");
  const bool is_named = problem.variant >= 0;
  const int first = is_named ? problem.variant : device.host ? CPU_DEFAULT : DEFAULT;
  Plan best = with_tile(problem, device, untiled, first);
  const auto take_if_better = [&](const Plan& next) {
    if (next.microseconds < best.microseconds && !is_excluded(problem, device, next)) best = next;
  };
  const bool overlaps = may_overlap(problem, untiled);
  for (int tile = 0; tile < TILE_COUNT; ++tile) {
    if (is_named ? tile != first : !has_tile(tile, problem.dtype, device)) continue;
    if (tile != first) take_if_better(with_tile(problem, device, untiled, tile));
    if (overlaps && TILES[tile].config.mma_n >= MIN_OVERLAPPING_N) {
      take_if_better(with_tile(problem, device, with_overlap(untiled), tile));
    }
  }
  best.dynamic_scheduler = has_dynamic_scheduler(problem, device, best);
  return best;
}

const Plan& cached_plan(const Problem& problem, const Device& device) {
  // Everything that a plan depends on.
  const Problem& p = problem;
  PlanKey<18 + 4 * MAX_RANK> key;
  for (const int64_t number :
       {p.M, p.N, p.K, int64_t{p.variant}, int64_t{device.sm_count}, int64_t{device.capability}}) {
    key.push(number);
  }
  for (const Operand* operand : {&p.a, &p.b, &p.out}) key.push(*operand);
  key.push(static_cast<int64_t>(p.dtype));
  key.push(static_cast<int64_t>(p.out_dtype == p.dtype) |
           static_cast<int64_t>(p.c.data != nullptr) << 1 |
           static_cast<int64_t>(p.pre != nullptr) << 2 | static_cast<int64_t>(device.host) << 3 |
           static_cast<int64_t>(p.activation) << 4);
  key.push_alignment(p.pre);
  key.push(p.batch, {A, B, OUT});
  return cached(key, [&] { return plan(problem, device); });
}

std::string describe(const Plan& plan) {
  const TileVariant& tile = TILES[plan.tile];
  std::string text = "tiles " + std::string(tile.name);
  if (plan.tile_n < tile.config.mma_n) {
    text += " of " + std::to_string(plan.tile_n) + " columns";
  }
  if (plan.overlaps) text += " and " + std::to_string(OVERLAP_COLS) + " more";
  text += " by " + std::to_string(plan.clusters * tile.config.cluster_m) + " blocks";
  if (plan.split_k_slices > 1) text += ", K in " + std::to_string(plan.split_k_slices) + " slices";
  const OperandDesc &a = plan.transposed ? plan.b : plan.a, &b = plan.transposed ? plan.a : plan.b;
  text += packed_text(a.packed, b.packed);
  return text + ": " + std::to_string(std::lround(plan.microseconds)) + " us expected";
}

size_t workspace_bytes(const Problem& problem, const Plan& plan) {
  return static_cast<size_t>(packed_bytes(problem.dtype, plan.a, plan.b) +
                             partial_bytes(problem, plan.split_k_slices));
}

}  // namespace smem::gemm::sm90
