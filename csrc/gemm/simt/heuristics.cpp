#include "gemm/simt/heuristics.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <tuple>
#include <utility>

#include "gemm/plan_cache.h"
#include "gemm/swizzle_size.h"

namespace smem::gemm::simt {
namespace {

/// The constants of the cost model, in nanoseconds, bytes and cycles. They and what TileConfig says
/// of the tiles were fitted to 12,000 times in CUDA graphs on an H100, of all tiles on 707 random
/// problems; 128x128's speeds are those of 75 larger problems on an H200 (bench/NOTES.md). Other
/// GPUs have other times, but mostly the same best plan.
struct CostModel {
  double clock = 1.98;               ///< cycles/ns
  double dram = 3360;                ///< bytes/ns, for all SMs
  double partials = 4200;            ///< bytes/ns of reading or writing partials, for all SMs
  double first_wave = 2540;          ///< ns: launch, first loads and end
  double next_wave = 1170;           ///< ns: first loads and end of a block that follows another
  double reduce_launch = 2820;       ///< ns: the second launch, which reduces the partials
  double pack_launch = 1660;         ///< ns: the launch that packs
  double pack_traffic = 2.2;         ///< DRAM time of a packed operand, in times of reading it once
  double reduce_block = 16;          ///< bytes/ns that a reducing block of 32 elements reads
  double f64 = 1.6;                  ///< factor of the cycles per k in tiles below 128x128
  double store_via_registers = 0.1;  ///< cycles more per element, for LayoutPair::via_registers
  double store_edge = 0.52;          ///< the same where 128x128 stores by single elements
  double store_edge_alone = 10'000;  ///< cycles more of one such tile
  double dynamic_mode = 1.06;        ///< factor of the cycles per k if B's load mode is dynamic
  double k_major = 1.09;             ///< the same for each operand read by vec16_along_k
  double scalar = 1.18;              ///< the same for each operand copied by single elements
  double min_gain = 0.97;            ///< packing and split-K must predict less than this share
  double dram_overlap = 0.5;         ///< share of the shorter of DRAM and SM time that adds
  double full_k_via_registers = 100;  ///< k from which store_via_registers counts fully
  double line = 0.39;                 ///< cycles of an SM for a cache line that a load touches, for
                                      ///< kernels whose loads go straight to registers
};

/// Cycles per value of k; see TileSpeed.
TileSpeed speed_of(int tile, LayoutPair pair) {
  return pair == LayoutPair::via_registers ? TILES[tile].speed_via_registers : TILES[tile].speed;
}

/// Kernels of one launch over all of K, which load any layout straight to registers.
bool is_direct(LayoutPair pair) { return pair == LayoutPair::ldg || pair == LayoutPair::by_warp; }

/// Tried in this order: the first that the tile has and the operands match.
constexpr LayoutPair FASTEST_FIRST[] = {
    LayoutPair::both_mn_major,
    LayoutPair::both_k_major,
    LayoutPair::a_k_major_b_mn_major,
    LayoutPair::a_k_major_b_unknown,
    LayoutPair::via_registers,
    LayoutPair::ldg,
    LayoutPair::by_warp,
};

static_assert(TILES[TILE_16X16].shared_bytes(8) <= DEFAULT_SHARED_BYTES, "16x16 fits every GPU");

int64_t batch_count_of(const Problem& problem) { return problem.batch.count(); }

/// X(mn, k): A, or B transposed.
struct OperandDesc {
  int64_t extent, mn_stride, k_stride;
  const void* data;
  Tensor tensor;
};
OperandDesc operand_a(const Problem& p) {
  return {p.M, p.a.row_stride, p.a.col_stride, p.a.data, Tensor::A};
}
OperandDesc operand_b(const Problem& p) {
  return {p.N, p.b.col_stride, p.b.row_stride, p.b.data, Tensor::B};
}

/// Whether all matrices of the operand can be loaded in this mode.
bool supports(const Problem& problem, const OperandDesc& operand, LoadMode mode) {
  if (mode == LoadMode::dynamic || mode == LoadMode::ldg || mode == LoadMode::by_warp) return true;
  if (mode == LoadMode::scalar_via_registers) {
    return std::max({operand.mn_stride, operand.k_stride, problem.K}) <= MAX_STRIDE_VIA_REGISTERS;
  }
  const bool along_mn = mode == LoadMode::vec16_along_mn;
  const auto width = static_cast<int64_t>(16 / size_of(problem.dtype));
  if ((along_mn ? operand.mn_stride : operand.k_stride) != 1) return false;
  if ((along_mn ? operand.k_stride : operand.mn_stride) % width != 0) return false;
  if (reinterpret_cast<uintptr_t>(operand.data) % 16 != 0) return false;
  for (int d = 0; d < problem.batch.rank; ++d) {
    if (problem.batch.stride[operand.tensor][d] % width != 0) return false;
  }
  return true;
}

/// Bytes that the problem reads and writes at least.
double bytes_of(const Problem& p) {
  const auto M = static_cast<double>(p.M), N = static_cast<double>(p.N);
  const auto K = static_cast<double>(p.K), batch = static_cast<double>(batch_count_of(p));
  const auto read = [&](Tensor tensor) { return static_cast<double>(matrices_of(p, tensor)); };
  const double elements =
      read(Tensor::A) * M * K + read(Tensor::B) * N * K + batch * M * N * (p.c.data ? 2 : 1);
  return elements * static_cast<double>(size_of(p.dtype));
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
double lines_of_load(const OperandDesc& operand, int lanes, int64_t stride) {
  const auto used = static_cast<double>(std::min<int64_t>(lanes, operand.extent));
  return std::min(used, std::max(1.0, std::ceil(used * static_cast<double>(stride) * 4 / 128)));
}

/// Cache lines that a block touches per value of k, for the kernels that load directly.
double lines_per_k(const Problem& problem, const TileConfig& tile, LayoutPair pair) {
  const OperandDesc a = operand_a(problem), b = operand_b(problem);
  if (pair == LayoutPair::ldg) {
    return tile.warps_m * tile.warps_n *
           (tile.thread_rows * lines_of_load(a, tile.lanes_m, a.mn_stride) +
            tile.thread_cols * lines_of_load(b, 32 / tile.lanes_m, b.mn_stride));
  }
  const auto lines = [](const OperandDesc& operand, int rows) {
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
  const auto length = static_cast<double>(std::min(problem.K, p.split_k.slice_length));
  MainLoop loop{length, length, speed_of(p.tile, p.layouts).full,
                static_cast<double>(min_blocks_per_sm(p.tile, p.layouts))};
  if (!is_direct(p.layouts)) return loop;
  const int64_t K = problem.K, interval = accum_interval(K);
  int64_t all = round_up(K, int64_t{tile.depth}), alone = all;
  if (p.layouts == LayoutPair::by_warp) {
    const int warps = warps_for(tile, K);
    all = round_up(K, interval);
    alone = ceil_div(ceil_div(K, interval), int64_t{warps}) * interval;
    const int blocks = tile.warps_k / warps;  // for which the registers suffice
    loop.blocks_per_sm *= blocks;
  }
  loop.length = static_cast<double>(all);
  loop.length_alone = static_cast<double>(alone);
  const double lines = lines_per_k(problem, tile, p.layouts) * length / std::max(loop.length, 1.0);
  loop.full = std::max(loop.full, CostModel().line * lines);
  return loop;
}

/// The cost model: the predicted time of a plan for a problem of `bytes`.
double nanoseconds(const Problem& problem, const Device& device, const SimtPlan& p, double bytes) {
  const CostModel model;
  const TileConfig& tile = TILES[p.tile];
  const size_t size = size_of(problem.dtype);
  const int64_t tiles = ceil_div(problem.M, tile.rows()) * ceil_div(problem.N, tile.cols(size)) *
                        batch_count_of(problem);
  const auto blocks = static_cast<double>(tiles) * p.split_k.slices;
  const double SMs = std::max(1, device.sm_count);
  // Blocks of the last wave start on the SMs whose blocks end first, so about half of the wave's
  // blocks share an SM.
  const MainLoop loop = main_loop_of(problem, p);
  const double per_sm = loop.blocks_per_sm;
  const double waves = std::ceil(blocks / SMs / per_sm), even = std::ceil(blocks / SMs);
  const double blocks_in_turn = waves > 1 ? (even + waves * per_sm) / 2 : even;
  const LayoutPairRow modes = load_modes(p.layouts);
  double slowdown = modes.b == LoadMode::dynamic ? model.dynamic_mode : 1;
  for (const auto& [operand, mode, packs] : {std::tuple{operand_a(problem), modes.a, p.pack_a},
                                             std::tuple{operand_b(problem), modes.b, p.pack_b}}) {
    if (mode == LoadMode::scalar_via_registers || is_direct(p.layouts)) continue;
    if (mode == LoadMode::vec16_along_k) {
      slowdown *= model.k_major;
    } else if (!packs && !supports(problem, operand, LoadMode::vec16_along_mn)) {
      slowdown *= model.scalar;
    }
  }
  if (problem.dtype == DType::f64 && p.tile != TILE_128X128) slowdown *= model.f64;
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
  const double cycles =
      std::max(blocks_in_turn *
                   (loop.length * loop.full * slowdown + out + model.store_edge * edges * elements),
               waves * (loop.length_alone * speed_of(p.tile, p.layouts).alone * slowdown + out) +
                   (edges > 0 ? model.store_edge_alone : 0));
  double others = model.first_wave + tile.start + (waves - 1) * model.next_wave / per_sm;
  if (p.split_k.unit != PartialUnit::none) {
    const auto partials = static_cast<double>(workspace_of(problem, p).partials);
    const double reduce_blocks =
        std::ceil(static_cast<double>(batch_count_of(problem) * problem.M) *
                  static_cast<double>(problem.N) / 32);
    others += model.reduce_launch + partials / model.partials +
              partials / std::min(model.partials, reduce_blocks * model.reduce_block);
  }
  // A packed operand is read once, then written and read with the zeros that pad it to whole tiles.
  const auto packed_extent = [&](const OperandDesc& operand) {
    return static_cast<double>(matrices_of(problem, operand.tensor)) / 3 *
           static_cast<double>(operand.extent + 2 * packed_pitch(operand.extent));
  };
  const double extents = (p.pack_a ? packed_extent(operand_a(problem)) : 0) +
                         (p.pack_b ? packed_extent(operand_b(problem)) : 0);
  if (extents > 0) {
    others += model.pack_launch + model.pack_traffic * extents * static_cast<double>(problem.K) *
                                      static_cast<double>(size) / model.dram;
  }
  const double dram = bytes / model.dram, busy = cycles / model.clock;
  return others + std::max(dram, busy) + model.dram_overlap * std::min(dram, busy);
}

/// The best plan with this tile.
SimtPlan plan_with_tile(const Problem& problem, const Device& device, int index, double bytes) {
  const TileConfig& tile = TILES[index];
  SimtPlan unsplit;
  unsplit.tile = index;
  unsplit.split_k = {.unit = PartialUnit::none, .slices = 1, .slice_length = problem.K};
  unsplit.swizzle_size = static_cast<unsigned>(square_swizzle_size(
      int64_t{tile.min_blocks_per_sm} * std::max(1, device.sm_count), tile.rows(),
      tile.cols(size_of(problem.dtype)), ceil_div(problem.M, tile.rows())));
  const auto has = [&](LayoutPair pair) { return has_kernel(index, pair, size_of(problem.dtype)); };
  const auto supports_a = [&](LayoutPair pair) {
    return supports(problem, operand_a(problem), load_modes(pair).a);
  };
  const auto supports_b = [&](LayoutPair pair) {
    return supports(problem, operand_b(problem), load_modes(pair).b);
  };
  for (const LayoutPair pair : FASTEST_FIRST) {
    if (has(pair) && supports_a(pair) && supports_b(pair)) {
      unsplit.layouts = pair;
      break;
    }
  }
  // Copies of vectors hide more latency than loads one step ahead: 16 x 16 x 1048576 takes 0.7
  // times as long by them.
  constexpr int64_t LONG_K = 256;
  const bool has_vectors =
      supports_a(LayoutPair::both_mn_major) || supports_b(LayoutPair::both_mn_major);
  if (unsplit.layouts == LayoutPair::via_registers && has(LayoutPair::unknown) && has_vectors &&
      problem.K >= LONG_K) {
    unsplit.layouts = LayoutPair::unknown;
  }
  const CostModel model;
  unsplit.microseconds = nanoseconds(problem, device, unsplit, bytes) / 1000;
  SimtPlan best = unsplit;
  const auto consider = [&](SimtPlan next) {
    next.microseconds = nanoseconds(problem, device, next, bytes) / 1000;
    if (next.microseconds < model.min_gain * best.microseconds) best = next;
  };

  if (is_direct(unsplit.layouts)) return unsplit;

  SimtPlan packed = unsplit;
  if (has(LayoutPair::both_mn_major) && unsplit.layouts != LayoutPair::both_mn_major &&
      problem.batch.rank <= 1 && problem.K > 0) {
    packed.pack_a = !supports_a(LayoutPair::both_mn_major);
    packed.pack_b = !supports_b(LayoutPair::both_mn_major);
    packed.layouts = LayoutPair::both_mn_major;
    // Of a narrow output A is nearly all of the traffic, and packing it writes and reads it again.
    const bool is_narrow = tile.rows() > 2 * tile.cols(size_of(problem.dtype));
    if (packed.pack_a && is_narrow) packed = unsplit;
    if (packed.pack_a || packed.pack_b) consider(packed);
  }
  constexpr double MAX_PARTIALS = 1 << 26;  // elements
  const double elements = static_cast<double>(batch_count_of(problem)) *
                          static_cast<double>(problem.M) * static_cast<double>(problem.N);
  for (const PartialUnit unit : {PartialUnit::interval, PartialUnit::superblock}) {
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

/// Whether the tile has a kernel for the problem.
bool has_tile_for(const Problem& problem, int tile) {
  const size_t size = size_of(problem.dtype);
  if (!has_tile(tile, size)) return false;
  const LayoutPairRow modes = load_modes(fallback_layout(tile, size));
  return supports(problem, operand_a(problem), modes.a) &&
         supports(problem, operand_b(problem), modes.b);
}

/// The thinnest tiles with stages read the long operand once per tile along their short dimension,
/// which may happen at most twice.
bool is_too_thin(const Problem& problem, int tile) {
  if (is_direct(fallback_layout(tile, size_of(problem.dtype)))) return false;
  const int rows = TILES[tile].rows(), cols = TILES[tile].cols(4);
  return (rows < 16 && problem.M > 2 * rows) || (cols < 16 && problem.N > 2 * cols);
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
    workspace.partials = bytes(units * batch_count_of(problem) * problem.M * problem.N);
  }
  return workspace;
}

SimtPlan make_plan(const Problem& problem, const Device& device) {
  const double bytes = bytes_of(problem);
  if (problem.variant >= 0 && has_tile_for(problem, problem.variant)) {
    return plan_with_tile(problem, device, problem.variant, bytes);
  }
  SimtPlan best = plan_with_tile(problem, device, TILE_16X16, bytes);
  for (int tile = 0; tile < TILE_COUNT; ++tile) {
    if (!has_tile_for(problem, tile) || is_too_thin(problem, tile)) continue;
    if (TILES[tile].shared_bytes(size_of(problem.dtype)) > device.shared_bytes) continue;
    const SimtPlan next = plan_with_tile(problem, device, tile, bytes);
    if (next.microseconds < best.microseconds) best = next;
  }
  return best;
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
    text += ", K in " + std::to_string(plan.split_k.slices) + " parts";
  }
  if (plan.pack_a || plan.pack_b) {
    text += plan.pack_a && plan.pack_b ? ", a and b" : plan.pack_a ? ", a" : ", b";
    text += " packed first";
  }
  return text + ": " + std::to_string(std::lround(plan.microseconds)) + " us expected";
}

}  // namespace smem::gemm::simt
