// The fragments of one operand: a thread's values for one k, in registers.
#pragma once

#include "device/vector.h"

namespace smem::gemm::simt::inline SMEM_BUILD {

/// A thread's values of one operand, double buffered: COUNT values per k, in vectors of VEC that
/// are LANES vectors apart. From a K-major stage, one load takes VECTOR_WIDTH values of k at once.
template <typename T, int COUNT, int VEC, int LANES, typename Loader>
class Fragments {
  using Acc = Accumulator<T>;
  static constexpr bool K_MAJOR = Loader::K_MAJOR;
  static constexpr int K_PER_LOAD = K_MAJOR ? VECTOR_WIDTH<T> : 1;

 public:
  /// Loads the values of k. `first` is the thread's first position along mn, and `tail` the first
  /// of those that fill no vector.
  template <typename Stage>
  __device__ __forceinline__ void load(const Stage& stage, int first, int tail, int k) {
    if constexpr (K_MAJOR) {
      if (k % K_PER_LOAD != 0) return;
#pragma unroll
      for (int i = 0; i < COUNT; ++i) {
        const int mn = i / VEC * VEC * LANES + i % VEC;
        const auto vec = load_vector<K_PER_LOAD>(stage.at(mn, 0) + Loader::smem_offset(first, k));
#pragma unroll
        for (int j = 0; j < K_PER_LOAD; ++j) {
          values_[k / K_PER_LOAD % 2][j][i] = to_accumulator(vec.lane[j]);
        }
      }
    } else {
      constexpr int IN_VECTORS = COUNT / VEC * VEC;
#pragma unroll
      for (int i = 0; i < IN_VECTORS; i += VEC) {
        const auto vec = load_vector<VEC>(stage.at(k, first + i * LANES));
#pragma unroll
        for (int j = 0; j < VEC; ++j) values_[k % 2][0][i + j] = to_accumulator(vec.lane[j]);
      }
#pragma unroll
      for (int i = IN_VECTORS; i < COUNT; ++i) {
        const T value = stage(k, tail + (i - IN_VECTORS) * LANES);
        values_[k % 2][0][i] = to_accumulator(value);
      }
    }
  }

  __device__ __forceinline__ Acc operator()(int k, int i) const {
    return values_[k / K_PER_LOAD % 2][k % K_PER_LOAD][i];
  }

 private:
  Acc values_[2][K_PER_LOAD][COUNT];
};

}  // namespace smem::gemm::simt::inline SMEM_BUILD
