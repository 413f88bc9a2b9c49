#include "gemm/sm90/cost_model.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "gemm/batch.h"
#include "gemm/gpu_rates.h"

namespace smem::gemm::sm90 {
namespace {

/// The cost of loading a k-tile of `rows` rows of A (or columns of B), in rows of 128 bytes that
/// are aligned to a cache line of `line` elements. Tiles begin `step` rows apart.
double aligned_rows(const CostModel& model, const OperandDesc& desc, double rows, int64_t step,
                    int line) {
  const bool k_major = desc.major == Major::K;
  const int64_t offsets = desc.outer_stride | (k_major ? 0 : step), sector = line / 4;
  const double factor = offsets % line == 0     ? 1
                        : offsets % sector == 0 ? model.two_lines_factor
                                                : model.sectors_factor;
  return (k_major ? rows : std::ceil(rows / line) * line) * factor;
}

}  // namespace

bool is_costly(Activation activation) {
  return activation != Activation::none && activation != Activation::relu;
}

int64_t k_tiles_of(const Problem& problem) { return ceil_div(problem.K, tile_k(problem.dtype)); }

int64_t work_tiles_of(const Problem& problem, const Plan& p) {
  const TileConfig& tile = TILES[p.tile].config;
  return ceil_div(problem.M, int64_t{tile.tile_m} * tile.cluster_m) *
         ceil_div(problem.N, int64_t{p.tile_n}) * inner_batch_count(problem) * p.split_k_slices;
}

double operands_ns(const Problem& problem, const Plan& plan) {
  const auto M = static_cast<double>(problem.M), N = static_cast<double>(problem.N);
  const double elements = static_cast<double>(problem.K) *
                          (M * double(plan.a.batch_count) + N * double(plan.b.batch_count));
  return double(size_of(problem.dtype)) * elements / CostModel{}.dram_bytes_per_ns;
}

double expected_ns(const Problem& problem, const Plan& p, int sm_count) {
  constexpr CostModel model;
  const TileConfig& tile = TILES[p.tile].config;
  const auto rounds = static_cast<double>(ceil_div(work_tiles_of(problem, p), int64_t{p.clusters}));

  // A k-tile of tf32 has half as many elements as one of 16-bit floats, at half the rate.
  const bool tf32 = problem.dtype == DType::f32;
  const double narrow_factor = tile.consumer_warpgroups() == 1 ? 1
                               : tile.mma_n <= 64
                                   ? (tf32 ? model.narrow_tf32_factor : model.narrow_factor)
                               : tile.mma_n <= 128 && tf32 ? model.medium_tf32_factor
                                                           : 1;
  const double multiply =
      2.0 * tile.tile_m * tile.mma_n * tile_k(DType::f16) / model.flops_per_ns * narrow_factor;
  const int line = tile_k(problem.dtype);
  const double rows = aligned_rows(model, p.a, double(std::min<int64_t>(problem.M, tile.tile_m)),
                                   tile.tile_m, line) +
                      aligned_rows(model, p.b, p.tile_n, p.tile_n, line) / tile.cluster_m;
  const auto blocks_per_sm =
      static_cast<double>(ceil_div(int64_t{p.clusters} * tile.cluster_m, sm_count));
  const double per_k_tile = std::max(
      {model.ns_per_wgmma_chain, model.ns_load_latency / (tile.stages * tile.k_tiles_per_stage),
       blocks_per_sm * overlapped(model.overlap, {multiply, rows * model.ns_per_row})});
  // In the first round all blocks store at the same time, which takes equally long with all tiles.
  const bool stores_direct = p.store_mode == StoreMode::direct && !tf32 && rounds > 1;
  const double per_element = p.store_mode == StoreMode::scalar ? model.ns_store_scalar
                             : p.store_mode == StoreMode::splitk_partials
                                 ? (tf32 ? model.ns_store_partial_tf32 : model.ns_store_partial)
                                 : model.ns_store_tma * (problem.pre ? 2 : 1);
  const double subtiles = double(ceil_div(p.tile_n, STAGING_COLS));
  const double plain_stores =
      blocks_per_sm * tile.tile_m * (model.ns_direct_row + model.ns_direct_subtile * subtiles);
  const double epilogue =
      (stores_direct ? plain_stores : 0) +
      double(tile.tile_m) / tile.consumer_warpgroups() * p.tile_n *
          (per_element + (is_costly(problem.activation) ? model.ns_activation : 0)) +
      double(p.tile_n) / (8 << p.log2_box_vecs) * model.ns_per_box;
  const auto k_tiles =
      static_cast<double>(p.split_k_slices > 1 ? p.accum_interval : k_tiles_of(problem));
  const double per_interval = tf32 ? model.ns_per_accum_interval_tf32 : model.ns_per_accum_interval;
  const double busy =
      rounds * (k_tiles * per_k_tile + (k_tiles / p.accum_interval - 1) * per_interval + epilogue +
                model.ns_per_work_tile);

  const auto M = static_cast<double>(problem.M), N = static_cast<double>(problem.N);
  const auto batch_count = static_cast<double>(inner_batch_count(problem));
  const double out_bytes = double(size_of(problem.dtype)) * M * N * batch_count;
  const double dram = operands_ns(problem, p) + out_bytes / model.dram_bytes_per_ns;
  double other_launches = 0;
  if (p.split_k_slices > 1) {
    other_launches +=
        model.ns_next_launch + 8 * M * N * batch_count * p.split_k_slices / model.dram_bytes_per_ns;
  }
  if (p.a.packed || p.b.packed) {
    const auto packed = static_cast<double>(packed_bytes(problem.dtype, p.a, p.b));
    other_launches += model.ns_next_launch + 2 * packed / model.pack_bytes_per_ns;
  }
  const double accum_per_thread = double(tile.warpgroup_m()) * tile.tile_n / 128;
  const double launch = model.ns_launch + (tile.cluster_m > 1 ? model.ns_cluster_launch : 0) +
                        model.ns_code_per_accum * accum_per_thread;
  return launch + overlapped(model.overlap, {busy, dram}) + other_launches;
}

}  // namespace smem::gemm::sm90
