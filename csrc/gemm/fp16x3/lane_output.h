// What a lane of mma.m16n8 or wgmma has of out where B's columns are the m and A's rows the n: of 8
// rows two neighbours, of two columns.
#pragma once

#include "device/vector.h"
#include "gemm/activation.h"

namespace smem::gemm::fp16x3::inline SMEM_BUILD {

/// Where 2 rows of 2 columns go; or what exists of them.
struct LaneOutput {
  float* to;
  int64_t row_stride, col_step;  ///< in elements, from row to row and from column to column
  int rows, cols;                ///< that exist, if they are positive
  bool wide;                     ///< both columns exist and are a vector

  /// Element i is in column i / 2 and row i % 2.
  __device__ __forceinline__ void store(const Vector<float, 4>& values) const {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if (i >= rows) return;
      float* const row = to + i * row_stride;
      if (wide) {
        store_global_vector<2>(row, {values.lane[i], values.lane[i + 2]});
        continue;
      }
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        if (j < cols) row[j * col_step] = values.lane[i + 2 * j];
      }
    }
  }
};

/// Stores to `pre`, which may be null, and what the activation makes of it to out. Not inlined: the
/// activations would be most of the kernel's code, and a small product waits for its code.
__device__ __noinline__ inline void store_activated(LaneOutput out, float* pre,
                                                    Vector<float, 4> values,
                                                    Activation activation) {
  if (pre) {
    LaneOutput before = out;
    before.to = pre;
    before.store(values);
  }
  out.store(activate_all<false>(activation, values));
}

}  // namespace smem::gemm::fp16x3::inline SMEM_BUILD
