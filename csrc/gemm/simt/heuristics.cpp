#include "gemm/simt/heuristics.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <tuple>
#include <utility>

namespace smem::gemm::simt {
namespace {

/// Fitted to 430 times on an H200, of all tiles and cuts, in nanoseconds and bytes; other GPUs
/// differ, but not in what is better.
struct Model {
  double clock = 1.98;      ///< cycles in a nanosecond
  double dram = 3360;       ///< bytes in a nanosecond, to all SMs
  double sums = 4200;       ///< the same, of parts' sums
  double start = 5300;      ///< launch, first loads and end
  double wave = 3000;       ///< first loads and end of a block that follows another
  double second = 5400;     ///< a further launch, that adds parts
  double packing = 4300;    ///< or that packs
  double packed = 3.1;      ///< times that an operand's bytes are moved to be packed
  double add = 16;          ///< bytes in a nanosecond, to a block of 32 elements that adds parts
  double f64 = 1.6;         ///< times as long in the smaller tiles
  double element = 0.2;     ///< cycles of an SM for an element of out
  double looks = 1.12;      ///< times as long where blocks look how operands lie
  double along_k = 1.09;    ///< and for an operand that is read along k
  double by_element = 1.2;  ///< or that is copied element by element
  double fetched = 0.25;    ///< cycles more for an element of out, where operands are fetched
};

/// Cycles that an SM full of blocks takes for 1 of K of a tile, and a block alone: the
/// share of the FMA units' speed that the tile reaches. In the order of TILES.
struct Speed {
  double full, alone;
};
constexpr Speed SPEEDS[] = {{167, 243}, {48, 105},  {17.3, 52},  {10.3, 45}, {47.7, 110},
                            {38.8, 72}, {19.8, 58}, {46.5, 106}, {39.7, 72}, {21, 54},
                            {90, 120},  {90, 120},  {12, 42},    {0, 0}};
static_assert(std::size(SPEEDS) == TILE_COUNT, "a speed a tile");

/// The same of a tile whose operands are fetched by elements, however they lie.
Speed speed_of(int tile, int told) {
  if (told != BY_ELEMENTS) return SPEEDS[tile];
  return tile == TILE_128X128 ? Speed{184, 400} : Speed{121, 300};
}

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
  if (told == Lies::elements) {
    return std::max({side.e_stride, side.k_stride, problem.K}) <= LARGEST_FETCHED;
  }
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
  const auto read = [&](Tensor tensor) { return static_cast<double>(matrices_of(p, tensor)); };
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
  const double SMs = std::max(1, device.sm_count);
  // Those of the last wave crowd where blocks end first: about half of them have no place alone.
  const double at_once = blocks_of(p.tile, p.told), waves = std::ceil(blocks / SMs / at_once);
  const double even = std::ceil(blocks / SMs),
               each = waves > 1 ? (even + waves * at_once) / 2 : even;
  const auto length = static_cast<double>(std::min(problem.K, p.cut.part_length));
  double slower = TOLD[p.told].b == Lies::any ? model.looks : 1;
  for (const auto& [side, told, packs] : {std::tuple{side_a(problem), TOLD[p.told].a, p.pack_a},
                                          std::tuple{side_b(problem), TOLD[p.told].b, p.pack_b}}) {
    if (told == Lies::elements) continue;
    if (told == Lies::runs_along_k) {
      slower *= model.along_k;
    } else if (!packs && !lies(problem, side, Lies::runs_along_e)) {
      slower *= model.by_element;
    }
  }
  if (problem.dtype == DType::f64 && p.tile > 0) slower *= model.f64;
  // A short K has little to fetch, but what stores single elements is slow at any.
  const double fetching = p.tile == TILE_64X144 ? 1 : std::min(length / 100, 1.0);
  const double element = model.element + (p.told == BY_ELEMENTS ? model.fetched * fetching : 0);
  const double out = element * tile.rows() * tile.cols(size);
  const Speed speed = speed_of(p.tile, p.told);
  // Either the SMs are full, or each block waits for itself.
  const double cycles = std::max(each * (length * speed.full * slower + out),
                                 waves * (length * speed.alone * slower + out));
  double others = model.start + (waves - 1) * model.wave / at_once;
  if (p.cut.by != Unit::none) {
    const Workspace workspace = workspace_of(problem, p);
    const auto sums = static_cast<double>(workspace.sums);
    const double adders = std::ceil(static_cast<double>(members_of(problem) * problem.M) *
                                    static_cast<double>(problem.N) / 32);
    others += model.second + sums / model.sums + sums / std::min(model.sums, adders * model.add);
  }
  // Read once, written and read with the zeros that fill up tiles.
  const auto extent_of = [&](const Side& side) {
    return static_cast<double>(matrices_of(problem, side.tensor)) / 3 *
           static_cast<double>(side.extent + 2 * packed_pitch(side.extent));
  };
  const double extents =
      (p.pack_a ? extent_of(side_a(problem)) : 0) + (p.pack_b ? extent_of(side_b(problem)) : 0);
  if (extents > 0) {
    others += model.packing + model.packed * extents * static_cast<double>(problem.K) *
                                  static_cast<double>(size) / model.dram;
  }
  const double dram = bytes / model.dram, busy = cycles / model.clock;
  return others + std::max(dram, busy) + 0.14 * std::min(dram, busy);
}

/// Blocks of a strip read fewer bytes the squarer it is.
unsigned strip_of(const Problem& problem, const Device& device, const TileShape& tile) {
  const int64_t at_once = int64_t{tile.blocks} * std::max(1, device.sm_count);
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
  const auto has = [&](int told) { return has_kernel(index, told, size_of(problem.dtype)); };
  const auto lie = [&](Told told) {
    return std::pair{lies(problem, side_a(problem), told.a),
                     lies(problem, side_b(problem), told.b)};
  };
  for (int told = TOLD_COUNT - 1; told > NOTHING; --told) {
    if (has(told) && lie(TOLD[told]) == std::pair{true, true}) uncut.told = told;
  }
  uncut.microseconds = nanoseconds(problem, device, uncut, bytes) / 1000;
  Plan best = uncut;
  const auto consider = [&](Plan next) {
    next.microseconds = nanoseconds(problem, device, next, bytes) / 1000;
    if (next.microseconds < 0.97 * best.microseconds) best = next;
  };

  const auto [along_e_a, along_e_b] = lie(TOLD[BOTH_ALONG_E]);
  Plan packed = uncut;
  if (has(BOTH_ALONG_E) && uncut.told != BOTH_ALONG_E && problem.batch.rank <= 1 && problem.K > 0) {
    packed.pack_a = !along_e_a;
    packed.pack_b = !along_e_b;
    packed.told = BOTH_ALONG_E;
    consider(packed);
  }
  constexpr double MOST_SUMS = 1 << 26;  // elements
  const double matrix = static_cast<double>(members_of(problem)) * static_cast<double>(problem.M) *
                        static_cast<double>(problem.N);
  for (const Unit by : {Unit::chunk, Unit::superchunk}) {
    const int64_t unit = unit_length(by, problem.K);
    const int64_t units = ceil_div(problem.K, unit);
    if (units < 2 || matrix * static_cast<double>(units) > MOST_SUMS) continue;
    for (int64_t each = 1; each < units && each <= CHUNKS_A_SUPERCHUNK; each *= 2) {
      for (Plan next : {uncut, packed}) {
        next.cut = {by, static_cast<unsigned>(ceil_div(units, each)), each * unit};
        consider(next);
      }
    }
  }
  return best;
}

/// Whether there are kernels of the tile for the problem.
bool has_tile_for(const Problem& problem, int tile) {
  const size_t size = size_of(problem.dtype);
  if (!has_tile(tile, size)) return false;
  const Told least = TOLD[told_at_least(tile, size)];
  return lies(problem, side_a(problem), least.a) && lies(problem, side_b(problem), least.b);
}

/// The thinnest tiles read the long operand once for each of theirs: at most twice.
bool too_thin(const Problem& problem, int tile) {
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
  static_assert(TILES[0].rows() == TILE && TILES[0].cols(4) == TILE, "the tile that packs");
  return ceil_div(extent, TILE) * TILE;
}

Workspace workspace_of(const Problem& problem, const Plan& p) {
  const size_t size = size_of(problem.dtype);
  const auto bytes = [&](int64_t elements) { return static_cast<size_t>(elements) * size; };
  Workspace workspace;
  const auto packed = [&](Tensor tensor, int64_t extent) {
    return bytes(matrices_of(problem, tensor) * packed_pitch(extent) * problem.K);
  };
  if (p.pack_a) workspace.a = packed(A, problem.M);
  if (p.pack_b) workspace.b = packed(B, problem.N);
  if (p.cut.by != Unit::none) {
    const int64_t units = ceil_div(problem.K, unit_length(p.cut.by, problem.K));
    workspace.sums = bytes(units * members_of(problem) * problem.M * problem.N);
  }
  return workspace;
}

Plan plan(const Problem& problem, const Device& device) {
  const double bytes = bytes_of(problem);
  if (problem.variant >= 0 && has_tile_for(problem, problem.variant)) {
    return with_tile(problem, device, problem.variant, bytes);
  }
  Plan best = with_tile(problem, device, SMALLEST, bytes);
  for (int tile = 0; tile < TILE_COUNT; ++tile) {
    if (!has_tile_for(problem, tile) || too_thin(problem, tile)) continue;
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

}  // namespace smem::gemm::simt
