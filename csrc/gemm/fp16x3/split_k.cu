#include <algorithm>

#include "device/pdl.h"
#include "device/vector.h"
#include "gemm/fp16x3/split_k.h"
#include "gemm/fp16x3/split_metadata.h"
#include "gemm/sm90/epilogue_params.h"
#include "gemm/sm90/batch.h"

namespace smem::gemm::fp16x3 {
inline namespace SMEM_BUILD {
namespace {

using sm90::BatchStrides;

/// The widest out whose K is cut, and so the most threads of a block, which has whole rows; and how
/// many it has where these are short.
constexpr int WIDEST = 512, SHORT_THREADS = 128;

struct Reduction {
  const float* partials;
  int chunks;
  uint32_t block_rows, member_blocks;  ///< rows of out a block, and blocks a member
  Epilogue<float> epilogue;
  BatchStrides strides;
  Lines a, b;
};

/// 2^exponent, also where that lies outside float32's range.
__device__ __forceinline__ double power_of_two(int exponent) {
  return __hiloint2double((exponent + 1023) << 20, 0);
}

/// A thread WIDTH neighbours in a row. Chunks are added in order, each scaled by its own lines, in
/// double: so the error does not grow with their number, and none of them overflows.
template <int WIDTH>
__global__ void __launch_bounds__(WIDEST) add_chunks_kernel(const __grid_constant__ Reduction r) {
  wait_on_dependent_grids();
  const int64_t rows = r.epilogue.out.rows;
  const auto cols = static_cast<uint32_t>(r.epilogue.out.cols);
  const uint32_t member = blockIdx.x / r.member_blocks, block = blockIdx.x % r.member_blocks;
  const uint32_t row_threads = cols / WIDTH, block_row = threadIdx.x / row_threads;
  const uint32_t col = (threadIdx.x - block_row * row_threads) * WIDTH;
  const int64_t row = int64_t{block} * r.block_rows + block_row;
  if (row >= rows) return;

  const Lines a = lines_of(r.a, member), b = lines_of(r.b, member);
  const float* const from = r.partials + (int64_t{member} * r.chunks * rows + row) * cols + col;
  double sums[WIDTH] = {};
  unsigned marks[WIDTH] = {};
#pragma unroll(WIDTH == 1 ? 16 : 4)
  for (int i = 0; i < r.chunks; ++i) {
    const auto partial = load_vector<WIDTH>(from + i * rows * cols);
    const auto exponent = load_vector<WIDTH>(b.exponent + i * cols + col);
    const auto mark = load_vector<WIDTH>(b.mark + i * cols + col);
    const int row_exponent = a.exponent[i * rows + row];
    const unsigned row_mark = a.mark[i * rows + row];
#pragma unroll
    for (int j = 0; j < WIDTH; ++j) {
      const unsigned either = row_mark | mark.lane[j];
      const int scale = either & EXACT ? 0 : row_exponent + exponent.lane[j];
      sums[j] = fma(double{partial.lane[j]}, power_of_two(scale), sums[j]);
      marks[j] |= either;
    }
  }
  const auto epilogue = sm90::epilogue_at_batch(r.epilogue, r.strides, member);
#pragma unroll
  for (int j = 0; j < WIDTH; ++j) {
    for (int i = 0; marks[j] & MENDED && i < r.chunks; ++i) {
      const Lines part_a = lines_of(r.a, member, i), part_b = lines_of(r.b, member, i);
      if ((part_a.mark[row] | part_b.mark[col + j]) & EXACT) continue;
      sums[j] = mended(part_a, row, part_b, col + j, sums[j]);
    }
    epilogue.store(row, col + j, static_cast<float>(sums[j]));
  }
}
static_assert((EXACT & MENDED) == 0, "marks can be told apart when combined");

}  // namespace
}  // namespace SMEM_BUILD

Chunks::Chunks(int64_t N, int64_t K) {
  // One row of the narrowest tiles, 32 columns wide, makes 128 pieces, as many as there are
  // SMs; but a chunk is 8 N long or more, so that at the largest M, where there is no
  // need to cut, its sums cost some 8%.
  constexpr int64_t COLS = 32, PIECES = 128, UNIT = 512;
  const int64_t shortest = std::max(2 * UNIT, ceil_div(8 * N, UNIT) * UNIT);
  const int64_t most = PIECES / std::min(ceil_div(N, COLS), PIECES);
  const bool is_cut = N <= WIDEST && K >= 2 * shortest;
  length = is_cut ? std::max(shortest, ceil_div(ceil_div(K, most), UNIT) * UNIT) : K;
  count = ceil_div(K, length);
}

size_t Chunks::bytes(const Problem& problem) const {
  const int64_t sums = count > 1 ? inner_batch_count(problem) * count * problem.M * problem.N : 0;
  return static_cast<size_t>(sums) * sizeof(float);
}

void add_chunks(const Problem& problem, const split::Split& a, const split::Split& b,
                const float* partials, const Device& device) {
  constexpr int WIDE = 4;
  constexpr int64_t MANY = 1 << 18;  // fewer are better spread over more threads
  const int64_t elements = inner_batch_count(problem) * problem.M * problem.N;
  const bool is_wide = problem.N % WIDE == 0 && elements >= MANY;
  const int64_t row_threads = is_wide ? problem.N / WIDE : problem.N;
  const int64_t block_rows = std::max<int64_t>(SHORT_THREADS / row_threads, 1);
  const int64_t blocks = ceil_div(problem.M, block_rows);
  const dim3 threads(static_cast<unsigned>(block_rows * row_threads));
  launch("fp16x3 chunks", is_wide ? add_chunks_kernel<WIDE> : add_chunks_kernel<1>,
         {blocks * inner_batch_count(problem), threads, 0, true}, device,
         Reduction{partials, static_cast<int>(a.parts), static_cast<uint32_t>(block_rows),
                   static_cast<uint32_t>(blocks), sm90::epilogue_of<float>(problem),
                   sm90::batch_strides(problem), Lines(a), Lines(b)});
}

}  // namespace smem::gemm::fp16x3
