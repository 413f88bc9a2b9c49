#include "gemm/sm90/heuristics.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>

#include "gemm/sm90/batch.h"
#include "gemm/sm90/cost_model.h"
#include "gemm/sm90/reduce_split_k.h"

namespace smem::gemm::sm90 {
namespace {

/// Elements in TMA's unit of address.
int64_t vector_of(const Problem& problem) {
  return 16 / static_cast<int64_t>(size_of(problem.dtype));
}

int64_t round_up(int64_t value, int64_t unit) { return ceil_div(value, unit) * unit; }

bool is_aligned(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer) % 16 == 0; }

/// Whether all of a batch stays aligned where its first member is.
bool batch_is_aligned(const Problem& problem, Tensor tensor) {
  const auto& batch = problem.batch;
  const int64_t vector = vector_of(problem);
  for (int d = 0; d < batch.rank; ++d) {
    if (batch.stride[tensor][d] % vector != 0 || batch.stride[tensor][d] < 0) return false;
  }
  return true;
}

/// `size` is M or N. Floats are packed along K, as wgmma takes them.
Source source_of(const Problem& problem, Tensor tensor, const void* data, int64_t size,
                 int64_t stride, int64_t k_stride, bool may_lie_along_mn = true) {
  const int64_t K = problem.K, vector = vector_of(problem);
  const bool k_major = k_stride == 1 || K == 1, mn_major = stride == 1 || size == 1;
  const bool aligned = is_aligned(data) && batch_is_aligned(problem, tensor);
  const auto fits = [&](int64_t lines, int64_t line_stride) {
    return lines == 1 || (line_stride % vector == 0 && line_stride > 0);
  };
  Source s{};
  s.batched = member_stride(problem, tensor) != 0;
  s.members = s.batched ? members_of(problem) : 1;
  const bool k_in_place = aligned && k_major && fits(size, stride);
  const bool mn_in_place = may_lie_along_mn && aligned && mn_major && fits(K, k_stride);
  s.packed = !k_in_place && !mn_in_place;
  const bool packs_along_k = k_major || !mn_major || problem.dtype == DType::f32;
  s.major = k_in_place || (s.packed && packs_along_k) ? Major::K : Major::MN;
  s.length = s.major == Major::K ? K : size;
  s.lines = s.major == Major::K ? size : K;
  if (s.packed) {
    // Rows that begin within lines of the cache take TMA twice as long.
    const int64_t line = step_k(problem.dtype);
    s.line_stride = round_up(s.length, s.length >= 8 * line ? line : vector);
    s.member_stride = round_up(s.lines * s.line_stride, 128);
  } else {
    // One line has no stride of its own; the map wants a legal one.
    s.line_stride = s.lines == 1          ? round_up(s.length, vector)
                    : s.major == Major::K ? stride
                                          : k_stride;
    s.member_stride = s.batched ? member_stride(problem, tensor) : vector;
  }
  return s;
}

/// Whether by more than an instruction or two.
bool activates(Activation activation) {
  return activation != Activation::none && activation != Activation::relu;
}

/// Of sums that are not partial.
Output output_of(const Problem& problem) {
  const bool in_order = problem.out.col_stride == 1 || problem.N == 1;
  if (!in_order || problem.c.data || problem.out_dtype != problem.dtype) return Output::elements;
  if (problem.dtype == DType::f32 && (problem.pre || activates(problem.activation))) {
    return Output::elements;
  }
  // TMA writes whole pieces of 16 bytes, even where the tensor ends within one.
  const int64_t vector = vector_of(problem);
  const bool in_pieces = problem.N % vector == 0 && problem.out.row_stride % vector == 0 &&
                         problem.out.row_stride > 0 && batch_is_aligned(problem, OUT) &&
                         is_aligned(problem.out.data) && is_aligned(problem.pre);
  return in_pieces ? Output::boxes : problem.pre ? Output::elements : Output::rows;
}

int64_t steps_of(const Problem& problem) { return ceil_div(problem.K, step_k(problem.dtype)); }

/// Steps of a chunk of K, for outputs so narrow that tiles alone cannot keep the SMs
/// busy. Of N, K and the dtype alone: M must not change the bits. More chunks gain more where M is
/// small and cost more where it is not, as their sums are added: 64 x 256 x 6144 takes 13.1 us as a
/// whole and 6.5 in eight, 2048 x 128 x 6144 13.7 and 16.6. Nor are more better the wider N is.
/// Their number is a power of two, as the number of tiles often is, which together fill nearly all
/// SMs then: 2048 x 200 x 9000 takes 43 us in nine, 33 in eight.
int64_t chunk_steps_of(const Problem& problem) {
  constexpr int64_t NARROW = 256, LONG = 6144, SHORTEST = 560, MOST = 128;
  const int64_t N = problem.N, K = problem.K, steps = steps_of(problem);
  if (N > NARROW || K < LONG) return steps;
  const auto few = static_cast<int64_t>(3.3 * std::pow(double(K) / double(N), 0.4));
  const auto most = static_cast<uint64_t>(std::min({MOST, K / SHORTEST, few}));
  return round_up(ceil_div(steps, static_cast<int64_t>(std::bit_floor(most))), 2);
}

/// Of both operands' copies, each aligned to 256.
int64_t packed_bytes(const Problem& problem, const Plan& p) {
  const auto bytes = static_cast<int64_t>(size_of(problem.dtype));
  return round_up(p.a.packed_elements() * bytes, 256) +
         round_up(p.b.packed_elements() * bytes, 256);
}

int64_t pieces_of(const Problem& problem, const Plan& p) {
  const Tile& tile = TILES[p.tile];
  return ceil_div(problem.M, int64_t{tile.rows} * tile.cluster) *
         ceil_div(problem.N, int64_t{p.tile_cols}) * members_of(problem) * p.chunks;
}

/// Of works that run at the same time.
double together(const Model& model, std::initializer_list<double> works) {
  double longest = 0, sum = 0;
  for (const double work : works) {
    longest = std::max(longest, work);
    sum += work;
  }
  return longest + (1 - model.overlap) * (sum - longest);
}

/// What it costs to load `size` of an operand's rows or columns, `step` apart, in rows of 128
/// bytes, `line` elements, that lie in one line of the cache.
double rows_loaded(const Model& model, const Source& source, double size, int64_t step, int line) {
  const bool k_major = source.major == Major::K;
  const int64_t offsets = source.line_stride | (k_major ? 0 : step), sector = line / 4;
  const double stretch = offsets % line == 0     ? 1
                         : offsets % sector == 0 ? model.halves
                                                 : model.pieces;
  return (k_major ? size : std::ceil(size / line) * line) * stretch;
}

double nanoseconds(const Problem& problem, const Plan& p, int sm_count) {
  const Model model;
  const Tile& tile = TILES[p.tile];
  const auto rounds = static_cast<double>(ceil_div(pieces_of(problem, p), int64_t{p.clusters}));

  // Of floats a step has half as many, at half the rate.
  const bool floats = problem.dtype == DType::f32;
  const double reads_b_often = tile.consumers() == 1 ? 1
                               : tile.width() <= 64  ? (floats ? model.narrow_floats : model.narrow)
                               : tile.width() <= 128 && floats ? model.middling_floats
                                                               : 1;
  const double multiply =
      2.0 * tile.rows * tile.width() * step_k(DType::f16) / model.flop * reads_b_often;
  const int line = step_k(problem.dtype);
  const double rows =
      rows_loaded(model, p.a, double(std::min<int64_t>(problem.M, tile.rows)), tile.rows, line) +
      rows_loaded(model, p.b, p.tile_cols, p.tile_cols, line) / tile.cluster;
  const auto sharing =
      static_cast<double>(ceil_div(int64_t{p.clusters} * tile.cluster, sm_count));
  const double step = std::max({model.chain, model.latency / (tile.stages * tile.steps),
                                sharing * together(model, {multiply, rows * model.row})});
  // What all blocks write at one time takes as long by any tile.
  const bool in_rows = p.output == Output::rows && !floats && rounds > 1;
  const double rounded = in_rows ? model.in_rows : model.rounded;
  const double element = p.output == Output::elements   ? model.element
                         : p.output == Output::partials ? (floats ? model.tf32_sum : model.partial)
                                                        : rounded * (problem.pre ? 2 : 1);
  const double out = double(tile.rows) / tile.consumers() * p.tile_cols *
                         (element + (activates(problem.activation) ? model.activation : 0)) +
                     double(p.tile_cols) / (8 << p.log_box_pieces) * model.box;
  const auto steps = static_cast<double>(p.chunks > 1 ? p.chunk_steps : steps_of(problem));
  const double busy =
      rounds *
      (steps * step + (steps / p.chunk_steps - 1) * (floats ? model.sum_of_floats : model.sum) +
       out + model.piece);

  const auto M = static_cast<double>(problem.M), N = static_cast<double>(problem.N);
  const auto K = static_cast<double>(problem.K);
  const auto members = static_cast<double>(members_of(problem));
  const double bytes =
      double(size_of(problem.dtype)) *
      (M * K * double(p.a.members) + N * K * double(p.b.members) + M * N * members);
  const double dram = bytes / model.dram;
  double others = 0;
  if (p.chunks > 1) others += model.second + 8 * M * N * members * p.chunks / model.dram;
  if (p.a.packed || p.b.packed) {
    const auto packed = static_cast<double>(packed_bytes(problem, p));
    others += model.second + 2 * packed / model.packing;
  }
  const double sums = double(tile.rows_of_warpgroup()) * tile.cols / 128;  // a thread
  const double start = model.start + (tile.cluster > 1 ? model.cluster : 0) + model.code * sums;
  return start + together(model, {busy, dram}) + others;
}

/// The strip that makes the tiles computed at one time read the fewest bytes.
int strip_of(const Plan& p, int64_t rows) {
  const Tile& tile = TILES[p.tile];
  int best = 1;
  double least = 0;
  for (int strip = 1; strip < 2 * rows && strip <= 32; strip *= 2) {
    const double read =
        double(strip) * tile.rows * tile.cluster + double(p.clusters) / strip * p.tile_cols;
    if (least == 0 || read < least) {
      least = read;
      best = strip;
    }
  }
  return best;
}

/// The least that the plan's kernel must be able to do.
Exit exit_of(const Problem& problem, const Plan& p) {
  if (p.output == Output::partials) return Exit::partials;
  const bool is_plain = p.output != Output::elements && !problem.pre &&
                        !activates(problem.activation) && p.chunk_steps == steps_of(problem);
  return !is_plain ? Exit::any : p.output == Output::boxes ? Exit::boxes : Exit::rows;
}

/// What does not depend on the tile.
Plan untiled(const Problem& problem) {
  const Operand &a = problem.a, &b = problem.b;
  Plan p{};
  const auto a_lies = [&](bool may_lie_along_m) {
    return source_of(problem, A, a.data, problem.M, a.row_stride, a.col_stride, may_lie_along_m);
  };
  const auto b_lies = [&](bool may_lie_along_n) {
    return source_of(problem, B, b.data, problem.N, b.col_stride, b.row_stride, may_lie_along_n);
  };
  p.a = a_lies(true);
  p.b = b_lies(true);
  if (problem.dtype == DType::f32 && p.b.major == Major::MN) {
    // Floats may lie along M or N in one operand, which is to be the first (mainloop_tf32_rs.h).
    const bool a_is_smaller = p.a.length * p.a.members <= p.b.length * p.b.members;
    if (p.a.major == Major::MN) (a_is_smaller ? p.a = a_lies(false) : p.b = b_lies(false));
    p.turned = p.b.major == Major::MN;
    if (p.turned) std::swap(p.a, p.b);
  }
  p.chunk_steps = static_cast<int>(chunk_steps_of(problem));
  p.chunks = 1;
  p.output = output_of(problem);
  if (p.turned && p.output == Output::boxes) p.output = Output::rows;
  return p;
}

/// The same with every chunk of K a piece of its own, whose sums a second kernel adds.
Plan in_chunks(const Problem& problem, Plan p) {
  p.chunks = static_cast<int>(ceil_div(steps_of(problem), int64_t{p.chunk_steps}));
  p.output = Output::partials;
  return p;
}

/// The widest box, in pieces of 8 columns, that tiles of so many columns are made of. The only tile
/// of a row may write beyond out's end, where TMA stops.
int log_box_pieces(int tile_cols, int64_t N) {
  int log = 3;
  while (N > tile_cols && tile_cols % (8 << log) != 0) --log;
  return log;
}

Plan with_cols(const Problem& problem, const Device& device, Plan p, int index, int tile_cols) {
  const Tile& tile = TILES[index];
  p.tile = index;
  p.tile_cols = tile_cols;
  p.log_box_pieces = p.output == Output::boxes ? log_box_pieces(tile_cols, problem.N) : 3;
  if (problem.dtype == DType::f32 && p.output == Output::boxes) {
    // Boxes of floats have one width.
    if (8 << p.log_box_pieces < FLOAT_BOX_COLS) p.output = Output::rows;
    p.log_box_pieces = 2;
    static_assert(8 << 2 == FLOAT_BOX_COLS, "so many pieces of eight columns");
  }
  p.exit = exit_of(problem, p);
  p.clusters = static_cast<int>(std::min<int64_t>(
      pieces_of(problem, p), std::max(1, tile.blocks * device.sm_count / tile.cluster)));
  p.strip = strip_of(p, ceil_div(problem.M, int64_t{tile.rows} * tile.cluster));
  p.microseconds = nanoseconds(problem, p, device.sm_count) / 1000;
  return p;
}

Plan with_best_cols(const Problem& problem, const Device& device, const Plan& untiled, int index) {
  static_assert(!TILES[0].is_plain, "a tile before it has every exit");
  const Exit exit = exit_of(problem, untiled);
  if (TILES[index].is_plain && exit != Exit::boxes && exit != Exit::rows) {
    return with_best_cols(problem, device, untiled, index - 1);
  }
  const Tile& tile = TILES[index];
  // Each block of a cluster loads as many of the columns, whole atoms of a swizzle.
  const int unit = 8 * tile.cluster;
  const int widest = static_cast<int>(std::min<int64_t>(tile.width(), round_up(problem.N, unit)));
  Plan best = with_cols(problem, device, untiled, index, widest);
  // Narrower steps than the tile's width pay where they spread the work evenly over the
  // SMs: those that fill all of them so many times, or the next that boxes can write.
  constexpr int MOST_ROUNDS = 6, NARROWEST = 32;
  const int64_t in_a_column = pieces_of(problem, best) / ceil_div(problem.N, int64_t{widest});
  const int64_t at_once = int64_t{tile.blocks} * device.sm_count / tile.cluster;
  for (int rounds = 1; rounds <= MOST_ROUNDS; ++rounds) {
    const int64_t columns = rounds * at_once / in_a_column;
    if (columns == 0) continue;
    const int64_t narrow = round_up(ceil_div(problem.N, columns), unit);
    for (const int64_t cols : {narrow, round_up(narrow, STAGING_COLS)}) {
      if (cols < NARROWEST || cols >= widest) continue;
      const Plan next = with_cols(problem, device, untiled, index, static_cast<int>(cols));
      if (next.microseconds < 0.99 * best.microseconds) best = next;
    }
  }
  return best;
}

/// Chunks of K, if there are any, are computed at one time, or one after the other where the tile
/// can add them and that is faster.
Plan with_tile(const Problem& problem, const Device& device, const Plan& untiled, int index) {
  const auto best = [&](const Plan& p) { return with_best_cols(problem, device, p, index); };
  if (untiled.chunk_steps == steps_of(problem)) return best(untiled);
  const Plan apart = best(in_chunks(problem, untiled));
  if (!TILES[index].adds_chunks()) return apart;
  const Plan in_turn = best(untiled);
  return in_turn.microseconds < apart.microseconds ? in_turn : apart;
}

/// Whether a plan is not to be chosen, whatever the model expects of it.
bool is_left_out(const Problem& problem, const Plan& p) {
  const Tile& tile = TILES[p.tile];
  // Of floats, small blocks are best for a batch of tiles of one step alone: 16,384 of 32^3 take
  // 87 us by three an SM, 114 by one, but 8192 of 48^3 75, not 66.
  const bool is_step = problem.M <= 64 && problem.N <= 64 && steps_of(problem) == 1;
  if (tile.blocks > 1 && problem.dtype == DType::f32 && !is_step) return true;
  // Pairs of 64 rows are for operands whose rows cut sectors of the cache. It is TMA's
  // requests that take long then, and a pair makes fewer: 1000^3 takes 9.0 us, not 10.4. Elsewhere
  // it is slower, 1024^3 7.3 where 6.6 are possible, and so are narrow steps.
  const bool is_small_pair = tile.cluster > 1 && tile.rows == PANEL;
  const int sector = step_k(problem.dtype) / 4;
  const bool cuts = p.a.line_stride % sector != 0 || p.b.line_stride % sector != 0;
  return is_small_pair && (!cuts || problem.M <= PANEL || p.tile_cols <= PANEL);
}

}  // namespace

bool takes(const Problem& problem, const Device& device) {
  // Rows and columns are counted in 32 bits, up to a tile beyond the last.
  constexpr int64_t LARGEST = (int64_t{1} << 31) - 1024, MOST_TILES = int64_t{1} << 30;
  if (problem.dtype == DType::f64) return false;
  if (!device.runs_sm90a() || device.shared_bytes < SHARED_BYTES) return false;
  if (problem.M < 1 || problem.N < 1 || problem.K < 1) return false;
  if (problem.M >= LARGEST || problem.N >= LARGEST || problem.K >= LARGEST) return false;
  return ceil_div(problem.M, 64) * ceil_div(problem.N, 32) * members_of(problem) < MOST_TILES;
}

bool has_tile(int tile, DType dtype) { return dtype != DType::f32 || TILES[tile].for_floats; }

Plan plan(const Problem& of_out, const Device& device) {
  const Plan base = untiled(of_out);
  const Problem problem = base.turned ? transposed(of_out) : of_out;
  if (problem.variant >= 0) return with_tile(problem, device, base, problem.variant);
  Plan best = with_tile(problem, device, base, 0);
  for (int tile = 1; tile < TILE_COUNT; ++tile) {
    if (!has_tile(tile, problem.dtype)) continue;
    const Plan next = with_tile(problem, device, base, tile);
    if (next.microseconds < best.microseconds && !is_left_out(problem, next)) best = next;
  }
  return best;
}

std::string text_of(const Plan& plan) {
  const Tile& tile = TILES[plan.tile];
  std::string text = "tiles " + std::string(TILE_NAMES[plan.tile]);
  if (plan.tile_cols < tile.width()) text += " of " + std::to_string(plan.tile_cols) + " columns";
  text += " by " + std::to_string(plan.clusters * tile.cluster) + " blocks";
  if (plan.chunks > 1) text += ", K in " + std::to_string(plan.chunks) + " chunks";
  if (plan.a.packed || plan.b.packed) {
    const bool is_a = plan.turned ? plan.b.packed : plan.a.packed;
    text += plan.a.packed && plan.b.packed ? ", a and b" : is_a ? ", a" : ", b";
    text += " packed first";
  }
  return text + ": " + std::to_string(std::lround(plan.microseconds)) + " us expected";
}

size_t workspace_bytes(const Problem& problem, const Plan& plan) {
  int64_t bytes = packed_bytes(problem, plan);
  if (plan.chunks > 1) {
    bytes += members_of(problem) * plan.chunks * problem.M * partial_pitch(problem.N) *
             int64_t{sizeof(float)};
  }
  return static_cast<size_t>(bytes);
}

}  // namespace smem::gemm::sm90
