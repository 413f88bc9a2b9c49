// Stands for CUB's header of that name: scans of a block, of one or several items a thread. Each
// warp scans by shuffles, and shared memory holds what the warps before it add.
#pragma once

#include "../warp/warp_scan.cuh"

namespace cub {

enum BlockScanAlgorithm { BLOCK_SCAN_RAKING, BLOCK_SCAN_RAKING_MEMOIZE, BLOCK_SCAN_WARP_SCANS };

template <typename T, int DIM_X, BlockScanAlgorithm = BLOCK_SCAN_RAKING, int DIM_Y = 1,
          int DIM_Z = 1, int = 0>
class BlockScan {
  static constexpr int THREADS = DIM_X * DIM_Y * DIM_Z, WARPS = (THREADS + 31) / 32;
  static_assert(THREADS % 32 == 0, "cub::BlockScan on the CPU takes whole warps");

 public:
  using TempStorage = smem_uninitialized<T, WARPS>;

  SMEM_MATH BlockScan(TempStorage& storage) : storage_(storage) {}

  template <typename Operation>
  SMEM_MATH void InclusiveScan(T input, T& output, Operation operation, T& aggregate) {
    T before;
    const bool has_before = scan(input, output, before, operation, aggregate);
    if (has_before) output = operation(before, output);
  }
  template <typename Operation>
  SMEM_MATH void InclusiveScan(T input, T& output, Operation operation) {
    T aggregate;
    InclusiveScan(input, output, operation, aggregate);
  }
  template <typename Operation>
  SMEM_MATH void ExclusiveScan(T input, T& output, T initial, Operation operation, T& aggregate) {
    T inclusive, before;
    const bool has_before = scan(input, inclusive, before, operation, aggregate);
    const unsigned lane = smem_lane();
    const T left = smem_shuffle_any(SMEM_ALL_LANES, inclusive, lane ? lane - 1 : 0);
    output = has_before ? operation(initial, before) : initial;
    if (lane) output = operation(output, left);
  }
  template <typename Operation>
  SMEM_MATH void ExclusiveScan(T input, T& output, T initial, Operation operation) {
    T aggregate;
    ExclusiveScan(input, output, initial, operation, aggregate);
  }
  template <int ITEMS, typename Operation>
  SMEM_MATH void ExclusiveScan(T (&inputs)[ITEMS], T (&outputs)[ITEMS], T initial,
                               Operation operation, T& aggregate) {
    T sum = inputs[0];
    for (int i = 1; i < ITEMS; ++i) sum = operation(sum, inputs[i]);
    T running;
    ExclusiveScan(sum, running, initial, operation, aggregate);
    for (int i = 0; i < ITEMS; ++i) {
      const T item = inputs[i];
      outputs[i] = running;
      running = operation(running, item);
    }
  }
  SMEM_MATH void InclusiveSum(T input, T& output) { InclusiveScan(input, output, cub::Sum()); }
  SMEM_MATH void InclusiveSum(T input, T& output, T& aggregate) {
    InclusiveScan(input, output, cub::Sum(), aggregate);
  }
  template <int ITEMS>
  SMEM_MATH void InclusiveSum(T (&inputs)[ITEMS], T (&outputs)[ITEMS]) {
    T aggregate, items[ITEMS];
    for (int i = 0; i < ITEMS; ++i) items[i] = inputs[i];
    ExclusiveScan(items, outputs, T(), cub::Sum(), aggregate);
    for (int i = 0; i < ITEMS; ++i) outputs[i] = outputs[i] + items[i];
  }
  SMEM_MATH void ExclusiveSum(T input, T& output) { ExclusiveScan(input, output, T(), cub::Sum()); }
  SMEM_MATH void ExclusiveSum(T input, T& output, T& aggregate) {
    ExclusiveScan(input, output, T(), cub::Sum(), aggregate);
  }
  template <int ITEMS>
  SMEM_MATH void ExclusiveSum(T (&inputs)[ITEMS], T (&outputs)[ITEMS]) {
    T aggregate;
    ExclusiveSum(inputs, outputs, aggregate);
  }
  template <int ITEMS>
  SMEM_MATH void ExclusiveSum(T (&inputs)[ITEMS], T (&outputs)[ITEMS], T& aggregate) {
    ExclusiveScan(inputs, outputs, T(), cub::Sum(), aggregate);
  }

 private:
  /// The scan of the thread's warp, and what all warps before it add, if there are any.
  template <typename Operation>
  SMEM_MATH bool scan(T input, T& inclusive, T& before, Operation operation, T& aggregate) {
    const int thread = static_cast<int>(smem_thread_number()), warp = thread / 32;
    typename WarpScan<T>::TempStorage none;
    WarpScan<T>(none).InclusiveScan(input, inclusive, operation);
    if (thread % 32 == 31) storage_[warp] = inclusive;
    smem_syncthreads();
    aggregate = storage_[0];
    for (int w = 1; w < WARPS; ++w) {
      if (w == warp) before = aggregate;
      aggregate = operation(aggregate, storage_[w]);
    }
    return warp > 0;
  }

  TempStorage& storage_;
};

}  // namespace cub
