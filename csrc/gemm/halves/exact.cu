// The rows and columns that halves cannot carry, by float32 fmas in the order of the SIMT kernels:
// with elements that are not finite, or so small beside the largest of their line that halves hold
// less of them than float32.
//
// Whether there are any is known on the GPU alone, so the kernel always runs. A block whose tile of
// out has none ends at once. One with a few, which in large matrices of normally distributed
// numbers happens, computes these lines alone; one with more is double_buffered.
#include "gemm/halves/exact.h"
#include "gemm/two_stages.h"

namespace smem::gemm::halves {
inline namespace SMEM_BUILD {
namespace {

using Threads = ThreadTile<float>;
constexpr int TILE = Threads::TILE, DEPTH = Threads::DEPTH;
/// The most marked lines of a tile that are computed by themselves. The steps along K under way
/// meanwhile: 63 KB, which hide the memory's latency where so few blocks have work.
constexpr int FEW = 8, STAGES = 8;

static_assert(Threads::THREADS == 2 * TILE, "a thread for each row and each column");
static_assert(FEW * DEPTH <= Threads::THREADS, "a thread for each element of the marked lines");

struct Exact {
  Problem problem;
  Marks marks;
};

/// A step along K: a tile's rows of A or columns of B, and the marked lines they are multiplied by.
struct Stage {
  Threads::Stage tile;
  Tile<float, DEPTH, FEW> lines;
};
constexpr size_t SHARED_SIZE = STAGES * sizeof(Stage);
static_assert(SHARED_SIZE >= 4 * sizeof(Threads::Stage), "or the stages of double_buffered");

/// The products of up to FEW lines of Y and a tile of lines of X, from line `x0` on. The calling
/// thread's are of line x0 + thread % TILE and every second one of Y's, from thread / TILE on.
struct Lines {
  static constexpr int MINE = FEW / 2;

  ChunkedSums<float, MINE> sums;

  __device__ __forceinline__ void multiply(const Matrix<const float>& X, int64_t x0,
                                           const Matrix<const float>& Y, int64_t y0,
                                           const int (&lines)[FEW], int count, Stage* stages) {
    const int thread = static_cast<int>(threadIdx.x), line = thread / DEPTH, k = thread % DEPTH;
    const float* from = line < count ? &Y(y0 + lines[line], k) : Y.data;
    int64_t left = line < count ? X.cols - k : 0;
    AsyncLoader<float> load_x(X, x0);
    int64_t steps_to_load = (X.cols + DEPTH - 1) / DEPTH;
    const auto load_next = [&](Stage& stage) {
      if (steps_to_load-- > 0) {
        load_x.next(stage.tile);
        if (line < FEW) copy_async<1>(stage.lines.at(k, line), from, left > 0);
        from += DEPTH * Y.col_stride;
        left -= DEPTH;
      }
      commit_copies();
    };

    for (int i = 0; i < STAGES - 1; ++i) load_next(stages[i]);
    int at = 0;
    for_each_step<DEPTH>(X.cols, sums, [&](int64_t) {
      wait_for_groups<STAGES - 2>();
      __syncthreads();
      load_next(stages[(at + STAGES - 1) % STAGES]);
      const Stage& stage = stages[at];
      at = (at + 1) % STAGES;
#pragma unroll
      for (int i = 0; i < DEPTH; ++i) {
        const float x = stage.tile(i, thread % TILE);
#pragma unroll
        for (int j = 0; j < MINE; ++j) {
          sums.add_product(stage.lines(i, 2 * j + thread / TILE), x, j);
        }
      }
    });
    wait_for_copies();
    __syncthreads();
  }

  /// Calls store(line of Y, line of the tile, sum) for the calling thread's sums.
  template <typename Store>
  __device__ __forceinline__ void for_each(const int (&lines)[FEW], int count,
                                           const Store& store) const {
    const int thread = static_cast<int>(threadIdx.x);
#pragma unroll
    for (int j = 0; j < MINE; ++j) {
      const int line = 2 * j + thread / TILE;
      if (line < count) store(lines[line], thread % TILE, sums.value(j));
    }
  }
};

__global__ void __launch_bounds__(Threads::THREADS, 2)
    exact_kernel(const __grid_constant__ Exact exact) {
  __shared__ unsigned masks[Threads::THREADS / 32];
  __shared__ int rows_of_tile[FEW], cols_of_tile[FEW];
  const Problem& problem = exact.problem;
  const Block<float> block(problem, TILE, TILE);
  const int64_t member = blockIdx.x / (ceil_div(problem.M, TILE) * ceil_div(problem.N, TILE));
  const uint8_t* const rows = exact.marks.rows + member * exact.marks.next_rows;
  const uint8_t* const cols = exact.marks.cols + member * exact.marks.next_cols;

  const int thread = static_cast<int>(threadIdx.x), at = thread % TILE;
  const bool is_col = thread >= TILE;
  const int64_t line = at + (is_col ? block.col0 : block.row0);
  const bool is_marked =
      line < (is_col ? problem.N : problem.M) && (is_col ? cols : rows)[line] != 0;
  const int count = __syncthreads_count(is_marked);
  if (count == 0) return;

  auto* const stages = dynamic_shared<Stage>();
  if (count > FEW) {
    using Pair = Threads::Stage[2];
    auto* const pairs = reinterpret_cast<Pair*>(stages);
    Threads tile;
    multiply_by_two_stages(block, problem.K, pairs[0], pairs[1], tile);
    tile.for_each_run(block, [&](int64_t row, int64_t col, const auto& sums) {
      if (row >= problem.M) return;
#pragma unroll
      for (int i = 0; i < Threads::GROUP; ++i) {
        if (col + i < problem.N && (rows[row] || cols[col + i])) {
          block.epilogue.store(row, col + i, sums[i]);
        }
      }
    });
    return;
  }

  const unsigned mask = __ballot_sync(~0u, is_marked);
  if (thread % 32 == 0) masks[thread / 32] = mask;
  __syncthreads();
  constexpr int HALF = TILE / 32;  // warps that look at rows
  int before = __popc(mask & ((1u << thread % 32) - 1)), row_count = 0;
  for (int warp = 0; warp < HALF; ++warp) {
    if (warp < thread / 32 - (is_col ? HALF : 0)) before += __popc(masks[warp + is_col * HALF]);
    row_count += __popc(masks[warp]);
  }
  if (is_marked) (is_col ? cols_of_tile : rows_of_tile)[before] = at;
  __syncthreads();

  const auto B = block.B.transposed();
  if (row_count > 0) {
    Lines products;
    products.multiply(B, block.col0, block.A, block.row0, rows_of_tile, row_count, stages);
    products.for_each(rows_of_tile, row_count, [&](int row, int col, float sum) {
      block.epilogue.store(block.row0 + row, block.col0 + col, sum);
    });
  }
  if (count > row_count) {
    Lines products;
    products.multiply(block.A, block.row0, B, block.col0, cols_of_tile, count - row_count, stages);
    products.for_each(cols_of_tile, count - row_count, [&](int col, int row, float sum) {
      block.epilogue.store(block.row0 + row, block.col0 + col, sum);
    });
  }
}

}  // namespace
}  // namespace SMEM_BUILD

void compute_exactly(const Problem& problem, const Marks& marks, const Device& device) {
  launch("fp16x3 exact", exact_kernel, cover(problem, TILE, TILE, {Threads::THREADS}, SHARED_SIZE),
         device, Exact{problem, marks});
}

}  // namespace smem::gemm::halves
