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

double expected_ns(const Problem& problem, const Plan& p, const Device& device) {
  constexpr CostModel model;
  const GpuRates& rates = rates_of(device);
  const TileConfig tile = tile_config(p.tile, device.code_capability);
  const auto size = static_cast<double>(size_of(problem.dtype));
  const auto matrices = static_cast<double>(inner_batch_count(problem));
  const double tiles =
      static_cast<double>(ceil_div(problem.M, tile.tile_m) * ceil_div(problem.N, tile.tile_n)) *
      matrices;
  const double blocks = tiles * p.split_k_slices;
  const auto k_tiles = static_cast<double>(
      ceil_div(std::min(problem.K, p.slice_length), tile.tile_k(size_of(problem.dtype))));

  // Per k-tile of a block, in cycles of the SM. Two vectors along K are one mma in any dtype; an
  // mma of tf32 has half the products, at half the rate.
  const double k_steps = tile.vecs_k / 2.0, warps = tile.warps_m * tile.warps_n;
  const double mma =
      k_steps * tile.tile_m / 16 * tile.tile_n / 8 * rates.cycles_per_mma / std::min(warps, 4.0);
  const double fragments = k_steps * warps * (tile.warp_m() + tile.warp_n()) * 32;
  const double stage = tile.stage_bytes();
  const double moved = tile.unaligned
                           ? model.copy_factor * tile.raw_stage_bytes() + model.shift_factor * stage
                           : model.copy_factor * stage;
  const double shared = (moved + fragments) / model.shared_bytes_per_cycle;
  const double busy = std::max(mma, shared);
  const double shift =
      tile.unaligned ? model.cycles_per_shift * stage / VEC_BYTES / tile.threads() : 0;
  const double alone = std::max({busy, model.cycles_latency / (tile.stages - 1),
                                 model.cycles_per_step * k_steps + shift}) +
                       model.cycles_per_barrier;

  const bool is_odd = p.split_k_slices == 1 && !has_whole_rows(problem);
  const double store = (is_odd ? model.cycles_per_odd_element : model.cycles_per_element) *
                       tile.tile_m * tile.tile_n;
  const double shortest = k_tiles * alone + store + model.cycles_fill;
  const auto cycles_of = [&](double resident) {
    return std::max(resident * (k_tiles * busy + store), shortest);
  };
  const double resident = blocks_per_sm(tile, rates);
  const double per_sm = std::ceil(blocks / std::max(1, device.sm_count));
  const double full_rounds = std::ceil(per_sm / resident) - 1;
  const double cycles =
      full_rounds * cycles_of(resident) + cycles_of(per_sm - full_rounds * resident);
  const double compute = cycles / rates.clock;

  const auto M = static_cast<double>(problem.M), N = static_cast<double>(problem.N);
  const auto K = static_cast<double>(problem.K);
  const double bytes = size * (static_cast<double>(p.a.batch_count) * M * K +
                               static_cast<double>(p.b.batch_count) * N * K + matrices * M * N);
  const double dram =
      bytes / rates.dram_bytes_per_ns * (tile.unaligned ? model.unaligned_dram_factor : 1);
  double others = 0;
  if (p.split_k_slices > 1) {
    const double partials = 8 * matrices * p.split_k_slices * M * N;  // written and read
    others += model.ns_next_launch + partials / rates.dram_bytes_per_ns;
  }
  if (p.a.packed || p.b.packed) {
    const auto packed = static_cast<double>(packed_bytes(problem.dtype, p.a, p.b));
    others += model.ns_next_launch + 2 * packed * model.pack_factor / rates.dram_bytes_per_ns;
  }
  return model.ns_launch + std::max(compute, dram) + (1 - model.overlap) * std::min(compute, dram) +
         others;
}

}  // namespace smem::gemm::sm80
