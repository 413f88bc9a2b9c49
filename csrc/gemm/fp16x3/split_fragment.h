// The elements of an MN-major operand that one thread holds in registers: 8 along K of each of 4
// rows. The thread reads 16 bytes along MN at a time, transposes them by naming registers, and
// writes 16 bytes of hi and of lo per row.
//
//            MN ->  16 rows, 4 threads
//          +-------+-------+-------+-------+
//    K     | t0    | t1    | t2    | t3    |   a thread: 4 rows x 8 of K
//    |     +-------+-------+-------+-------+
//    v     | t4    | t5    | ...           |   a warp: 16 rows x 64 of K, two k blocks
//
// Four lanes share the same 8 elements of 16 rows, and eight lanes have successive elements of the
// same 4 rows. So a row's results are written as 64 bytes of hi and 64 of lo: whole sectors.
#pragma once

#include "gemm/fp16x3/scale.h"

namespace smem::gemm::fp16x3::split::inline SMEM_BUILD {

/// Rows that the same threads share, and the threads along MN.
constexpr int TILE_MN = 16, THREADS_MN = TILE_MN / VEC_SIZE;
constexpr int THREAD_K = 8;  ///< elements along K per thread and row: 16 bytes of hi, and of lo
static_assert(32 / THREADS_MN * THREAD_K % K_BLOCK == 0, "a warp has whole k blocks");

template <bool VECTORIZED>
class Fragment {
 public:
  /// Loads the thread's rows from `row` on and their elements from `k` on. `slice_index` is the
  /// number of the k slice.
  __device__ __forceinline__ Fragment(const SplitOperand& operand, const KSlice& slice,
                                      int64_t slice_index, int64_t row, int k)
      : operand_(operand),
        mn_stride_(VECTORIZED ? 1 : operand.mn_stride),
        src_(slice.src + row * mn_stride_),
        result_row_(slice_index * operand.mn + row),
        rows_left_(operand.mn - row),
        k_(k),
        length_(static_cast<int>(slice.length)) {
#pragma unroll
    for (int i = 0; i < THREAD_K; ++i) {
      vecs_[i] = load_vec<VECTORIZED>(src_ + (k + i) * operand.k_stride, mn_stride_,
                                      k + i < length_ ? rows_left_ : 0);
    }
  }

  /// The AbsMinMax of the thread's rows over all lanes of the warp that share these rows.
  __device__ __forceinline__ void warp_minmax(AbsMinMax (&minmax)[VEC_SIZE]) const {
#pragma unroll
    for (int i = 0; i < THREAD_K * VEC_SIZE; ++i) {
      minmax[i % VEC_SIZE].include(vecs_[i / VEC_SIZE].lane[i % VEC_SIZE]);
    }
#pragma unroll
    for (AbsMinMax& of_row : minmax) of_row = of_row.warp_reduce(32, THREADS_MN);
  }

  /// `scales` are the packed RowScales of the thread's rows.
  __device__ __forceinline__ void store_hi_lo(Vector<int, VEC_SIZE> scales,
                                              int64_t padded_k) const {
    half* const dst =
        static_cast<half*>(operand_.hi_lo) + result_row_ * 2 * padded_k + hi_offset(k_);
#pragma unroll
    for (int r = 0; r < VEC_SIZE; ++r) {
      if (r >= rows_left_ || k_ >= padded_k) continue;
      const RowScale scale = RowScale::unpack(scales.lane[r]);
      if (k_ == 0) store_row_scale(operand_, result_row_ + r, scale);
      Vector<float, THREAD_K> elements;
#pragma unroll
      for (int i = 0; i < THREAD_K; ++i) elements.lane[i] = vecs_[i].lane[r];
      const HiLo<THREAD_K> result(elements, scale);
      store_global_vector<THREAD_K>(dst + r * 2 * padded_k, result.hi);
      store_global_vector<THREAD_K>(dst + r * 2 * padded_k + K_BLOCK, result.lo);
    }
    // Outliers are rare. The loops are rolled and read the elements again, because as straight code
    // this would be twice all the code above.
#pragma unroll 1
    for (int r = 0; r < VEC_SIZE; ++r) {
      const RowScale scale = RowScale::unpack(scales.lane[0]);
#pragma unroll
      for (int next = 1; next < VEC_SIZE; ++next) scales.lane[next - 1] = scales.lane[next];
      if (r >= rows_left_ || scale.status != ONE_OUTLIER) continue;
#pragma unroll 1
      for (int i = k_; i < k_ + THREAD_K && i < length_; ++i) {
        const float element = src_[r * mn_stride_ + i * operand_.k_stride];
        store_if_outlier(operand_, result_row_ + r, i, element, scale);
      }
    }
  }

 private:
  const SplitOperand& operand_;
  int64_t mn_stride_;
  const float* src_;
  int64_t result_row_;  ///< the first row's number among the results
  int64_t rows_left_;   ///< rows of the matrix from the first one on
  int k_, length_;
  FloatVec vecs_[THREAD_K];
};

}  // namespace smem::gemm::fp16x3::split::inline SMEM_BUILD
