#include "gemm/sm90/heuristics.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>

#include "gemm/plan_cache.h"
#include "gemm/sm90/batch.h"
#include "gemm/sm90/cost_model.h"
#include "gemm/sm90/reduce_split_k.h"

namespace smem::gemm::sm90 {
namespace {

/// TMA's alignment of 16 bytes, in elements.
int64_t vec_elements(const Problem& problem) {
  return 16 / static_cast<int64_t>(size_of(problem.dtype));
}

bool is_aligned(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer) % 16 == 0; }

/// Whether all matrices of a batch are aligned if the first one is.
bool batch_is_aligned(const Problem& problem, Tensor tensor) {
  const auto& batch = problem.batch;
  const int64_t vec = vec_elements(problem);
  for (int d = 0; d < batch.rank; ++d) {
    if (batch.stride[tensor][d] % vec != 0 || batch.stride[tensor][d] < 0) return false;
  }
  return true;
}

/// `mn_size` is M or N. Float32 operands are packed along K, because wgmma reads only K-major tf32
/// from shared memory.
OperandDesc describe_operand(const Problem& problem, Tensor tensor, const void* data,
                             int64_t mn_size, int64_t mn_stride, int64_t k_stride,
                             bool may_be_mn_major = true) {
  const int64_t K = problem.K, vec = vec_elements(problem);
  const bool k_major = k_stride == 1 || K == 1, mn_major = mn_stride == 1 || mn_size == 1;
  const bool aligned = is_aligned(data) && batch_is_aligned(problem, tensor);
  const auto fits = [&](int64_t outer_size, int64_t outer_stride) {
    return outer_size == 1 || (outer_stride % vec == 0 && outer_stride > 0);
  };
  OperandDesc desc{};
  desc.batched = inner_batch_stride(problem, tensor) != 0;
  desc.batch_count = desc.batched ? inner_batch_count(problem) : 1;
  const bool k_in_place = aligned && k_major && fits(mn_size, mn_stride);
  const bool mn_in_place = may_be_mn_major && aligned && mn_major && fits(K, k_stride);
  desc.packed = !k_in_place && !mn_in_place;
  const bool packs_along_k = k_major || !mn_major || problem.dtype == DType::f32;
  desc.major = k_in_place || (desc.packed && packs_along_k) ? Major::K : Major::MN;
  desc.inner_size = desc.major == Major::K ? K : mn_size;
  desc.outer_size = desc.major == Major::K ? mn_size : K;
  if (desc.packed) {
    // TMA takes twice as long for rows that begin within a cache line, so long rows are padded.
    const int64_t line = tile_k(problem.dtype);
    desc.outer_stride = round_up(desc.inner_size, desc.inner_size >= 8 * line ? line : vec);
    desc.batch_stride = round_up(desc.outer_size * desc.outer_stride, 128);
  } else {
    // A single row has no stride of its own, but the tensor map needs a valid one.
    desc.outer_stride = desc.outer_size == 1     ? round_up(desc.inner_size, vec)
                        : desc.major == Major::K ? mn_stride
                                                 : k_stride;
    desc.batch_stride = desc.batched ? inner_batch_stride(problem, tensor) : vec;
  }
  return desc;
}

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
  const int64_t vec = vec_elements(problem);
  const bool fits_tma = problem.N % vec == 0 && problem.out.row_stride % vec == 0 &&
                        problem.out.row_stride > 0 && batch_is_aligned(problem, OUT) &&
                        is_aligned(problem.out.data) && is_aligned(problem.pre);
  return fits_tma ? StoreMode::tma : problem.pre ? StoreMode::scalar : StoreMode::direct;
}

/// The accumulation interval in k-tiles: less than all of K for outputs so narrow that their tiles
/// alone cannot fill the SMs. It is a function of N, K and the dtype alone, because M must not
/// change the bits. More intervals gain more if M is small and cost more if M is large, because
/// their results are added: 64 x 256 x 6144 takes 13.1 us with one interval and 6.5 us with eight,
/// 2048 x 128 x 6144 takes 13.7 us and 16.6 us. Wider outputs gain less, unless K is long: 64 x
/// 1024 x 28672 takes 53 us and 22 us, 8192 x 1024 x 28672 takes 599 us and 687 us. The number of
/// intervals is a power of two, as the number of tiles often is; together they fill nearly all SMs
/// then: 2048 x 200 x 9000 takes 43 us with nine intervals and 33 us with eight.
int64_t accum_interval_of(const Problem& problem) {
  constexpr int64_t NARROW_N = 256, NARROW_K = 6144, SMALLEST_INTERVAL = 560;  // elements
  constexpr int64_t WIDE_N = 2048, WIDE_K_PER_N = 24;
  constexpr int64_t MOST_INTERVALS = 128, MOST_COLUMNS = 8192;  // of all intervals together
  const int64_t N = problem.N, K = problem.K, k_tiles = k_tiles_of(problem);
  const bool is_narrow = N <= NARROW_N;
  if (is_narrow ? K < NARROW_K : N > WIDE_N || K < WIDE_K_PER_N * N) return k_tiles;
  // Fitted to a sweep of 433 narrow problems over the number of intervals.
  const auto fitted = static_cast<int64_t>(3.3 * std::pow(double(K) / double(N), 0.4));
  // 64 columns for each of 128 SMs fill them.
  const int64_t filling = is_narrow ? MOST_INTERVALS : MOST_COLUMNS / N;
  const auto most =
      static_cast<uint64_t>(std::min({MOST_INTERVALS, K / SMALLEST_INTERVAL, fitted, filling}));
  return round_up(ceil_div(k_tiles, static_cast<int64_t>(std::bit_floor(most))), 2);
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

/// The parts of a plan that do not depend on the tile.
Plan untiled_plan(const Problem& problem) {
  const Operand &a = problem.a, &b = problem.b;
  Plan p{};
  const auto describe_a = [&](bool may_be_m_major) {
    return describe_operand(problem, A, a.data, problem.M, a.row_stride, a.col_stride,
                            may_be_m_major);
  };
  const auto describe_b = [&](bool may_be_n_major) {
    return describe_operand(problem, B, b.data, problem.N, b.col_stride, b.row_stride,
                            may_be_n_major);
  };
  p.a = describe_a(true);
  p.b = describe_b(true);
  if (problem.dtype == DType::f32 && p.b.major == Major::MN) {
    // For tf32, one operand may be MN-major, and it must be the first (mainloop_tf32_rs.h).
    const bool a_is_smaller = p.a.inner_size * p.a.batch_count <= p.b.inner_size * p.b.batch_count;
    if (p.a.major == Major::MN) (a_is_smaller ? p.a = describe_a(false) : p.b = describe_b(false));
    p.transposed = p.b.major == Major::MN;
    if (p.transposed) std::swap(p.a, p.b);
  }
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

Plan with_best_tile_n(const Problem& problem, const Device& device, const Plan& untiled,
                      int index) {
  constexpr std::array<int, TILE_COUNT> FALLBACKS = fallback_indices();
  const EpilogueKind epilogue = epilogue_kind_of(problem, device, untiled);
  const bool is_special = epilogue == EpilogueKind::tma || epilogue == EpilogueKind::direct;
  if (!device.host && !is_special) index = FALLBACKS[index];
  const TileConfig& tile = TILES[index].config;
  // Each block of a cluster loads as many columns of B as the others, in whole swizzle atoms.
  const int unit = 8 * tile.cluster_m;
  const int widest = static_cast<int>(std::min<int64_t>(tile.mma_n, round_up(problem.N, unit)));
  Plan best = with_tile_n(problem, device, untiled, index, widest);
  // A smaller tile_n is faster if it spreads the work evenly over the SMs. Candidates fill all SMs
  // 1 to 6 times; beside each, the next larger one that needs the fewest TMA stores.
  constexpr int MOST_ROUNDS = 6, SMALLEST_TILE_N = 32;
  const int64_t tiles_per_column =
      work_tiles_of(problem, best) / ceil_div(problem.N, int64_t{widest});
  const int64_t resident = int64_t{tile.min_blocks_per_sm} * device.sm_count / tile.cluster_m;
  for (int rounds = 1; rounds <= MOST_ROUNDS; ++rounds) {
    const int64_t columns = rounds * resident / tiles_per_column;
    if (columns == 0) continue;
    const int64_t even = round_up(ceil_div(problem.N, columns), unit);
    for (const int64_t tile_n : {even, round_up(even, STAGING_COLS)}) {
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
bool is_excluded(const Problem& problem, const Plan& p) {
  const TileConfig& tile = TILES[p.tile].config;
  // For tf32, several blocks per SM are faster only in a batch of tiles with a single k-tile:
  // 16,384 problems of 32^3 take 87 us with three blocks per SM and 114 us with one, but 8192
  // problems of 48^3 take 75 us and 66 us.
  const bool is_one_k_tile = problem.M <= 64 && problem.N <= 64 && k_tiles_of(problem) == 1;
  if (tile.min_blocks_per_sm > 1 && problem.dtype == DType::f32 && !is_one_k_tile) return true;
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
  return ceil_div(problem.M, 64) * ceil_div(problem.N, 32) * inner_batch_count(problem) <
         MOST_TILES;
}

bool has_tile(int tile, DType dtype, const Device& device) {
  const TileVariant& variant = TILES[tile];
  if (device.host) {
    return variant.on_cpu == OnCpu::all || (variant.on_cpu == OnCpu::bf16 && dtype == DType::bf16);
  }
  return dtype != DType::f32 || variant.has_tf32;
}

Plan plan(const Problem& original, const Device& device) {
  const Plan untiled = untiled_plan(original);
  const Problem problem = untiled.transposed ? transposed(original) : original;
  if (problem.variant >= 0) return with_tile(problem, device, untiled, problem.variant);
  // These tiles are never excluded and are built for all dtypes.
  constexpr int DEFAULT = tile_index("128x256_cluster2"), CPU_DEFAULT = tile_index("64x64");
  const int first = device.host ? CPU_DEFAULT : DEFAULT;
  Plan best = with_tile(problem, device, untiled, first);
  for (int tile = 0; tile < TILE_COUNT; ++tile) {
    if (tile == first || !has_tile(tile, problem.dtype, device)) continue;
    const Plan next = with_tile(problem, device, untiled, tile);
    if (next.microseconds < best.microseconds && !is_excluded(problem, next)) best = next;
  }
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
  for (const Operand* operand : {&p.a, &p.b, &p.out}) {
    key.push(operand->row_stride);
    key.push(operand->col_stride);
    key.push_alignment(operand->data);
  }
  key.push(static_cast<int64_t>(size_of(p.dtype)));
  key.push(static_cast<int64_t>(p.out_dtype == p.dtype) |
           static_cast<int64_t>(p.c.data != nullptr) << 1 |
           static_cast<int64_t>(p.pre != nullptr) << 2 | static_cast<int64_t>(device.host) << 3 |
           static_cast<int64_t>(p.activation) << 4);
  key.push_alignment(p.pre);
  for (int d = 0; d < p.batch.rank; ++d) {
    key.push(p.batch.size[d]);
    for (const Tensor tensor : {A, B, OUT}) key.push(p.batch.stride[tensor][d]);
  }
  return cached(key, [&] { return plan(problem, device); });
}

std::string describe(const Plan& plan) {
  const TileVariant& tile = TILES[plan.tile];
  std::string text = "tiles " + std::string(tile.name);
  if (plan.tile_n < tile.config.mma_n) {
    text += " of " + std::to_string(plan.tile_n) + " columns";
  }
  text += " by " + std::to_string(plan.clusters * tile.config.cluster_m) + " blocks";
  if (plan.split_k_slices > 1) text += ", K in " + std::to_string(plan.split_k_slices) + " chunks";
  if (plan.a.packed || plan.b.packed) {
    const bool is_a = plan.transposed ? plan.b.packed : plan.a.packed;
    text += plan.a.packed && plan.b.packed ? ", a and b" : is_a ? ", a" : ", b";
    text += " packed first";
  }
  return text + ": " + std::to_string(std::lround(plan.microseconds)) + " us expected";
}

size_t workspace_bytes(const Problem& problem, const Plan& plan) {
  int64_t bytes = packed_bytes(problem, plan);
  if (plan.split_k_slices > 1) {
    bytes += inner_batch_count(problem) * plan.split_k_slices * problem.M *
             partial_pitch(problem.N) * int64_t{sizeof(float)};
  }
  return static_cast<size_t>(bytes);
}

}  // namespace smem::gemm::sm90
