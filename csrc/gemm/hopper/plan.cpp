#include "gemm/hopper/plan.h"

#include <algorithm>
#include <cstdint>

namespace smem::gemm::hopper {
namespace {

constexpr int64_t VECTOR = 16 / ELEMENT_BYTES;  ///< elements in the copy engine's unit of address

int64_t round_up(int64_t value, int64_t unit) { return ceil_div(value, unit) * unit; }

bool is_aligned(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer) % 16 == 0; }

/// The members of the batch that one launch takes: its innermost loop.
int64_t members_of(const Problem& problem) {
  const auto& batch = problem.batch;
  return batch.rank == 0 ? 1 : batch.size[batch.rank - 1];
}
int64_t member_stride(const Problem& problem, Tensor tensor) {
  const auto& batch = problem.batch;
  return batch.rank == 0 ? 0 : batch.stride[tensor][batch.rank - 1];
}
/// Whether all of a batch stays aligned where its first member is.
bool batch_is_aligned(const Problem& problem, Tensor tensor) {
  const auto& batch = problem.batch;
  for (int d = 0; d < batch.rank; ++d) {
    if (batch.stride[tensor][d] % VECTOR != 0 || batch.stride[tensor][d] < 0) return false;
  }
  return true;
}

/// `size` is M or N.
Source source_of(const Problem& problem, Tensor tensor, const void* data, int64_t size,
                 int64_t stride, int64_t k_stride) {
  const int64_t K = problem.K;
  const bool k_major = k_stride == 1 || K == 1, mn_major = stride == 1 || size == 1;
  const bool aligned = is_aligned(data) && batch_is_aligned(problem, tensor);
  const auto fits = [&](int64_t lines, int64_t line_stride) {
    return lines == 1 || (line_stride % VECTOR == 0 && line_stride > 0);
  };
  Source s{};
  s.batched = member_stride(problem, tensor) != 0;
  s.members = s.batched ? members_of(problem) : 1;
  const bool k_in_place = aligned && k_major && fits(size, stride);
  const bool mn_in_place = aligned && mn_major && fits(K, k_stride);
  s.packed = !k_in_place && !mn_in_place;
  s.major = k_in_place || (s.packed && (k_major || !mn_major)) ? Major::K : Major::MN;
  s.length = s.major == Major::K ? K : size;
  s.lines = s.major == Major::K ? size : K;
  if (s.packed) {
    s.line_stride = round_up(s.length, VECTOR);
    s.member_stride = round_up(s.lines * s.line_stride, 128);
  } else {
    // One line has no stride of its own; the map wants a legal one.
    s.line_stride =
        s.lines == 1 ? round_up(s.length, VECTOR) : s.major == Major::K ? stride : k_stride;
    s.member_stride = s.batched ? member_stride(problem, tensor) : VECTOR;
  }
  return s;
}

bool boxes_can_write(const Problem& problem) {
  return problem.out.col_stride == 1 && problem.out.row_stride % VECTOR == 0 &&
         problem.out.row_stride > 0 && is_aligned(problem.out.data) &&
         batch_is_aligned(problem, OUT) && problem.alpha == 1 && !problem.c.data &&
         (problem.activation == Activation::none || problem.activation == Activation::relu);
}

/// Chunks of K for outputs so narrow that tiles alone cannot keep the multiprocessors busy. Of N
/// and K alone: M must not change the bits.
int64_t chunk_steps_of(int64_t N, int64_t K) {
  constexpr int64_t NARROW = 256, SHORTEST = 2048, MOST = 128;
  const int64_t steps = ceil_div(K, STEP_K);
  if (N > NARROW || K < 4 * SHORTEST) return steps;
  return round_up(std::max(SHORTEST / STEP_K, ceil_div(steps, MOST)), 2);
}

/// Seconds from counts, on an H200. Rates are of one multiprocessor, in bytes or operations a
/// nanosecond.
struct Model {
  double multiply = 6400;    ///< 128 x 256 tiles; narrower ones in proportion to their least cost
  double from_l2 = 60;       ///< what one multiprocessor loads
  double dram = 4200;        ///< all of them
  double start = 2500;       ///< ns: launch, first loads, end
  double tile_overhead = 500;  ///< ns: a tile's sums to out
  double pack = 3000;        ///< bytes read and written a ns
};

double nanoseconds(const Problem& problem, const Plan& p, const Device& device) {
  const Model model;
  const Tile& tile = TILES[p.tile];
  const int64_t members = members_of(problem);
  const int64_t rows = ceil_div(problem.M, int64_t{tile.rows} * tile.cluster_rows);
  const int64_t cols = ceil_div(problem.N, int64_t{p.tile_cols} * tile.cluster_cols);
  const int64_t pieces = rows * cols * members * p.chunks;
  const auto rounds = static_cast<double>(ceil_div(pieces, int64_t{p.clusters}));
  const double steps = static_cast<double>(p.chunk_steps);

  // A wgmma of few columns still reads its 64 rows of A.
  const double width = std::max(tile.cols, 64);
  const double multiply = 2.0 * tile.rows * width * STEP_K / model.multiply *
                          (tile.consumers() == 1 ? 1.0 : 1.0);
  const double real_rows =
      static_cast<double>(std::min<int64_t>(problem.M, tile.rows)) / tile.cluster_cols;
  const double real_cols =
      static_cast<double>(std::min<int64_t>(problem.N, p.tile_cols)) / tile.cluster_rows;
  const double load = (real_rows + real_cols) * ROW_BYTES / model.from_l2;
  const double step = std::max({multiply, load, 30.0});
  const double busy = rounds * (steps * step + model.tile_overhead *
                                                   (p.boxes ? 1.0 : 2.0) * tile.rows * tile.cols /
                                                   (128 * 256)) +
                      200 * rounds;

  const double bytes =
      ELEMENT_BYTES * (static_cast<double>(problem.M * problem.K) * p.a.members +
                       static_cast<double>(problem.N * problem.K) * p.b.members +
                       static_cast<double>(problem.M * problem.N) * members);
  const double dram = bytes / model.dram;
  (void)device;
  const double partials =
      p.chunks > 1 ? 3000 + 8.0 * problem.M * problem.N * members * p.chunks / model.dram : 0;
  return model.start + std::max(busy, dram) + partials +
         2.0 * static_cast<double>(p.a.packed_bytes() + p.b.packed_bytes()) / model.pack;
}

/// The strip that makes the tiles of one wave read the fewest bytes.
int strip_of(const Tile& tile, int64_t rows, int clusters) {
  const double height = double(tile.rows) * tile.cluster_rows;
  int best = 1;
  double least = 0;
  for (const int strip : {1, 2, 4, 8, 16, 32}) {
    if (strip > 1 && strip / 2 >= rows) break;
    const double cols = double(clusters) / strip * tile.cols * tile.cluster_cols;
    const double read = strip * height + cols;
    if (least == 0 || read < least) {
      least = read;
      best = strip;
    }
  }
  return best;
}

Plan with_tile(const Problem& problem, const Device& device, int index, int tile_cols) {
  const Tile& tile = TILES[index];
  Plan p{};
  p.tile = index;
  p.tile_cols = tile_cols;
  p.a = source_of(problem, A, problem.a.data, problem.M, problem.a.row_stride, problem.a.col_stride);
  p.b = source_of(problem, B, problem.b.data, problem.N, problem.b.col_stride, problem.b.row_stride);
  const int64_t steps = ceil_div(problem.K, STEP_K);
  const int64_t chunk_steps = chunk_steps_of(problem.N, problem.K);
  p.chunk_steps = static_cast<int>(chunk_steps);
  p.chunks = static_cast<int>(ceil_div(steps, chunk_steps));
  p.boxes = p.chunks == 1 && boxes_can_write(problem) && tile_cols % STAGING_COLS == 0;
  const int64_t rows = ceil_div(problem.M, int64_t{tile.rows} * tile.cluster_rows);
  const int64_t cols = ceil_div(problem.N, int64_t{tile_cols} * tile.cluster_cols);
  const int64_t pieces = rows * cols * members_of(problem) * p.chunks;
  p.clusters = static_cast<int>(
      std::min<int64_t>(pieces, std::max(1, device.multiprocessors / tile.cluster())));
  p.strip = strip_of(tile, rows, p.clusters);
  p.microseconds = nanoseconds(problem, p, device) / 1000;
  return p;
}

/// Narrower steps than the tile's width pay where they spread little work over more blocks.
Plan best_width(const Problem& problem, const Device& device, int index) {
  const Tile& tile = TILES[index];
  Plan best = with_tile(problem, device, index, tile.cols);
  if (tile.cluster() > 1) return best;
  for (int cols = tile.cols - 8; cols > tile.cols / 2; cols -= 8) {
    const Plan next = with_tile(problem, device, index, cols);
    if (next.microseconds < 0.98 * best.microseconds) best = next;
  }
  return best;
}

}  // namespace

bool takes(const Problem& problem, const Device& device) {
  constexpr int64_t LARGEST = int64_t{1} << 31, MOST_TILES = int64_t{1} << 30;
  if (problem.dtype != DType::f16 && problem.dtype != DType::bf16) return false;
  if (device.capability != 90 || device.shared_bytes < SHARED_BYTES) return false;
  if (problem.M < 1 || problem.N < 1 || problem.K < 1) return false;
  if (problem.M >= LARGEST || problem.N >= LARGEST || problem.K >= LARGEST) return false;
  return ceil_div(problem.M, 64) * ceil_div(problem.N, 32) * members_of(problem) < MOST_TILES;
}

Plan plan_with_tile(const Problem& problem, const Device& device, int tile) {
  return best_width(problem, device, tile);
}

Plan plan(const Problem& problem, const Device& device) {
  Plan best = best_width(problem, device, 0);
  for (int tile = 1; tile < TILE_COUNT; ++tile) {
    const Plan next = best_width(problem, device, tile);
    if (next.microseconds < best.microseconds) best = next;
  }
  return best;
}

size_t workspace_bytes(const Problem& problem, const Plan& plan) {
  int64_t bytes = round_up(plan.a.packed_bytes(), 256) + round_up(plan.b.packed_bytes(), 256);
  if (plan.chunks > 1) {
    bytes += members_of(problem) * plan.chunks * problem.M * problem.N * int64_t{sizeof(float)};
  }
  return static_cast<size_t>(bytes);
}

}  // namespace smem::gemm::hopper
