#include "gemm/simt/heuristics.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <string>

#include "gemm/operand_desc.h"
#include "gemm/plan_cache.h"
#include "gemm/simt/cost_model.h"
#include "gemm/simt/operand_layout.h"
#include "gemm/swizzle_size.h"

namespace smem::gemm::simt {
namespace {

/// Packing and split-K must predict less than this share of the time without them.
constexpr double MIN_GAIN = 0.97;

static_assert(TILES[TILE_16X16].shared_bytes(8) <= DEFAULT_SHARED_BYTES, "16x16 fits every GPU");
static_assert(has_kernel(TILE_16X16, LayoutPair::unknown, 4) &&
                  has_kernel(TILE_16X16, LayoutPair::unknown, 8),
              "16x16 takes every problem");

/// The best plan with this tile, whose operands its kernel for `pair` can load.
SimtPlan plan_with_tile(const Problem& problem, const Device& device, int index, LayoutPair pair,
                        double bytes) {
  const TileConfig& tile = TILES[index];
  const size_t size = size_of(problem.dtype);
  SimtPlan unsplit;
  unsplit.tile = index;
  unsplit.layouts = pair;
  unsplit.split_k = {.unit = PartialUnit::none, .slices = 1, .slice_length = problem.K};
  unsplit.swizzle_size = static_cast<unsigned>(
      square_swizzle_size(int64_t{tile.min_blocks_per_sm} * std::max(1, device.sm_count),
                          tile.rows(), tile.cols(size), ceil_div(problem.M, tile.rows())));
  unsplit.microseconds = expected_ns(problem, device, unsplit, bytes) / 1000;
  if (pair == LayoutPair::ldg) return unsplit;

  SimtPlan best = unsplit;
  const auto consider = [&](SimtPlan next) {
    next.microseconds = expected_ns(problem, device, next, bytes) / 1000;
    if (next.microseconds < MIN_GAIN * best.microseconds) best = next;
  };
  SimtPlan packed = unsplit;
  if (has_kernel(index, LayoutPair::both_mn_major, size) && pair != LayoutPair::both_mn_major &&
      problem.batch.rank <= 1 && problem.K > 0) {
    packed.pack_a = !supports(problem, layout_of_a(problem), LoadMode::vec16_along_mn);
    packed.pack_b = !supports(problem, layout_of_b(problem), LoadMode::vec16_along_mn);
    packed.layouts = LayoutPair::both_mn_major;
    // Of a narrow output A is nearly all of the traffic, and packing it writes and reads it again.
    const bool is_narrow = tile.rows() > 2 * tile.cols(size);
    if (packed.pack_a && is_narrow) packed = unsplit;
    if (packed.pack_a || packed.pack_b) consider(packed);
  }
  constexpr double MAX_PARTIALS = 1 << 26;  // elements
  const double elements = static_cast<double>(problem.batch.count()) *
                          static_cast<double>(problem.M) * static_cast<double>(problem.N);
  for (const PartialUnit unit : {PartialUnit::interval, PartialUnit::superblock}) {
    if (pair == LayoutPair::by_warp && unit == PartialUnit::interval) continue;
    const int64_t unit_length = partial_length(unit, problem.K);
    const int64_t units = ceil_div(problem.K, unit_length);
    if (units < 2 || elements * static_cast<double>(units) > MAX_PARTIALS) continue;
    for (int64_t per_slice = 1; per_slice < units && per_slice <= INTERVALS_PER_SUPERBLOCK;
         per_slice *= 2) {
      for (SimtPlan next : {unsplit, packed}) {
        next.split_k = {.unit = unit,
                        .slices = static_cast<unsigned>(ceil_div(units, per_slice)),
                        .slice_length = per_slice * unit_length};
        consider(next);
      }
    }
  }
  return best;
}

/// The thinnest tiles with stages read the long operand once per tile along their short dimension,
/// which may happen at most twice.
bool is_too_thin(const Problem& problem, int tile, LayoutPair pair) {
  if (is_direct(pair)) return false;
  const int rows = TILES[tile].rows(), cols = TILES[tile].cols(4);
  return (rows < 16 && problem.M > 2 * rows) || (cols < 16 && problem.N > 2 * cols);
}

SimtPlan plan_with_named_tile(const Problem& problem, const Device& device, double bytes) {
  const int tile = problem.variant;
  const std::optional<LayoutPair> pair = layout_pair_for(problem, tile);
  if (!pair) {
    throw std::runtime_error(
        "smem.gemm: kernel 'simt:" + std::string(TILES[tile].name) +
        "' takes operands that are not whole vectors with K and strides of up to " +
        std::to_string(MAX_STRIDE_VIA_REGISTERS) + ", got K " + std::to_string(problem.K) +
        ", strides (" + std::to_string(problem.a.row_stride) + ", " +
        std::to_string(problem.a.col_stride) + ") of a and (" +
        std::to_string(problem.b.row_stride) + ", " + std::to_string(problem.b.col_stride) +
        ") of b");
  }
  return plan_with_tile(problem, device, tile, *pair, bytes);
}

}  // namespace

int64_t matrices_of(const Problem& problem, Tensor tensor) {
  int64_t matrices = 1;
  for (int d = 0; d < problem.batch.rank; ++d) {
    if (problem.batch.stride[tensor][d] != 0) matrices *= problem.batch.size[d];
  }
  return matrices;
}

int64_t packed_pitch(int64_t extent) {
  constexpr int64_t TILE = 128;
  static_assert(TILES[TILE_128X128].rows() == TILE && TILES[TILE_128X128].cols(4) == TILE,
                "a multiple of the extents of all tiles that are packed for");
  return round_up(extent, TILE);
}

SimtWorkspace workspace_of(const Problem& problem, const SimtPlan& p) {
  const size_t size = size_of(problem.dtype);
  const auto bytes = [&](int64_t elements) { return static_cast<size_t>(elements) * size; };
  SimtWorkspace workspace;
  const auto packed = [&](Tensor tensor, int64_t extent) {
    return bytes(matrices_of(problem, tensor) * packed_pitch(extent) * problem.K);
  };
  if (p.pack_a) workspace.a = packed(A, problem.M);
  if (p.pack_b) workspace.b = packed(B, problem.N);
  if (p.split_k.unit != PartialUnit::none) {
    const int64_t units = ceil_div(problem.K, partial_length(p.split_k.unit, problem.K));
    workspace.partials = bytes(units * problem.batch.count() * problem.M * problem.N);
  }
  return workspace;
}

bool has_tile(int tile, size_t element_bytes, const Device& device) {
  return layouts_of(tile, element_bytes).bits != 0 &&
         TILES[tile].shared_bytes(element_bytes) <= device.shared_bytes;
}

SimtPlan make_plan(const Problem& problem, const Device& device) {
  const double bytes = bytes_of(problem);
  if (problem.variant >= 0) return plan_with_named_tile(problem, device, bytes);
  std::optional<SimtPlan> best;
  for (int tile = 0; tile < TILE_COUNT; ++tile) {
    if (!has_tile(tile, size_of(problem.dtype), device)) continue;
    const std::optional<LayoutPair> pair = layout_pair_for(problem, tile);
    if (!pair || is_too_thin(problem, tile, *pair)) continue;
    const SimtPlan next = plan_with_tile(problem, device, tile, *pair, bytes);
    if (!best || next.microseconds < best->microseconds) best = next;
  }
  return best.value();
}

const SimtPlan& cached_plan(const Problem& problem, const Device& device) {
  const Problem& p = problem;
  PlanKey<14 + 3 * MAX_RANK> key;
  for (const int64_t number :
       {p.M, p.N, p.K, int64_t{p.variant}, static_cast<int64_t>(p.dtype), int64_t{device.sm_count},
        static_cast<int64_t>(device.shared_bytes)}) {
    key.push(number);
  }
  for (const Operand* operand : {&p.a, &p.b}) key.push(*operand);
  key.push(p.c.data != nullptr);
  key.push(p.batch, {A, B});
  return cached(key, [&] { return make_plan(problem, device); });
}

std::string text_of(const SimtPlan& plan) {
  std::string text = "tiles " + std::string(TILES[plan.tile].name);
  if (plan.split_k.unit != PartialUnit::none) {
    text += ", K in " + std::to_string(plan.split_k.slices) + " slices";
  }
  text += packed_text(plan.pack_a, plan.pack_b);
  return text + ": " + std::to_string(std::lround(plan.microseconds)) + " us expected";
}

}  // namespace smem::gemm::simt
