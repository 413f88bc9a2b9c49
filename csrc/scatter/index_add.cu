// Adds rows to the rows of x that an index names, in the order of the index:
//
//   index       4   1   4   7          blocks (i, 0), (i, 1), ... have row i of source, each
//   block 0     x[4] + source[0] + source[2]                        FEATURES_PER_BLOCK features
//   block 1     x[1] + source[1]
//   block 2     ends: an earlier block has row 4 of x
//
// The block of the first i that names a row of x adds all that belong to it, in ascending order, in
// float32, and rounds once. So a row has the same bits whatever other rows the index names. torch
// adds by atomics, in any order, or sorts first, which takes 115 us of the host's time.
//
// A block looks through the whole index, so the kernel's time grows with count^2. Callers sort a
// long index (`order`): then the block looks at its neighbours only. One block adds all that belong
// to a row, one after the other. Numbers of threads and features may be tuned.
#include "device/dispatch.h"
#include "device/numeric_types.h"
#include "device/symbol.h"
#include "device/tile.h"
#include "scatter/index_add.h"
#ifdef __CUDACC__
#include <cassert>
#else
#include "cpu_emulator/cuda/assert.h"
#endif

namespace smem::scatter {
inline namespace SMEM_BUILD {

constexpr int THREADS = 256, FEATURES_PER_THREAD = 4;
constexpr int FEATURES_PER_BLOCK = THREADS * FEATURES_PER_THREAD;

template <typename T>
__global__ void __launch_bounds__(THREADS)
    index_add_kernel(const __grid_constant__ IndexAddProblem problem) {
  using Acc = Accumulator<T>;
  __shared__ Tile<bool, 1, THREADS> names_row;
  const int64_t count = problem.count, features = problem.features;
  const auto blocks_per_row = static_cast<unsigned>(ceil_div(features, FEATURES_PER_BLOCK));
  const int64_t first = blockIdx.x / blocks_per_row;
  const int64_t first_feature =
      int64_t{blockIdx.x % blocks_per_row} * FEATURES_PER_BLOCK + threadIdx.x;
  const int64_t row = problem.index[first];
  assert(row >= 0 && row < problem.rows);

  bool is_named_before = false;
  if (problem.order != nullptr) {
    is_named_before = first > 0 && problem.index[first - 1] == row;
  } else {
    for (int64_t i = threadIdx.x; i < first; i += THREADS)
      is_named_before |= problem.index[i] == row;
  }
  if (__syncthreads_or(is_named_before)) return;

  T* const x = static_cast<T*>(problem.x) + row * features;
  Acc sum[FEATURES_PER_THREAD];
  const auto add = [&](int64_t i) {
    const int64_t source_row = problem.order == nullptr ? i : problem.order[i];
    const T* const source = static_cast<const T*>(problem.source) + source_row * features;
#pragma unroll
    for (int f = 0; f < FEATURES_PER_THREAD; ++f) {
      const int64_t feature = first_feature + f * THREADS;
      if (feature < features) sum[f] = sum[f] + to_accumulator(source[feature]);
    }
  };
#pragma unroll
  for (int f = 0; f < FEATURES_PER_THREAD; ++f) {
    const int64_t feature = first_feature + f * THREADS;
    sum[f] = feature < features ? to_accumulator(x[feature]) : Acc(0);
  }
  add(first);
  for (int64_t begin = first + 1; begin < count; begin += THREADS) {
    const int64_t i = begin + threadIdx.x;
    const bool same = i < count && problem.index[i] == row;
    if (!__syncthreads_or(same)) {
      if (problem.order != nullptr) break;
      continue;
    }
    names_row(0, threadIdx.x) = same;
    __syncthreads();
    for (int t = 0; t < THREADS; ++t) {
      if (names_row(0, t)) add(begin + t);
    }
    __syncthreads();
  }
#pragma unroll
  for (int f = 0; f < FEATURES_PER_THREAD; ++f) {
    const int64_t feature = first_feature + f * THREADS;
    if (feature < features) x[feature] = from_accumulator<T>(sum[f]);
  }
}

namespace {

void launch_index_add(const IndexAddProblem& problem, const Device& device) {
  const auto run = [&](auto kernel) {
    launch("index_add", kernel,
           {.blocks = problem.count * ceil_div(problem.features, FEATURES_PER_BLOCK),
            .threads = {THREADS}},
           device, problem);
  };
  switch (problem.dtype) {
    case DType::f16:
      return run(&index_add_kernel<half>);
    case DType::bf16:
      return run(&index_add_kernel<bfloat16>);
    default:
      return run(&index_add_kernel<float>);
  }
}

}  // namespace
}  // namespace SMEM_BUILD

#if defined(__CUDACC__)
const IndexAdd device_index_add = &launch_index_add;
#else
const IndexAdd host_index_add = &launch_index_add;
#endif

}  // namespace smem::scatter
