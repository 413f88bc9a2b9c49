#include "gemm/sm80/heuristics.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "gemm/accum_interval.h"
#include "gemm/batch.h"
#include "gemm/plan_cache.h"
#include "gemm/reduce_split_k.h"
#include "gemm/sm80/cost_model.h"
#include "gemm/swizzle_size.h"

namespace smem::gemm::sm80 {
namespace {

/// Rows of a loaded operand are less than 4 GiB apart; in elements, and with room for the padding
/// of packed rows.
int64_t longest_pitch(DType dtype) {
  return (int64_t{1} << 32) / static_cast<int64_t>(size_of(dtype)) - 1024;
}

Plan with_tile(const Problem& problem, const Device& device, Plan plan, int tile) {
  const TileConfig config = tile_config(tile, device.code_capability);
  const int64_t at_once =
      std::max<int64_t>(int64_t{device.sm_count} * blocks_per_sm(config, rates_of(device)), 1);
  plan.tile = tile;
  plan.swizzle_size = static_cast<int>(square_swizzle_size(at_once, config.tile_m, config.tile_n,
                                                           ceil_div(problem.M, config.tile_m)));
  const int64_t work_tiles = work_tiles_of(problem, plan, config);
  plan.blocks = config.load == LoadMode::unaligned ? std::min(work_tiles, at_once) : work_tiles;
  plan.microseconds = expected_ns(problem, plan, device) / 1000;
  return plan;
}

int64_t slice_length_of(const Problem& problem) {
  return accum_interval_of(problem) * line_elements(problem.dtype);
}

/// The parts of a plan that do not depend on the tile. `unaligned`: for tiles that load rows from
/// anywhere.
Plan untiled_plan(const Problem& problem, bool unaligned) {
  const auto describe = [&](Tensor tensor) {
    return describe_operand(problem, tensor, true, longest_pitch(problem.dtype), unaligned);
  };
  Plan plan{};
  plan.a = describe(A);
  plan.b = describe(B);
  plan.slice_length = slice_length_of(problem);
  plan.split_k_slices = static_cast<int>(ceil_div(problem.K, plan.slice_length));
  return plan;
}

}  // namespace

bool can_implement(const Problem& problem, const Device& device) {
  // Rows, columns and values of k are counted in 32 bits, up to a tile beyond the last.
  constexpr int64_t MOST_TILES = int64_t{1} << 30;
  const int64_t largest = std::min((int64_t{1} << 31) - 1024, longest_pitch(problem.dtype));
  if (problem.dtype == DType::f64) return false;
  if (!TENSOR_CORES.fit(device.code_capability, problem.dtype)) return false;
  if (problem.M < 1 || problem.N < 1 || problem.K < 1) return false;
  if (problem.M >= largest || problem.N >= largest || problem.K >= largest) return false;
  return ceil_div(problem.M, 16) * ceil_div(problem.N, 16) * inner_batch_count(problem) *
             ceil_div(problem.K, slice_length_of(problem)) <
         MOST_TILES;
}

bool has_tile(int tile, DType dtype, const Device& device) {
  if (device.host) return is_on_cpu(tile, dtype);
  if (device.code_capability < 80 && !TILES[tile].is_for_sm75) return false;
  const TileConfig config = tile_config(tile, device.code_capability);
  return static_cast<size_t>(config.shared_bytes()) <= device.shared_bytes;
}

Plan plan(const Problem& problem, const Device& device) {
  const auto is_unaligned = [](int tile) {
    return TILES[tile].config.load != LoadMode::multistage;
  };
  if (const int tile = problem.variant; tile >= 0) {
    return with_tile(problem, device, untiled_plan(problem, is_unaligned(tile)), tile);
  }
  const Plan aligned = untiled_plan(problem, false), unaligned = untiled_plan(problem, true);
  const bool packs = aligned.a.packed || aligned.b.packed;
  Plan best{};
  for (int tile = 0; tile < TILE_COUNT; ++tile) {
    if (!has_tile(tile, problem.dtype, device)) continue;
    if (TILES[tile].config.load == LoadMode::unaligned && !packs) continue;
    const Plan next = with_tile(problem, device, is_unaligned(tile) ? unaligned : aligned, tile);
    if (best.microseconds == 0 || next.microseconds < best.microseconds) best = next;
  }
  return best;
}

const Plan& cached_plan(const Problem& problem, const Device& device) {
  const Problem& p = problem;
  PlanKey<16 + 3 * MAX_RANK> key;
  for (const int64_t number :
       {p.M, p.N, p.K, int64_t{p.variant}, int64_t{device.sm_count}, int64_t{device.capability},
        int64_t{device.code_capability}, int64_t{device.host},
        static_cast<int64_t>(device.shared_bytes), static_cast<int64_t>(p.dtype)}) {
    key.push(number);
  }
  for (const Operand* operand : {&p.a, &p.b}) key.push(*operand);
  key.push(p.batch, {A, B});
  return cached(key, [&] { return plan(problem, device); });
}

std::string describe(const Plan& plan) {
  std::string text = "tiles " + std::string(TILES[plan.tile].name);
  if (plan.split_k_slices > 1) {
    text += ", K in " + std::to_string(plan.split_k_slices) + " slices";
  }
  text += packed_text(plan.a.packed, plan.b.packed);
  return text + ": " + std::to_string(std::lround(plan.microseconds)) + " us expected";
}

size_t workspace_bytes(const Problem& problem, const Plan& plan) {
  return static_cast<size_t>(packed_bytes(problem.dtype, plan.a, plan.b) +
                             partial_bytes(problem, plan.split_k_slices));
}

}  // namespace smem::gemm::sm80
