#include "gemm/simt/cost_model.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "gemm/simt/operand_layout.h"

namespace smem::gemm::simt {
namespace {

/// Cycles per value of k; see TileSpeed.
TileSpeed speed_of(int tile, LayoutPair pair) {
  return pair == LayoutPair::via_registers ? TILES[tile].speed_via_registers : TILES[tile].speed;
}

/// The share of the tiles that 128x128 stores by single elements (epilogue.h): those that reach
/// beyond out's last column, or all if rows of a contiguous out are not whole vectors.
double share_of_edge_tiles(const Problem& p, const SimtPlan& plan) {
  if (plan.tile != TILE_128X128 || plan.layouts == LayoutPair::via_registers) return 0;
  const auto width = static_cast<int64_t>(16 / size_of(p.dtype));
  if (p.N % width != 0) return 1;
  const int64_t cols = TILES[plan.tile].cols(size_of(p.dtype));
  return p.N % cols == 0 ? 0 : 1 / static_cast<double>(ceil_div(p.N, cols));
}

/// Cache lines that the lanes of a warp touch by one load, neighbouring lanes along mn.
double lines_of_load(const OperandLayout& operand, int lanes, int64_t stride) {
  const auto used = static_cast<double>(std::min<int64_t>(lanes, operand.extent));
  return std::min(used, std::max(1.0, std::ceil(used * static_cast<double>(stride) * 4 / 128)));
}

/// Cache lines that a block touches per value of k, for the kernels that load directly.
double lines_per_k(const Problem& problem, const TileConfig& tile, LayoutPair pair) {
  const OperandLayout a = layout_of_a(problem), b = layout_of_b(problem);
  if (pair == LayoutPair::ldg) {
    return tile.warps_m * tile.warps_n *
           (tile.thread_rows * lines_of_load(a, tile.lanes_m, a.mn_stride) +
            tile.thread_cols * lines_of_load(b, 32 / tile.lanes_m, b.mn_stride));
  }
  const auto lines = [](const OperandLayout& operand, int rows) {
    if (operand.k_stride >= operand.mn_stride)
      return lines_of_load(operand, rows, operand.mn_stride);
    const double along_k = std::min(32.0, std::max(1.0, static_cast<double>(operand.k_stride)));
    return rows * along_k / 32;
  };
  return lines(a, tile.rows()) + lines(b, tile.cols(4));
}

/// What the main loop of a plan multiplies.
struct MainLoop {
  double length, length_alone;  ///< values of k: of all warps, and one after the other
  double full;                  ///< cycles of an SM per value of k, if it is full
  double blocks_per_sm;
};
MainLoop main_loop_of(const Problem& problem, const SimtPlan& p) {
  const TileConfig& tile = TILES[p.tile];
  const int64_t slice_length = std::min(problem.K, p.split_k.slice_length);
  const auto length = static_cast<double>(slice_length);
  MainLoop loop{length, length, speed_of(p.tile, p.layouts).full,
                static_cast<double>(min_blocks_per_sm(p.tile, p.layouts))};
  if (!is_direct(p.layouts)) return loop;
  const int64_t K = problem.K, interval = accum_interval(K);
  int64_t all = round_up(K, int64_t{tile.depth}), alone = all;
  if (p.layouts == LayoutPair::by_warp) {
    const int warps = warps_for(tile, K);
    all = round_up(slice_length, interval);
    alone = ceil_div(ceil_div(slice_length, interval), int64_t{warps}) * interval;
    const int blocks = tile.warps_k / warps;  // for which the registers suffice
    loop.blocks_per_sm *= blocks;
  }
  loop.length = static_cast<double>(all);
  loop.length_alone = static_cast<double>(alone);
  const double lines = lines_per_k(problem, tile, p.layouts) * length / std::max(loop.length, 1.0);
  loop.full = std::max(loop.full, CostModel().line * lines);
  return loop;
}

/// The factor of the cycles per k for operands that are not loaded as fast as MN-major vectors.
double slowdown_of(const Problem& problem, const SimtPlan& p) {
  const CostModel model;
  const LayoutPairRow modes = load_modes(p.layouts);
  double slowdown = modes.b == LoadMode::dynamic ? model.dynamic_mode : 1;
  for (const auto& [operand, mode, packs] : {std::tuple{layout_of_a(problem), modes.a, p.pack_a},
                                             std::tuple{layout_of_b(problem), modes.b, p.pack_b}}) {
    if (mode == LoadMode::scalar_via_registers || is_direct(p.layouts)) continue;
    if (mode == LoadMode::vec16_along_k) {
      slowdown *= model.k_major;
    } else if (!packs && !supports(problem, operand, LoadMode::vec16_along_mn)) {
      slowdown *= model.scalar;
    }
  }
  if (problem.dtype == DType::f64 && p.tile != TILE_128X128) slowdown *= model.f64;
  return slowdown;
}

/// The second launch of split-K.
double reduce_ns(const Problem& problem, const SimtPlan& p) {
  if (p.split_k.unit == PartialUnit::none) return 0;
  const CostModel model;
  const auto partials = static_cast<double>(workspace_of(problem, p).partials);
  const double reduce_blocks = std::ceil(static_cast<double>(problem.batch.count() * problem.M) *
                                         static_cast<double>(problem.N) / 32);
  return model.reduce_launch + partials / model.partials +
         partials / std::min(model.partials, reduce_blocks * model.reduce_block);
}

/// The launch that packs. A packed operand is read once, then written and read with the zeros that
/// pad it to whole tiles.
double pack_ns(const Problem& problem, const SimtPlan& p) {
  if (!p.pack_a && !p.pack_b) return 0;
  const CostModel model;
  const auto packed_extent = [&](const OperandLayout& operand) {
    return static_cast<double>(matrices_of(problem, operand.tensor)) / 3 *
           static_cast<double>(operand.extent + 2 * packed_pitch(operand.extent));
  };
  const double extents = (p.pack_a ? packed_extent(layout_of_a(problem)) : 0) +
                         (p.pack_b ? packed_extent(layout_of_b(problem)) : 0);
  return model.pack_launch + model.pack_traffic * extents * static_cast<double>(problem.K) *
                                 static_cast<double>(size_of(problem.dtype)) / model.dram;
}

}  // namespace

double bytes_of(const Problem& p) {
  const auto M = static_cast<double>(p.M), N = static_cast<double>(p.N);
  const auto K = static_cast<double>(p.K), batch = static_cast<double>(p.batch.count());
  const auto read = [&](Tensor tensor) { return static_cast<double>(matrices_of(p, tensor)); };
  const double elements =
      read(Tensor::A) * M * K + read(Tensor::B) * N * K + batch * M * N * (p.c.data ? 2 : 1);
  return elements * static_cast<double>(size_of(p.dtype));
}

double expected_ns(const Problem& problem, const Device& device, const SimtPlan& p, double bytes) {
  const CostModel model;
  const TileConfig& tile = TILES[p.tile];
  const size_t size = size_of(problem.dtype);
  const int64_t tiles = ceil_div(problem.M, tile.rows()) * ceil_div(problem.N, tile.cols(size)) *
                        problem.batch.count();
  const auto blocks = static_cast<double>(tiles) * p.split_k.slices;
  const double SMs = std::max(1, device.sm_count);
  // Blocks of the last wave start on the SMs whose blocks end first, so about half of the wave's
  // blocks share an SM.
  const MainLoop loop = main_loop_of(problem, p);
  const double per_sm = loop.blocks_per_sm;
  const double waves = std::ceil(blocks / SMs / per_sm), even = std::ceil(blocks / SMs);
  const double blocks_in_turn = waves > 1 ? (even + waves * per_sm) / 2 : even;
  // With a short K there is little to load, but a kernel that stores single elements is slow at any
  // K.
  const double k_share =
      p.tile == TILE_64X144 ? 1 : std::min(loop.length / model.full_k_via_registers, 1.0);
  const double elements = static_cast<double>(tile.rows()) * tile.cols(size);
  const double out =
      tile.store +
      (p.layouts == LayoutPair::via_registers ? model.store_via_registers * k_share * elements : 0);
  const double edges = share_of_edge_tiles(problem, p);
  // Either the SMs are full and throughput counts, or each block is limited by its own latency.
  const double slowdown = slowdown_of(problem, p);
  const double cycles =
      std::max(blocks_in_turn *
                   (loop.length * loop.full * slowdown + out + model.store_edge * edges * elements),
               waves * (loop.length_alone * speed_of(p.tile, p.layouts).alone * slowdown + out) +
                   (edges > 0 ? model.store_edge_alone : 0));
  const double others = model.first_wave + tile.start + (waves - 1) * model.next_wave / per_sm +
                        reduce_ns(problem, p) + pack_ns(problem, p);
  const double dram = bytes / model.dram, busy = cycles / model.clock;
  return others + std::max(dram, busy) + model.dram_overlap * std::min(dram, busy);
}

}  // namespace smem::gemm::simt
