// double_buffered for the rows and columns that halves cannot carry: with elements that are not
// finite, or with several that are too small beside the largest of their line. Whether there are
// any is known on the GPU alone, so the kernel always runs, as many blocks as find room: they go
// through all tiles, and pass those by that have none.
#include <algorithm>

#include "gemm/halves/exact.h"
#include "gemm/hopper/members.h"
#include "gemm/two_stages.h"

namespace smem::gemm::halves {
inline namespace SMEM_BUILD {
namespace {

using Threads = ThreadTile<float>;
constexpr int TILE = Threads::TILE, BLOCKS_AT_ONCE = 2;
static_assert(Threads::THREADS == 2 * TILE, "a thread for each row and each column");

struct Exact {
  Problem problem;
  const uint8_t *rows, *cols;    ///< marks, member after member
  int64_t next_rows, next_cols;  ///< to the next member's, 0 where all share
  unsigned member_tiles, tiles;
};

__global__ void __launch_bounds__(Threads::THREADS, BLOCKS_AT_ONCE)
    exact_kernel(const __grid_constant__ Exact exact) {
  __shared__ typename Threads::Stage As[2];
  __shared__ typename Threads::Stage Bs[2];
  const Problem& problem = exact.problem;
  const int thread = static_cast<int>(threadIdx.x), at = thread % TILE;
  const bool is_col = thread >= TILE;
  for (unsigned index = blockIdx.x; index < exact.tiles; index += gridDim.x) {
    const Block<float> block(problem, TILE, TILE, index);
    const uint8_t* const rows = exact.rows + index / exact.member_tiles * exact.next_rows;
    const uint8_t* const cols = exact.cols + index / exact.member_tiles * exact.next_cols;
    const int64_t line = at + (is_col ? block.col0 : block.row0);
    const bool is_marked =
        line < (is_col ? problem.N : problem.M) && (is_col ? cols : rows)[line] == split::EXACT;
    if (!__syncthreads_or(is_marked)) continue;

    Threads tile;
    multiply_by_two_stages(block, problem.K, As, Bs, tile);
    tile.for_each_run(block, [&](int64_t row, int64_t col, const auto& sums) {
      if (row >= problem.M) return;
#pragma unroll
      for (int i = 0; i < Threads::GROUP; ++i) {
        if (col + i < problem.N && (rows[row] == split::EXACT || cols[col + i] == split::EXACT)) {
          block.epilogue.store(row, col + i, sums[i]);
        }
      }
    });
  }
}

}  // namespace
}  // namespace SMEM_BUILD

void compute_exactly(const Problem& problem, const split::Split& a, const split::Split& b,
                     const Device& device) {
  const int64_t member_tiles = ceil_div(problem.M, TILE) * ceil_div(problem.N, TILE);
  const int64_t tiles = member_tiles * members_of(problem);
  const int64_t blocks = std::min<int64_t>(tiles, BLOCKS_AT_ONCE * device.multiprocessors);
  launch("fp16x3 exact", exact_kernel, {blocks, {Threads::THREADS}}, device,
         Exact{problem, a.mark, b.mark, a.members > 1 ? a.lines : 0, b.members > 1 ? b.lines : 0,
               static_cast<unsigned>(member_tiles), static_cast<unsigned>(tiles)});
}

}  // namespace smem::gemm::halves
