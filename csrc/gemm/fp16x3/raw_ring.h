// How float32 columns of B come from memory into the registers of the warps that split them
// (split_producer.h): by cp.async, through a ring of stages in shared memory.
//
//   VectorRing   each thread copies what it splits, so the ring needs no barriers
//   RowRing      rows begin anywhere: the warps that share them copy the aligned vectors around
//                them together, and each thread reads its elements from there
//
// By VectorRing such rows are copied element by element. A cp.async of 4 bytes occupies the
// load/store unit for some 18 cycles a warp, which limits a GPU to 1.3 TB/s.
#pragma once

#include "device/cp_async.h"
#include "device/warpgroup.h"
#include "gemm/fp16x3/b_layout.h"

namespace smem::gemm::fp16x3::inline SMEM_BUILD {

using split::FloatVec;

/// A ring for a thread of COLUMN_GROUPS groups of columns.
template <typename BLayout, int COLUMN_GROUPS, int STAGES>
class VectorRing {
  static constexpr int THREADS = COLUMN_GROUPS * BLayout::WARPS * WARP;

 public:
  static constexpr int BYTES = STAGES * BLayout::VECS * THREADS * int{sizeof(FloatVec)};

  __device__ __forceinline__ VectorRing(const split::SplitOperand& b, const BLayout& layout,
                                        unsigned char* ring)
      : b_(b), layout_(layout), ring_(reinterpret_cast<FloatVec*>(ring) + threadIdx.x) {}

  /// The next copy is of a tile's first stage. `src` is the k slice's first element, `length` the
  /// slice's length, and `col` the thread's first column.
  __device__ __forceinline__ void begin_copies(const float* src, int length, int64_t col) {
    from_ = src + col * b_.mn_stride + layout_.k * b_.k_stride;
    k_left_ = col < b_.mn ? length - layout_.k : 0;
  }

  /// The next read is of a tile's first stage: some stages behind the copies, so it may be of
  /// another tile and another matrix.
  __device__ __forceinline__ void begin_reads(const float*, int64_t) {}

  /// Starts the copies of the tile's next stage. What is outside B becomes zero.
  __device__ __forceinline__ void copy(int stage) {
#pragma unroll
    for (int v = 0; v < BLayout::VECS; ++v) {
#pragma unroll
      for (int e = 0; e < VEC_SIZE; e += BLayout::COPY_ELEMENTS) {
        cp_async_or_zero<BLayout::COPY_ELEMENTS * sizeof(float)>(
            vec(stage, v)->lane + e, from_ + BLayout::offset_of(v, e, b_.k_stride),
            BLayout::k_of(v, e) < k_left_);
      }
    }
    from_ += STAGE_K * b_.k_stride;
    k_left_ -= STAGE_K;
  }

  /// Reads the thread's elements of the tile's next stage, whose copies have ended.
  __device__ __forceinline__ void read(int stage, FloatVec (&vecs)[BLayout::VECS]) const {
#pragma unroll
    for (int v = 0; v < BLayout::VECS; ++v) vecs[v] = *vec(stage, v);
  }

 private:
  __device__ __forceinline__ FloatVec* vec(int stage, int v) const {
    return ring_ + (stage * BLayout::VECS + v) * THREADS;
  }

  const split::SplitOperand& b_;
  BLayout layout_;
  FloatVec* ring_;
  const float* from_;  ///< the thread's first element of the next stage
  int k_left_;         ///< elements along K from there on, 0 if the thread's columns do not exist
};

/// The same for an MN-major B whose rows begin anywhere. The warps of a group of columns share its
/// rows.
template <typename BLayout, int COLUMN_GROUPS, int STAGES>
class RowRing {
  static_assert(BLayout::IS_MN_MAJOR && BLayout::COLS == 1, "a thread has elements of one column");
  static constexpr int THREADS = BLayout::WARPS * WARP;
  /// A row has a vector more than its elements: it may begin within the first one.
  static constexpr int ROW_VECS = GROUP_COLS / VEC_SIZE + 1;
  static constexpr int LANES = 8;               ///< for each row, of which ROW_VECS copy a vector
  static constexpr int STEP = THREADS / LANES;  ///< rows between a thread's vectors
  static_assert(ROW_VECS <= LANES && STAGE_K % STEP == 0, "every vector has a thread");
  static_assert(STEP % VEC_SIZE == 0, "a thread's rows begin at the same place within a vector");

  /// Where a row begins, in elements. Behind 8 rows is padding of as many elements as a warp has
  /// columns: then its lanes read from different banks.
  static __device__ __forceinline__ constexpr int row_offset(int row) {
    constexpr int WARP_COLS = GROUP_COLS / BLayout::WARPS;
    return row * ROW_VECS * VEC_SIZE + row / 8 * WARP_COLS;
  }
  static constexpr int STAGE_ELEMENTS = row_offset(STAGE_K);

 public:
  static constexpr int BYTES = COLUMN_GROUPS * STAGES * STAGE_ELEMENTS * int{sizeof(float)};

  __device__ __forceinline__ RowRing(const split::SplitOperand& b, const BLayout& layout,
                                     unsigned char* ring)
      : b_(b),
        layout_(layout),
        ring_(reinterpret_cast<float*>(ring) + group() * (STAGES * STAGE_ELEMENTS)),
        row_(threadIdx.x % THREADS / LANES),
        vec_(threadIdx.x % LANES) {}

  __device__ __forceinline__ void begin_copies(const float* src, int length, int64_t col) {
    const int64_t first_col = col - layout_.column;
    begin_ = src;
    end_ = src + (length - 1) * b_.k_stride + b_.mn;
    from_ = src + first_col + row_ * b_.k_stride;
    const int shift = misalignment(from_);
    from_ += VEC_SIZE * vec_ - shift;
    const int cols = static_cast<int>(min(b_.mn - first_col, int64_t{GROUP_COLS}));
    copies_ = vec_ < ROW_VECS && VEC_SIZE * vec_ < cols + shift;
    rows_left_ = length - row_;
  }

  __device__ __forceinline__ void begin_reads(const float* src, int64_t col) {
    has_column_ = col < b_.mn;
    const float* const first = src + (col - layout_.column);
#pragma unroll
    for (int i = 0; i < VEC_SIZE; ++i) read_shift_[i] = misalignment(first + i * b_.k_stride);
  }

  /// Copies whole vectors: behind a row's end they have elements of the next one.
  __device__ __forceinline__ void copy(int stage) {
    if (!copies_) return;
    float* const to = ring_ + stage * STAGE_ELEMENTS + row_offset(row_) + VEC_SIZE * vec_;
    const int64_t step = STEP * b_.k_stride;
    const float* from = from_;
    if (from < begin_ || rows_left_ <= STAGE_K) {
#pragma unroll 1
      for (int row = 0; row < STAGE_K; row += STEP, from += step) {
        copy_at_end(to + row_offset(row), from, row < rows_left_);
      }
    } else {
#pragma unroll
      for (int row = 0; row < STAGE_K; row += STEP, from += step) {
        cp_async_or_zero<16>(to + row_offset(row), from, true);
      }
    }
    from_ = from;
    rows_left_ -= STAGE_K;
  }

  __device__ __forceinline__ void read(int stage, FloatVec (&vecs)[BLayout::VECS]) const {
    sync();  // the copies of all threads have ended
    const float* const from =
        ring_ + stage * STAGE_ELEMENTS + row_offset(layout_.k) + layout_.column;
#pragma unroll
    for (int v = 0; v < BLayout::VECS; ++v) {
#pragma unroll
      for (int e = 0; e < VEC_SIZE; ++e) {
        static_assert(BLayout::ELEMENTS % VEC_SIZE == 0, "element e's row is 4 i + e");
        vecs[v].lane[e] =
            has_column_ ? from[row_offset(BLayout::k_of(v, e)) + read_shift_[e]] : 0.0f;
      }
    }
    sync();  // the stage may be overwritten
  }

 private:
  __device__ __forceinline__ static int misalignment(const float* address) {
    return static_cast<int>(reinterpret_cast<uintptr_t>(address) / sizeof(float) % VEC_SIZE);
  }
  __device__ __forceinline__ static int group() { return threadIdx.x / THREADS; }
  __device__ __forceinline__ static void sync() {
    named_barrier_sync<THREADS>(COLUMN_GROUPS == 1 ? 1 : 1 + group());
  }

  /// Copies a vector of a row that exists, but nothing that lies before or behind B.
  __device__ __forceinline__ void copy_at_end(float* to, const float* from, bool exists) const {
    if (!exists || (from >= begin_ && from + VEC_SIZE <= end_)) {
      return cp_async_or_zero<16>(to, from, exists);
    }
#pragma unroll 1
    for (int i = 0; i < VEC_SIZE; ++i) {
      cp_async_or_zero<sizeof(float)>(to + i, from + i, from + i >= begin_ && from + i < end_);
    }
  }

  const split::SplitOperand& b_;
  BLayout layout_;
  float* ring_;
  int row_, vec_;              ///< the first row of a stage and the vector that the thread may copy
  bool copies_;                ///< an element of the vector is read
  int rows_left_;              ///< rows that exist, from the thread's first one on
  const float* from_;          ///< the thread's vector in the next stage's first row
  const float *begin_, *end_;  ///< nothing outside is read
  bool has_column_;            ///< the column that the thread reads exists
  int read_shift_[VEC_SIZE];   ///< where the rows of its elements e begin within a vector
};

}  // namespace smem::gemm::fp16x3::inline SMEM_BUILD
