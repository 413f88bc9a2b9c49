// double_buffered for the rows and columns that halves cannot carry: with elements that are not
// finite, or with several that are too small beside the largest of their line. Whether there are
// any is known on the GPU alone, so the kernel always runs, as many blocks as find room: they go
// through all tiles, and pass those by that have none.
#include <algorithm>

#include "device/programmatic.h"
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
  const uint8_t *rows, *cols;    ///< marks, part after part, member after member
  int64_t next_rows, next_cols;  ///< to the next member's, 0 where all share
  int64_t part_length;           ///< of K
  float* partials;               ///< of chunks.h, where there are several parts
  unsigned parts, part_tiles, tiles;
};

__global__ void __launch_bounds__(Threads::THREADS, BLOCKS_AT_ONCE)
    exact_kernel(const __grid_constant__ Exact exact) {
  __shared__ typename Threads::Stage As[2];
  __shared__ typename Threads::Stage Bs[2];
  let_next_begin();
  wait_for_previous();
  const Problem& problem = exact.problem;
  const int thread = static_cast<int>(threadIdx.x), at = thread % TILE;
  const bool is_col = thread >= TILE;
  for (unsigned index = blockIdx.x; index < exact.tiles; index += gridDim.x) {
    const unsigned part_index = index / exact.part_tiles, part = part_index % exact.parts;
    const unsigned member = part_index / exact.parts;
    Block<float> block(problem, TILE, TILE, index - (part_index - member) * exact.part_tiles);
    const uint8_t* const rows = exact.rows + member * exact.next_rows + part * problem.M;
    const uint8_t* const cols = exact.cols + member * exact.next_cols + part * problem.N;
    const int64_t line = at + (is_col ? block.col0 : block.row0);
    const bool is_marked =
        line < (is_col ? problem.N : problem.M) && (is_col ? cols : rows)[line] == split::EXACT;
    if (!__syncthreads_or(is_marked)) continue;

    const int64_t first = part * exact.part_length, left = problem.K - first;
    const int64_t length = left < exact.part_length ? left : exact.part_length;
    block.A.data += first * block.A.col_stride;
    block.B.data += first * block.B.row_stride;
    block.A.cols = block.B.rows = length;
    Threads tile;
    multiply_by_two_stages(block, length, As, Bs, tile);
    float* const partials = exact.partials + part_index * problem.M * problem.N;
    tile.for_each_run(block, [&](int64_t row, int64_t col, const auto& sums) {
      if (row >= problem.M) return;
#pragma unroll
      for (int i = 0; i < Threads::GROUP; ++i) {
        if (col + i >= problem.N) continue;
        if (rows[row] != split::EXACT && cols[col + i] != split::EXACT) continue;
        if (exact.parts > 1) {
          partials[row * problem.N + col + i] = sums[i];
        } else {
          block.epilogue.store(row, col + i, sums[i]);
        }
      }
    });
  }
}

}  // namespace
}  // namespace SMEM_BUILD

void compute_exactly(const Problem& problem, const split::Split& a, const split::Split& b,
                     float* partials, const Device& device) {
  const int64_t part_tiles = ceil_div(problem.M, TILE) * ceil_div(problem.N, TILE);
  const int64_t tiles = part_tiles * a.parts * members_of(problem);
  const int64_t blocks = std::min<int64_t>(tiles, BLOCKS_AT_ONCE * device.multiprocessors);
  launch("fp16x3 exact", exact_kernel, {blocks, {Threads::THREADS}, 0, true}, device,
         Exact{problem, a.mark, b.mark, a.members > 1 ? a.parts * a.lines : 0,
               b.members > 1 ? b.parts * b.lines : 0, a.part_length, partials,
               static_cast<unsigned>(a.parts), static_cast<unsigned>(part_tiles),
               static_cast<unsigned>(tiles)});
}

}  // namespace smem::gemm::halves
