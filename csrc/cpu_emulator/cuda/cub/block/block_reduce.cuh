// Stands for CUB's header of that name: reductions of a block. Each warp reduces by shuffles, and
// thread 0, which alone has the result, combines what the warps put into shared memory.
#pragma once

#include "../warp/warp_reduce.cuh"

namespace cub {

enum BlockReduceAlgorithm {
  BLOCK_REDUCE_RAKING_COMMUTATIVE_ONLY,
  BLOCK_REDUCE_RAKING,
  BLOCK_REDUCE_WARP_REDUCTIONS
};

template <typename T, int DIM_X, BlockReduceAlgorithm = BLOCK_REDUCE_WARP_REDUCTIONS, int DIM_Y = 1,
          int DIM_Z = 1, int = 0>
class BlockReduce {
  static constexpr int THREADS = DIM_X * DIM_Y * DIM_Z, WARPS = (THREADS + 31) / 32;

 public:
  using TempStorage = smem_uninitialized<T, WARPS>;

  SMEM_MATH BlockReduce(TempStorage& storage) : storage_(storage) {}

  SMEM_MATH T Sum(T input) { return Reduce(input, cub::Sum()); }
  SMEM_MATH T Sum(T input, int valid) { return Reduce(input, cub::Sum(), valid); }
  template <int ITEMS>
  SMEM_MATH T Sum(T (&inputs)[ITEMS]) {
    return Reduce(inputs, cub::Sum());
  }
  template <int ITEMS, typename Operation>
  SMEM_MATH T Reduce(T (&inputs)[ITEMS], Operation operation) {
    T input = inputs[0];
    for (int i = 1; i < ITEMS; ++i) input = operation(input, inputs[i]);
    return Reduce(input, operation);
  }
  template <typename Operation>
  SMEM_MATH T Reduce(T input, Operation operation) {
    return Reduce(input, operation, THREADS);
  }
  /// Of the first `valid` threads.
  template <typename Operation>
  SMEM_MATH T Reduce(T input, Operation operation, int valid) {
    const int thread = static_cast<int>(smem_thread_number()), warp = thread / 32;
    const int first = warp * 32;
    const int lanes = THREADS - first < 32 ? THREADS - first : 32;  // the last warp may have fewer
    input = smem_reduce_lanes(input, operation, lanes, thread - first, valid - first);
    if constexpr (WARPS > 1) {
      if (thread % 32 == 0) storage_[warp] = input;
      smem_syncthreads();
      if (thread == 0) {
        for (int w = 1; w < WARPS && w * 32 < valid; ++w) input = operation(input, storage_[w]);
      }
    }
    return input;
  }

 private:
  TempStorage& storage_;
};

}  // namespace cub
