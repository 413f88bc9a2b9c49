#include "gemm/sm80/cost_model.h"

#include <algorithm>
#include <cmath>

#include "gemm/batch.h"

namespace smem::gemm::sm80 {

int blocks_per_sm(const TileConfig& tile, const GpuRates& rates) {
  constexpr int RESERVED_BYTES = 1024;  // by CUDA, per block
  const int fit = rates.shared_bytes_per_sm / (tile.shared_bytes() + RESERVED_BYTES);
  return std::clamp(fit, 1, tile.min_blocks_per_sm);
}

int64_t work_tiles_of(const Problem& problem, const Plan& p, const TileConfig& tile) {
  return ceil_div(problem.M, tile.tile_m) * ceil_div(problem.N, tile.tile_n) *
         inner_batch_count(problem) * p.split_k_slices;
}

namespace {

/// What a work tile takes of its SM.
struct TileCost {
  double busy;       ///< cycles that no other block can use
  double shortest;   ///< cycles from its first instruction to its last, alone on the SM
  double first = 0;  ///< cycles before the first of a block's work tiles
};

/// Cycles until an SM has computed its share of the work tiles, as many at a time as it holds.
double cycles_of(const TileCost& tile, int64_t work_tiles, double resident, const Device& device) {
  const auto cycles = [&](double at_once) { return std::max(at_once * tile.busy, tile.shortest); };
  const auto per_sm = static_cast<double>(ceil_div(work_tiles, std::max(1, device.sm_count)));
  const double full_rounds = std::ceil(per_sm / resident) - 1;
  return tile.first + full_rounds * cycles(resident) + cycles(per_sm - full_rounds * resident);
}

/// What a tile that loads through stages needs in any LoadMode. Two vectors along K are one mma in
/// any dtype; an mma of tf32 has half the products, at half the rate.
struct StagedTile {
  double k_tiles;
  double k_steps;         ///< mma along K, per k-tile
  double mma;             ///< cycles of the SM, per k-tile
  double fragment_bytes;  ///< read from shared memory, per k-tile
  double store;           ///< cycles of the SM

  StagedTile(const Problem& problem, const Plan& p, const TileConfig& tile, const GpuRates& rates) {
    constexpr CostModel model;
    k_tiles = static_cast<double>(
        ceil_div(std::min(problem.K, p.slice_length), tile.tile_k(size_of(problem.dtype))));
    k_steps = tile.vecs_k / 2.0;
    const double warps = tile.warps_m * tile.warps_n;
    mma =
        k_steps * tile.tile_m / 16 * tile.tile_n / 8 * rates.cycles_per_mma / std::min(warps, 4.0);
    fragment_bytes = k_steps * warps * (tile.warp_m() + tile.warp_n()) * 32;
    store = model.cycles_per_element * tile.tile_m * tile.tile_n;
  }
};

/// A tile of LoadMode::multistage.
TileCost multistage_tile(const Problem& problem, const Plan& p, const TileConfig& tile,
                         const GpuRates& rates) {
  constexpr CostModel model;
  const StagedTile t(problem, p, tile, rates);
  const double copied = model.copy_factor * tile.stage_bytes();
  const double shared = (copied + t.fragment_bytes) / model.shared_bytes_per_cycle;
  const double busy = std::max(t.mma, shared);
  const double alone = std::max({busy, model.cycles_latency / (tile.stages - 1),
                                 model.cycles_per_step * t.k_steps}) +
                       model.cycles_per_barrier;
  return {t.k_tiles * busy + t.store, t.k_tiles * alone + t.store + model.cycles_fill};
}

/// A tile of LoadMode::unaligned: its stages are copied as they are in memory and then shifted, by
/// warps of their own if there are loader warps. Floats need no shift.
TileCost unaligned_tile(const Problem& problem, const Plan& p, const TileConfig& tile,
                        const GpuRates& rates) {
  constexpr CostModel model;
  const StagedTile t(problem, p, tile, rates);
  const bool tf32 = size_of(problem.dtype) == 4;
  const double stage = tile.stage_bytes(), raw_stage = tile.raw_stage_bytes();
  const double moved = tf32 ? model.raw_copy_factor_tf32 * raw_stage
                            : model.copy_factor * raw_stage + model.shift_factor * stage;
  // Rows of 16 bits along M or N, and of floats along K, are short.
  const bool a_mn_major = p.a.major == Major::MN, b_mn_major = p.b.major == Major::MN;
  const int mn_major_rows = (a_mn_major + b_mn_major) * tile.tile_k(2);
  const int k_major_rows = (a_mn_major ? 0 : tile.tile_m) + (b_mn_major ? 0 : tile.tile_n);
  const double short_rows = tf32 ? model.cycles_per_k_major_row_tf32 * k_major_rows
                                 : model.cycles_per_mn_major_row * mn_major_rows;
  const double shared = (moved + t.fragment_bytes) / model.shared_bytes_per_cycle;
  const double busy =
      tf32 ? std::max(t.mma, shared + short_rows) : std::max(t.mma, shared) + short_rows;
  const double shift =
      tf32 ? 0 : model.cycles_per_shift * stage / VEC_BYTES / tile.loader_threads();
  const double steps = model.cycles_per_step * t.k_steps;
  const double chain = tile.loader_warps > 0 ? std::max(shift, steps) : shift + steps;
  const double latency =
      tf32 ? model.cycles_unaligned_latency_tf32 : model.cycles_unaligned_latency;
  const double alone =
      std::max({busy, latency / (tile.stages - 1), chain}) + model.cycles_per_barrier;
  return {t.k_tiles * busy + t.store + model.cycles_per_work_tile, t.k_tiles * alone + t.store,
          model.cycles_unaligned_fill};
}

/// The loads of a warp for its fragments of an operand and one mma step.
struct LdgLoads {
  double count;   ///< of 32 lanes
  double cycles;  ///< of the SM
};

LdgLoads ldg_loads(const Problem& problem, Tensor tensor, const OperandDesc& desc, int warp_mn) {
  const Operand& operand = tensor == A ? problem.a : problem.b;
  const int64_t mn = tensor == A ? problem.M : problem.N;
  const bool has_pairs = desc.major == Major::K && desc.outer_stride % 2 == 0 &&
                         problem.K % 2 == 0 && reinterpret_cast<uintptr_t>(operand.data) % 4 == 0;
  const double words = warp_mn / 4.0 * (size_of(problem.dtype) == 4 || has_pairs ? 1 : 2);
  const double count =
      words * std::min(1.0, static_cast<double>(std::max<int64_t>(mn, 8)) / warp_mn);
  constexpr CostModel model;
  const double factor = desc.major == Major::K ? 1 : model.mn_major_factor;
  return {count, count * factor * model.cycles_per_ldg};
}

/// A tile of LoadMode::ldg.
TileCost ldg_tile(const Problem& problem, const Plan& p, const TileConfig& tile) {
  constexpr CostModel model;
  const int64_t mma_k = 2 * vec_elements(problem.dtype);
  const int64_t steps = ceil_div(std::min(problem.K, p.slice_length), mma_k);
  const double warps = tile.warps_m * tile.warps_n;
  const LdgLoads a = ldg_loads(problem, A, p.a, tile.warp_m()),
                 b = ldg_loads(problem, B, p.b, tile.warp_n());
  const int mmas = tile.warp_m() / 16 * tile.warp_n() / 8;
  const double step = warps * (a.cycles + b.cycles + mmas * model.cycles_per_ldg_mma);
  // Neighbouring tiles write to the same sectors. The first tile of a row has one neighbour less.
  constexpr int64_t SECTOR_BYTES = 32;
  const auto element_bytes = static_cast<int64_t>(size_of(problem.dtype));
  const bool splits_rows = p.split_k_slices == 1 && problem.N * element_bytes % SECTOR_BYTES != 0;
  const double first_tiles = 1.0 / static_cast<double>(ceil_div(problem.N, tile.tile_n));
  const double split_rows = splits_rows ? tile.tile_m * (1 - first_tiles) : 0;
  const double store = model.cycles_per_ldg_element * tile.tile_m * tile.tile_n +
                       model.cycles_per_split_row * split_rows;
  const auto all_steps = static_cast<double>(steps);
  const auto iterations = static_cast<double>(ceil_div(steps, tile.ldg_steps()));
  const double waits = iterations * model.cycles_ldg_latency +
                       all_steps * (a.count + b.count) * model.cycles_per_pending_ldg;
  return {all_steps * step + store, waits + store + model.cycles_ldg_fill};
}

}  // namespace

double expected_ns(const Problem& problem, const Plan& p, const Device& device) {
  constexpr CostModel model;
  const GpuRates& rates = rates_of(device);
  const TileConfig tile = tile_config(p.tile, device.code_capability);
  const bool is_ldg = tile.load == LoadMode::ldg;
  const bool is_unaligned = tile.load == LoadMode::unaligned;
  const TileCost cost = is_ldg         ? ldg_tile(problem, p, tile)
                        : is_unaligned ? unaligned_tile(problem, p, tile, rates)
                                       : multistage_tile(problem, p, tile, rates);
  const double compute =
      cycles_of(cost, work_tiles_of(problem, p, tile), blocks_per_sm(tile, rates), device) /
      rates.clock;

  const auto matrices = static_cast<double>(inner_batch_count(problem));
  const auto M = static_cast<double>(problem.M), N = static_cast<double>(problem.N);
  const auto K = static_cast<double>(problem.K);
  const auto size = static_cast<double>(size_of(problem.dtype));
  const double a_bytes = size * static_cast<double>(p.a.batch_count) * M * K,
               b_bytes = size * static_cast<double>(p.b.batch_count) * N * K;
  const double dram_factor = !is_unaligned ? 1
                             : size == 4   ? model.unaligned_dram_factor_tf32
                                           : model.unaligned_dram_factor;
  const double dram =
      (a_bytes + b_bytes + size * matrices * M * N) / rates.dram_bytes_per_ns * dram_factor;
  double others = 0;
  if (p.split_k_slices > 1) {
    const double partials = 8 * matrices * p.split_k_slices * M * N;  // written and read
    others += model.ns_reduce_launch + partials / rates.dram_bytes_per_ns;
  }
  if (p.a.packed || p.b.packed) {
    const auto packed = static_cast<double>(packed_bytes(problem.dtype, p.a, p.b));
    others += model.ns_pack_launch + 2 * packed * model.pack_factor / rates.dram_bytes_per_ns;
  }
  return model.ns_launch + overlapped(model.overlap, {compute, dram}) + others;
}

}  // namespace smem::gemm::sm80
