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

/// How much longer the wgmmas of a tile take than their operations.
double wgmma_factor(const CostModel& model, const TileConfig& tile, bool tf32) {
  if (tile.consumer_warpgroups() == 1) return 1;
  if (tile.mma_n <= 64) return tf32 ? model.narrow_tf32_factor : model.narrow_factor;
  return tf32 && tile.mma_n <= 128 ? model.medium_tf32_factor : 1;
}

/// Nanoseconds of an SM to store the tiles of one round. `is_alone`: there is one round only.
double stores_ns(const CostModel& model, const Problem& problem, const Plan& p,
                 double blocks_per_sm, bool is_alone) {
  const TileConfig& tile = TILES[p.tile].config;
  const double rows = blocks_per_sm * tile.tile_m, elements = rows * p.tile_n;
  const bool is_direct = p.store_mode == StoreMode::direct;
  if (is_direct && problem.dtype == DType::f32) {
    return elements * (p.transposed ? model.ns_direct_tf32_transposed : model.ns_direct_tf32);
  }
  if (is_alone) return 0;
  const double subtiles = double(ceil_div(p.tile_n, STAGING_COLS));
  return is_direct ? rows * (model.ns_direct_row + model.ns_direct_subtile * subtiles)
         : p.store_mode == StoreMode::tma ? elements * model.ns_later_tma
                                          : 0;
}

/// The sectors of a matrix of out that are written in parts, counted once for each part. The ends
/// of a row are shared with the rows beside it. Transposed problems count them per element.
double split_sectors(const Problem& problem, const Plan& p) {
  if (p.transposed || !rows_split_sectors(problem)) return 0;
  const auto rows = static_cast<double>(problem.M), cols = static_cast<double>(problem.N);
  if (p.store_mode == StoreMode::tma) {
    // Every second row begins within a sector.
    return rows *
           std::ceil(cols / (problem.dtype == DType::f32 ? FLOAT_BOX_COLS : 8 << p.log2_box_vecs));
  }
  if (p.store_mode != StoreMode::direct) return 0;
  return 2 * rows * (p.overlaps ? 1 : std::ceil(cols / p.tile_n));
}

}  // namespace

bool is_costly(Activation activation) {
  return activation != Activation::none && activation != Activation::relu;
}

bool rows_split_sectors(const Problem& problem) {
  const int64_t sector = SECTOR_BYTES / static_cast<int64_t>(size_of(problem.dtype));
  return problem.out.row_stride % sector != 0;
}

int64_t k_tiles_of(const Problem& problem) { return ceil_div(problem.K, tile_k(problem.dtype)); }

int64_t work_tiles_of(const Problem& problem, const Plan& p) {
  const TileConfig& tile = TILES[p.tile].config;
  return ceil_div(problem.M, int64_t{tile.tile_m} * tile.cluster_m) * p.tile_columns(problem.N) *
         inner_batch_count(problem) * p.split_k_slices;
}

double operands_ns(const Problem& problem, const Plan& plan) {
  const auto M = static_cast<double>(problem.M), N = static_cast<double>(problem.N);
  const double elements = static_cast<double>(problem.K) *
                          (M * double(plan.a.batch_count) + N * double(plan.b.batch_count));
  return double(size_of(problem.dtype)) * elements / CostModel{}.load_bytes_per_ns;
}

double expected_ns(const Problem& problem, const Plan& p, int sm_count) {
  constexpr CostModel model;
  const TileConfig& tile = TILES[p.tile].config;
  const auto rounds = static_cast<double>(ceil_div(work_tiles_of(problem, p), int64_t{p.clusters}));

  // A k-tile of tf32 has half as many elements as one of 16-bit floats, at half the rate.
  const bool tf32 = problem.dtype == DType::f32;
  const double multiply = 2.0 * tile.tile_m * tile.mma_n * tile_k(DType::f16) / model.flops_per_ns *
                          wgmma_factor(model, tile, tf32);
  const int line = tile_k(problem.dtype);
  const double rows = aligned_rows(model, p.a, double(std::min<int64_t>(problem.M, tile.tile_m)),
                                   tile.tile_m, line) +
                      aligned_rows(model, p.b, p.loaded_columns(), p.tile_n, line) / tile.cluster_m;
  const auto blocks_per_sm =
      static_cast<double>(ceil_div(int64_t{p.clusters} * tile.cluster_m, sm_count));
  const double busy_per_k_tile =
      blocks_per_sm * overlapped(model.overlap, {multiply, rows * model.ns_per_row});
  const double latency = model.ns_load_latency / (tile.stages * tile.k_tiles_per_stage);
  const double chain =
      tile.mma_n <= 32 ? model.ns_per_narrow_wgmma_chain : model.ns_per_wgmma_chain;
  const double per_k_tile =
      std::max(chain, overlapped(model.latency_overlap, {latency, busy_per_k_tile}));
  const double per_element = p.store_mode == StoreMode::scalar ? model.ns_store_scalar
                             : p.store_mode == StoreMode::splitk_partials
                                 ? (tf32 ? model.ns_store_partial_tf32 : model.ns_store_partial)
                                 : model.ns_store_tma * (problem.pre ? 2 : 1);
  const double epilogue =
      stores_ns(model, problem, p, blocks_per_sm, rounds == 1) +
      double(tile.tile_m) / tile.consumer_warpgroups() * p.tile_n *
          (per_element + (is_costly(problem.activation) ? model.ns_activation : 0)) +
      double(p.tile_n) / (8 << p.log2_box_vecs) * model.ns_per_box;
  const auto k_tiles =
      static_cast<double>(p.split_k_slices > 1 ? p.accum_interval : k_tiles_of(problem));
  const double per_interval = tf32 ? model.ns_per_accum_interval_tf32 : model.ns_per_accum_interval;
  // In a batch of products with one k-tile each, loads are several work tiles ahead, and the other
  // blocks of the SM fill the gaps between them: 65,536 products of 16^3 take 124 us by 64x64_3cta
  // on an H200, where 122 are expected, and 16,384 of 32^3 37 (41).
  const bool hides_gaps =
      inner_batch_count(problem) > 1 && k_tiles == 1 && tile.min_blocks_per_sm > 1;
  const double busy =
      rounds * (k_tiles * per_k_tile + (k_tiles / p.accum_interval - 1) * per_interval + epilogue +
                (hides_gaps ? 0 : model.ns_per_work_tile));

  const auto M = static_cast<double>(problem.M), N = static_cast<double>(problem.N);
  const auto batch_count = static_cast<double>(inner_batch_count(problem));
  const double out_bytes = double(size_of(problem.dtype)) * M * N * batch_count;
  const double dram =
      operands_ns(problem, p) +
      (out_bytes + model.bytes_per_split_sector * batch_count * split_sectors(problem, p)) /
          model.store_bytes_per_ns;
  double other_launches = 0;
  if (p.split_k_slices > 1) {
    other_launches += model.ns_reduce_launch +
                      8 * M * N * batch_count * p.split_k_slices / model.partial_bytes_per_ns;
  }
  if (p.a.packed || p.b.packed) {
    const auto packed = static_cast<double>(packed_bytes(problem.dtype, p.a, p.b));
    other_launches += model.ns_pack_launch + 2 * packed / model.pack_bytes_per_ns;
  }
  const double accum_per_thread = double(tile.warpgroup_m()) * tile.tile_n / 128;
  const double launch = model.ns_launch + (tile.cluster_m > 1 ? model.ns_cluster_launch : 0) +
                        model.ns_code_per_accum * accum_per_thread;
  return launch + overlapped(model.overlap, {busy, dram}) + other_launches;
}

}  // namespace smem::gemm::sm90
