// Loads an operand's k-tiles whose rows begin anywhere: the aligned vectors around each row land in
// a raw stage by cp.async. 16-bit elements are shifted from there into a swizzled stage; floats are
// read from there (mainloop_unaligned_tf32.h).
#pragma once

#include "gemm/sm80/tile_config.h"
#include "gemm/smem_layout.h"

namespace smem::gemm::sm80::inline SMEM_BUILD {

/// The 16 bytes from byte `shift` on, 0 to 15, of two neighbouring vectors.
__device__ __forceinline__ Vector<uint32_t, 4> shifted_vector(const Vector<uint32_t, 4>& low,
                                                              const Vector<uint32_t, 4>& high,
                                                              int shift) {
  const uint32_t words[8] = {low.lane[0],  low.lane[1],  low.lane[2],  low.lane[3],
                             high.lane[0], high.lane[1], high.lane[2], high.lane[3]};
  // Selects by the bits of the shift: an index that is known at run time would need memory.
  uint32_t by_2[6], by_1[5];
#pragma unroll
  for (int i = 0; i < 6; ++i) by_2[i] = shift & 8 ? words[i + 2] : words[i];
#pragma unroll
  for (int i = 0; i < 5; ++i) by_1[i] = shift & 4 ? by_2[i + 1] : by_2[i];
  Vector<uint32_t, 4> result;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const uint64_t both = uint64_t{by_1[i + 1]} << 32 | by_1[i];
    result.lane[i] = static_cast<uint32_t>(both >> (8 * (shift & 3)));
  }
  return result;
}

/// The bytes between rows of a raw stage. A row has a vector more than a row of a swizzled stage,
/// since it may begin within its first vector, and another one if it is of floats along M or N: so
/// 8 words of each of 4 rows, which a warp reads at once, are in different banks.
template <typename Layout>
constexpr int RAW_PITCH = (Layout::VECS_PER_ROW + (Layout::READ_BY_WORD ? 2 : 1)) * VEC_BYTES;

/// The bytes between `address` and the start of the vector that it lies in.
__device__ __forceinline__ int misalignment(const void* address) {
  return static_cast<int>(reinterpret_cast<uintptr_t>(address) % VEC_BYTES);
}

/// What is outside the operand is not read and becomes zero.
template <typename Layout, int THREADS>
class UnalignedLoader {
  using T = typename Layout::Element;
  static constexpr int VECS = Layout::VECS_PER_ROW;
  static constexpr int STEP = THREADS / VECS;  ///< rows between a thread's vectors
  static constexpr int PASSES = Layout::ROWS / STEP;

  static_assert(THREADS % VECS == 0 && Layout::ROWS % STEP == 0, "all threads copy vectors");
  static_assert(STEP % Layout::SWIZZLE_PERIOD == 0, "a thread's vectors have the same swizzle");
  static_assert(STEP * sizeof(T) % VEC_BYTES == 0 && Layout::DEPTH * sizeof(T) % VEC_BYTES == 0,
                "a thread's rows, of all k-tiles, begin at the same place within a vector");
  static_assert(Layout::ROWS <= THREADS, "each row's last vector has a thread");

 public:
  /// As TileVectors::start, with any `from` and `pitch`. The operand begins at `operand`; `thread`
  /// is the number of this one among those that load.
  __device__ __forceinline__ void start(const T* operand, const T* from, uint32_t pitch,
                                        int valid_mn, int valid_k, unsigned thread) {
    operand_ = reinterpret_cast<const unsigned char*>(operand);
    row_ = static_cast<int>(thread / VECS);
    vec_ = static_cast<int>(thread % VECS);
    last_row_ = static_cast<int>(thread);
    pitch_ = pitch;
    const auto* const first = reinterpret_cast<const unsigned char*>(from);
    begin_ = first + uint64_t{pitch} * row_;
    last_begin_ = first + uint64_t{pitch} * thread;
    shift_ = misalignment(begin_);
    last_shift_ = misalignment(last_begin_);
    begin_ += VEC_BYTES * vec_ - shift_;
    last_begin_ += VEC_BYTES * VECS - last_shift_;
    valid_mn_ = valid_mn;
    valid_k_ = valid_k;
  }

  /// Starts the copies of the next k-tile to raw stage number `stage`. Only those of a work tile's
  /// FIRST one may begin before the operand: a test for it in all copies made the kernel 7 to 18%
  /// slower.
  template <bool FIRST>
  __device__ __forceinline__ void copy(unsigned char* raw_stage, int stage) {
    shifts_ = (shifts_ & ~(15u << 4 * stage)) | static_cast<unsigned>(shift_) << 4 * stage;
    const int rows = Layout::K_MAJOR ? valid_mn_ : valid_k_;
    const int cols = min(Layout::K_MAJOR ? valid_k_ : valid_mn_, Layout::COLS);
    const int bytes = bytes_of(cols, shift_, vec_);
#pragma unroll
    for (int pass = 0; pass < PASSES; ++pass) {
      const int row = row_ + pass * STEP;
      // Only rows of the first 16 bytes of the operand, which are less than STEP.
      if (FIRST && pass == 0 && begin_ < operand_) {
        copy_from_operand(raw_stage + raw_offset(row, vec_), row < rows ? bytes : 0);
        continue;
      }
      cp_async_16(raw_stage + raw_offset(row, vec_), begin_ + uint64_t{pitch_} * (pass * STEP),
                  row < rows ? bytes : 0);
    }
    if (last_row_ < Layout::ROWS) {
      cp_async_16(raw_stage + raw_offset(last_row_, VECS), last_begin_,
                  last_row_ < rows ? bytes_of(cols, last_shift_, VECS) : 0);
    }
    const uint64_t step =
        Layout::K_MAJOR ? Layout::DEPTH * sizeof(T) : uint64_t{pitch_} * Layout::DEPTH;
    begin_ += step;
    last_begin_ += step;
    valid_k_ -= Layout::DEPTH;
  }

  /// Shifts raw stage number `raw`, which has landed for all threads. All loads come first: the
  /// compiler cannot know that the stores go elsewhere, and would make each load wait for the store
  /// before it.
  __device__ __forceinline__ void shift(const unsigned char* raw_stage, int raw, T* stage) const {
    const int shift = static_cast<int>(shifts_ >> 4 * raw) & 15;
    Vector<uint32_t, 4> low[PASSES], high[PASSES];
#pragma unroll
    for (int pass = 0; pass < PASSES; ++pass) {
      const auto* const from = reinterpret_cast<const Vector<uint32_t, 4>*>(
          raw_stage + raw_offset(row_ + pass * STEP, vec_));
      low[pass] = from[0];
      high[pass] = from[1];
    }
    T* const to = stage + Layout::offset(row_, vec_);
#pragma unroll
    for (int pass = 0; pass < PASSES; ++pass) {
      *reinterpret_cast<Vector<uint32_t, 4>*>(to + pass * STEP * Layout::COLS) =
          shifted_vector(low[pass], high[pass], shift);
    }
  }

 private:
  __device__ __forceinline__ static int raw_offset(int row, int vec) {
    return row * RAW_PITCH<Layout> + vec * VEC_BYTES;
  }

  /// The bytes of raw vector `vec` that belong to a row's first `cols` elements or lie before them.
  __device__ __forceinline__ static int bytes_of(int cols, int shift, int vec) {
    const int end = shift + cols * static_cast<int>(sizeof(T));
    return cols > 0 ? min(max(end - VEC_BYTES * vec, 0), VEC_BYTES) : 0;
  }

  /// Copies the part of this thread's first vector that lies within the operand.
  __device__ __forceinline__ void copy_from_operand(unsigned char* raw_vector, int bytes) const {
#pragma unroll 1
    for (int i = 0; i < VEC_BYTES; i += sizeof(T)) {
      const bool is_read = i < bytes && begin_ + i >= operand_;
      const T element = is_read ? *reinterpret_cast<const T*>(begin_ + i) : T(0.0f);
      *reinterpret_cast<T*>(raw_vector + i) = element;
    }
  }

  const unsigned char* operand_;
  const unsigned char* begin_;       ///< this thread's first vector of the next tile
  const unsigned char* last_begin_;  ///< the last vector of row last_row_
  uint32_t pitch_;                   ///< bytes between rows
  uint32_t shifts_ = 0;              ///< of this thread's rows, four bits for each raw stage
  int row_, vec_, last_row_, shift_, last_shift_, valid_mn_, valid_k_;
};

}  // namespace smem::gemm::sm80::inline SMEM_BUILD
