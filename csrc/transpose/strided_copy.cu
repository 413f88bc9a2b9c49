// strided_copy: copies runs of elements that stay side by side, from where they are to where they belong.
//
// That is what a transpose is which leaves the last dimension in place: (B, S, H, D) to (B, H, S,
// D) moves whole rows of D. Nothing must be turned, so there is no shared memory and no barrier: a
// thread has a few elements under way, neighbours have neighbours of a run. Runs that consist of
// 16-byte pieces arrive here as elements of 16 bytes.
#include "transpose/block.h"
#include "transpose/tiling.h"

namespace smem::transpose {
inline namespace SMEM_BUILD {

/// The rows of the problem are the run, its columns are the runs.
struct RunsProblem {
  Problem problem;
  int log2_run;  ///< elements of a run that a block copies
};

constexpr int LOG2_RUNS_ELEMENTS = log2_of(RUNS_THREADS * RUNS_A_THREAD);

template <typename T>
__global__ void __launch_bounds__(RUNS_THREADS)
    runs_kernel(const __grid_constant__ RunsProblem arguments) {
  const int length = 1 << arguments.log2_run;
  // Blocks that follow each other go on along the run.
  const Block<T> block(arguments.problem, tiles_of(arguments.problem, arguments.log2_run,
                                                   LOG2_RUNS_ELEMENTS - arguments.log2_run));
  const auto row_of = [&](int i) {
    return block.row0 + ((threadIdx.x + i * RUNS_THREADS) & (length - 1));
  };
  const auto col_of = [&](int i) {
    return block.col0 + ((threadIdx.x + i * RUNS_THREADS) >> arguments.log2_run);
  };
  T values[RUNS_A_THREAD];
#pragma unroll
  for (int i = 0; i < RUNS_A_THREAD; ++i) {
    if (block.in.contains(row_of(i), col_of(i))) values[i] = block.in(row_of(i), col_of(i));
  }
#pragma unroll
  for (int i = 0; i < RUNS_A_THREAD; ++i) {
    if (block.in.contains(row_of(i), col_of(i))) block.out(col_of(i), row_of(i)) = values[i];
  }
}

struct Runs {
  static constexpr const char* NAME = "strided_copy";
  template <typename T>
  static constexpr auto kernel() {
    return runs_kernel<T>;
  }
  template <typename T>
  static void run(const Problem& problem, const Device& device) {
    const int log2 = log2_run(problem);
    launch(NAME, kernel<T>(),
           cover(problem, 1 << log2, 1 << (LOG2_RUNS_ELEMENTS - log2), {RUNS_THREADS}), device,
           RunsProblem{problem, log2});
  }
};

const Kernel strided_copy = make_kernel<Runs>("copies runs, for a transpose that leaves them whole");

}  // namespace SMEM_BUILD
}  // namespace smem::transpose
