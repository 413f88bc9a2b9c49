// The reduction of split-K. A block takes whole rows of out or a part of one, a thread WIDTH
// neighbouring elements.
#include <algorithm>

#include "device/pdl.h"
#include "device/vector.h"
#include "gemm/batch.h"
#include "gemm/epilogue_params.h"
#include "gemm/fp16x3/split_k.h"
#include "gemm/fp16x3/split_metadata.h"

namespace smem::gemm::fp16x3::inline SMEM_BUILD {
namespace {

/// Threads per block: rows of out that are shorter are taken together, and longer ones apart.
constexpr int MIN_BLOCK_THREADS = 128, MAX_BLOCK_THREADS = 512;

struct ReduceSplitKParams {
  const float* partials;
  int k_slices;
  uint32_t block_rows;    ///< rows of out per block
  uint32_t row_blocks;    ///< blocks per row of out
  uint32_t row_threads;   ///< threads per row and block
  uint32_t batch_blocks;  ///< blocks per matrix of the batch
  Epilogue<float> epilogue;
  BatchStrides strides;
  SplitMetadata a, b;
};

/// 2^exponent, also if that is outside float32's range.
__device__ __forceinline__ double power_of_two(int exponent) {
  return __hiloint2double((exponent + 1023) << 20, 0);
}

/// The k slices are added in order, in double, each scaled by its own powers of two. So the error
/// does not grow with their number, and none of them overflows.
template <int WIDTH>
__global__ void __launch_bounds__(MAX_BLOCK_THREADS)
    reduce_split_k_kernel(const __grid_constant__ ReduceSplitKParams params) {
  wait_on_dependent_grids();
  const int64_t rows = params.epilogue.out.rows;
  const auto cols = static_cast<uint32_t>(params.epilogue.out.cols);
  const uint32_t batch = blockIdx.x / params.batch_blocks, block = blockIdx.x % params.batch_blocks;
  const uint32_t first_row = block / params.row_blocks * params.block_rows;
  const uint32_t block_row = threadIdx.x / params.row_threads;
  const uint32_t first_thread = block % params.row_blocks * MAX_BLOCK_THREADS;
  const uint32_t col = (first_thread + threadIdx.x - block_row * params.row_threads) * WIDTH;
  const int64_t row = int64_t{first_row} + block_row;
  if (row >= rows || col >= cols) return;

  const SplitMetadata a = metadata_at(params.a, batch), b = metadata_at(params.b, batch);
  const float* const src =
      params.partials + (int64_t{batch} * params.k_slices * rows + row) * cols + col;
  double accum[WIDTH] = {};
  unsigned statuses[WIDTH] = {};
#pragma unroll(WIDTH == 1 ? 16 : 4)
  for (int i = 0; i < params.k_slices; ++i) {
    const auto partial = load_vector<WIDTH>(src + i * rows * cols);
    const auto exponent = load_vector<WIDTH>(b.exponent + i * cols + col);
    const auto status = load_vector<WIDTH>(b.status + i * cols + col);
    const int row_exponent = a.exponent[i * rows + row];
    const unsigned row_status = a.status[i * rows + row];
#pragma unroll
    for (int j = 0; j < WIDTH; ++j) {
      const unsigned combined = row_status | status.lane[j];
      const int scale = combined & FALLBACK ? 0 : row_exponent + exponent.lane[j];
      accum[j] = fma(double{partial.lane[j]}, power_of_two(scale), accum[j]);
      statuses[j] |= combined;
    }
  }
  const auto epilogue = epilogue_at_batch(params.epilogue, params.strides, batch);
#pragma unroll
  for (int j = 0; j < WIDTH; ++j) {
    for (int i = 0; statuses[j] & ONE_OUTLIER && i < params.k_slices; ++i) {
      const SplitMetadata slice_a = metadata_at(params.a, batch, i);
      const SplitMetadata slice_b = metadata_at(params.b, batch, i);
      if ((slice_a.status[row] | slice_b.status[col + j]) & FALLBACK) continue;
      accum[j] = add_outlier_products(slice_a, row, slice_b, col + j, accum[j]);
    }
    epilogue.store(row, col + j, static_cast<float>(accum[j]));
  }
}
static_assert((FALLBACK & ONE_OUTLIER) == 0, "statuses remain distinct when combined by OR");

}  // namespace

SplitKConfig::SplitKConfig(int64_t N, int64_t K) {
  // One row of tiles of TILE_N columns, the narrowest, makes about one tile per SM. The blocks of a
  // skinny product have 16 columns, and three of them fit on an SM: for N > SMALL_N, whose slices
  // are long, there are as many. But slices have a least length, since at the largest M, where K
  // need not be cut, partials are written and read. Of 2,233 problems 268 gain more than a tenth by
  // lengths of 4 N and 2 N instead of 8 N, and 124 lose as much.
  constexpr int64_t TILE_N = 32, TINY_N = 128, SMALL_N = 512, ALIGNMENT = 512;
  const int64_t max_tiles = N <= SMALL_N ? 128 : 192;
  const int64_t multiple = N <= TINY_N ? 8 : N <= SMALL_N ? 4 : 2;
  const int64_t min_length = std::max(2 * ALIGNMENT, round_up(multiple * N, ALIGNMENT));
  const int64_t max_slices = std::max<int64_t>(max_tiles / ceil_div(N, TILE_N), 1);
  const bool is_split = max_slices > 1 && K >= 2 * min_length;
  slice_length = is_split ? std::max(min_length, round_up(ceil_div(K, max_slices), ALIGNMENT)) : K;
  slices = ceil_div(K, slice_length);
}

size_t SplitKConfig::partials_bytes(const Problem& problem) const {
  const int64_t count =
      slices > 1 ? inner_batch_count(problem) * slices * problem.M * problem.N : 0;
  return static_cast<size_t>(count) * sizeof(float);
}

void reduce_split_k(const Problem& problem, const split::SplitOperand& a,
                    const split::SplitOperand& b, const float* partials, const Device& device) {
  constexpr int WIDTH = 4;
  constexpr int64_t MIN_VECTORIZED = 1 << 18;  // fewer elements are better spread over more threads
  const int64_t elements = inner_batch_count(problem) * problem.M * problem.N;
  const bool vectorized = problem.N % WIDTH == 0 && elements >= MIN_VECTORIZED;
  const int64_t threads_n = vectorized ? problem.N / WIDTH : problem.N;
  const int64_t row_blocks = ceil_div(threads_n, MAX_BLOCK_THREADS);
  const int64_t row_threads = std::min<int64_t>(threads_n, MAX_BLOCK_THREADS);
  const int64_t block_rows = std::max<int64_t>(MIN_BLOCK_THREADS / row_threads, 1);
  const int64_t blocks = ceil_div(problem.M, block_rows) * row_blocks;
  const dim3 threads(static_cast<unsigned>(block_rows * row_threads));
  launch("fp16x3 reduce split-K",
         vectorized ? reduce_split_k_kernel<WIDTH> : reduce_split_k_kernel<1>,
         {blocks * inner_batch_count(problem), threads, 0, true}, device,
         ReduceSplitKParams{
             .partials = partials,
             .k_slices = static_cast<int>(a.k_slices),
             .block_rows = static_cast<uint32_t>(block_rows),
             .row_blocks = static_cast<uint32_t>(row_blocks),
             .row_threads = static_cast<uint32_t>(row_threads),
             .batch_blocks = static_cast<uint32_t>(blocks),
             .epilogue = epilogue_of<float>(problem),
             .strides = batch_strides(problem),
             .a = SplitMetadata(a),
             .b = SplitMetadata(b),
         });
}

}  // namespace smem::gemm::fp16x3::inline SMEM_BUILD
