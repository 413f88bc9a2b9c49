#include "gemm/lanes/plan.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace smem::gemm::lanes {
namespace {

/// Measured on an H200, in nanoseconds and bytes; other GPUs differ, but not in what is better.
struct Model {
  double clock = 1.98;      ///< cycles in a nanosecond
  double dram = 4000;       ///< bytes in a nanosecond, to all multiprocessors
  double start = 2500;      ///< launch, first loads and end
  double wave = 1500;       ///< first loads and end of a block that follows another
  double second = 3500;     ///< a further launch
  double add = 25;          ///< bytes in a nanosecond, to a block of 32 elements that adds parts
  double f64 = 1.6;         ///< times as long in the smaller tiles
  double element = 0.12;    ///< cycles of a multiprocessor for an element of out
  double by_element = 1.2;  ///< times as long where operands are copied element by element
};

/// Cycles that a multiprocessor full of blocks takes for 1 of K of a tile, and a block alone: the
/// share of the FMA units' speed that the tile reaches. In the order of TILES.
struct Speed {
  double full, alone;
};
constexpr Speed SPEEDS[] = {{175, 230}, {58, 105}, {21, 64},  {8.5, 45}, {56, 108},
                            {40, 75},   {22, 60},  {56, 108}, {44, 75},  {26, 60}};
static_assert(std::size(SPEEDS) == TILE_COUNT, "a speed a tile");

/// The tile that fits every GPU.
constexpr int SMALLEST = 3;
static_assert(TILES[SMALLEST].shared_bytes(8) <= DEFAULT_SHARED_BYTES, "it does");

int64_t members_of(const Problem& problem) { return problem.batch.count(); }

/// X(e, k): A, or B transposed.
struct Side {
  int64_t extent, e_stride, k_stride;
  const void* data;
  Tensor tensor;
};
Side side_a(const Problem& p) { return {p.M, p.a.row_stride, p.a.col_stride, p.a.data, Tensor::A}; }
Side side_b(const Problem& p) { return {p.N, p.b.col_stride, p.b.row_stride, p.b.data, Tensor::B}; }

/// Whether all its members lie as told.
bool lies(const Problem& problem, const Side& side, Lies told) {
  if (told == Lies::any) return true;
  const bool along_e = told == Lies::runs_along_e;
  const auto width = static_cast<int64_t>(16 / size_of(problem.dtype));
  if ((along_e ? side.e_stride : side.k_stride) != 1) return false;
  if ((along_e ? side.k_stride : side.e_stride) % width != 0) return false;
  if (reinterpret_cast<uintptr_t>(side.data) % 16 != 0) return false;
  for (int d = 0; d < problem.batch.rank; ++d) {
    if (problem.batch.stride[side.tensor][d] % width != 0) return false;
  }
  return true;
}

double bytes_of(const Problem& p) {
  const auto M = static_cast<double>(p.M), N = static_cast<double>(p.N);
  const auto K = static_cast<double>(p.K), members = static_cast<double>(members_of(p));
  const auto read = [&](Tensor tensor) {
    double matrices = 1;
    for (int d = 0; d < p.batch.rank; ++d) {
      if (p.batch.stride[tensor][d] != 0) matrices *= static_cast<double>(p.batch.size[d]);
    }
    return matrices;
  };
  const double elements =
      read(Tensor::A) * M * K + read(Tensor::B) * N * K + members * M * N * (p.c.data ? 2 : 1);
  return elements * static_cast<double>(size_of(p.dtype));
}

double nanoseconds(const Problem& problem, const Device& device, const Plan& p, double bytes) {
  const Model model;
  const TileShape& tile = TILES[p.tile];
  const size_t size = size_of(problem.dtype);
  const int64_t tiles =
      ceil_div(problem.M, tile.rows()) * ceil_div(problem.N, tile.cols(size)) * members_of(problem);
  const auto blocks = static_cast<double>(tiles) * p.cut.parts;
  const double SMs = std::max(1, device.multiprocessors);
  const double each = std::ceil(blocks / SMs);
  const auto length = static_cast<double>(std::min(problem.K, p.cut.part_length));
  double slower = p.tells ? 1 : model.by_element;
  if (problem.dtype == DType::f64 && p.tile > 0) slower *= model.f64;
  const double out = model.element * tile.rows() * tile.cols(size);
  // Either the multiprocessors are full, or each block waits for itself.
  const double waves = std::ceil(each / tile.blocks);
  const double cycles = std::max(each * (length * SPEEDS[p.tile].full * slower + out),
                                 waves * (length * SPEEDS[p.tile].alone * slower + out));
  double others = model.start + (waves - 1) * model.wave / tile.blocks;
  if (p.cut.by != Unit::none) {
    const Workspace workspace = workspace_of(problem, p);
    const auto sums = static_cast<double>(workspace.sums);
    const double adders = std::ceil(static_cast<double>(members_of(problem) * problem.M) *
                                    static_cast<double>(problem.N) / 32);
    others += model.second + sums / model.dram + sums / std::min(model.dram, adders * model.add);
  }
  const auto K = static_cast<double>(problem.K);
  for (const auto& [packs, extent] :
       {std::pair{p.pack_a, problem.M}, std::pair{p.pack_b, problem.N}}) {
    if (packs) {
      others += model.second +
                2.5 * static_cast<double>(extent) * K * static_cast<double>(size) / model.dram;
    }
  }
  const double dram = bytes / model.dram, busy = cycles / model.clock;
  return others + std::max(dram, busy) + 0.1 * std::min(dram, busy);
}

/// Blocks of a strip read fewer bytes the squarer it is.
unsigned strip_of(const Problem& problem, const Device& device, const TileShape& tile) {
  const int64_t at_once = int64_t{tile.blocks} * std::max(1, device.multiprocessors);
  const int64_t rows = ceil_div(problem.M, tile.rows());
  const double square =
      std::sqrt(static_cast<double>(at_once) * tile.cols(size_of(problem.dtype)) / tile.rows());
  return static_cast<unsigned>(
      std::clamp<int64_t>(std::lround(square), 1, std::max<int64_t>(rows, 1)));
}

Plan with_tile(const Problem& problem, const Device& device, int index, double bytes) {
  const TileShape& tile = TILES[index];
  Plan uncut;
  uncut.tile = index;
  uncut.cut = {Unit::none, 1, problem.K};
  uncut.strip = strip_of(problem, device, tile);
  const bool lies_a = lies(problem, side_a(problem), told(index).a);
  const bool lies_b = lies(problem, side_b(problem), told(index).b);
  uncut.tells = lies_a && lies_b;
  uncut.microseconds = nanoseconds(problem, device, uncut, bytes) / 1000;
  Plan best = uncut;
  const auto consider = [&](Plan next) {
    next.microseconds = nanoseconds(problem, device, next, bytes) / 1000;
    if (next.microseconds < 0.97 * best.microseconds) best = next;
  };

  if (index == 0 && !uncut.tells && members_of(problem) == 1 && problem.K > 0) {
    Plan packed = uncut;
    packed.pack_a = !lies_a;
    packed.pack_b = !lies_b;
    packed.tells = true;
    consider(packed);
  }
  constexpr double MOST_SUMS = 1 << 26;  // elements
  const double matrix = static_cast<double>(members_of(problem)) * static_cast<double>(problem.M) *
                        static_cast<double>(problem.N);
  for (const Unit by : {Unit::chunk, Unit::superchunk}) {
    const int64_t unit = unit_length(by, problem.K);
    const int64_t units = ceil_div(problem.K, unit);
    if (units < 2 || matrix * static_cast<double>(units) > MOST_SUMS) continue;
    const Plan base = best.cut.by == Unit::none ? best : uncut;
    for (int64_t each = 1; each < units && each <= CHUNKS_A_SUPERCHUNK; each *= 2) {
      Plan next = base;
      next.cut = {by, static_cast<unsigned>(ceil_div(units, each)), each * unit};
      consider(next);
    }
  }
  return best;
}

}  // namespace

int64_t packed_pitch(int64_t extent) {
  constexpr int64_t TILE = 128;
  static_assert(TILES[0].rows() == TILE && TILES[0].cols(4) == TILE, "the tile that packs");
  return ceil_div(extent, TILE) * TILE;
}

Workspace workspace_of(const Problem& problem, const Plan& p) {
  const size_t size = size_of(problem.dtype);
  const auto bytes = [&](int64_t elements) { return static_cast<size_t>(elements) * size; };
  Workspace workspace;
  if (p.pack_a) workspace.a = bytes(packed_pitch(problem.M) * problem.K);
  if (p.pack_b) workspace.b = bytes(packed_pitch(problem.N) * problem.K);
  if (p.cut.by != Unit::none) {
    const int64_t units = ceil_div(problem.K, unit_length(p.cut.by, problem.K));
    workspace.sums = bytes(units * members_of(problem) * problem.M * problem.N);
  }
  return workspace;
}

Plan plan(const Problem& problem, const Device& device) {
  const double bytes = bytes_of(problem);
  if (problem.variant >= 0) return with_tile(problem, device, problem.variant, bytes);
  Plan best = with_tile(problem, device, SMALLEST, bytes);
  for (int tile = 0; tile < TILE_COUNT; ++tile) {
    if (TILES[tile].shared_bytes(size_of(problem.dtype)) > device.shared_bytes) continue;
    const Plan next = with_tile(problem, device, tile, bytes);
    if (next.microseconds < best.microseconds) best = next;
  }
  return best;
}

std::string text_of(const Plan& plan) {
  std::string text = "tiles " + std::string(TILE_NAMES[plan.tile]);
  if (plan.cut.by != Unit::none) text += ", K in " + std::to_string(plan.cut.parts) + " parts";
  if (plan.pack_a || plan.pack_b) {
    text += plan.pack_a && plan.pack_b ? ", a and b" : plan.pack_a ? ", a" : ", b";
    text += " packed first";
  }
  return text + ": " + std::to_string(std::lround(plan.microseconds)) + " us expected";
}

}  // namespace smem::gemm::lanes
