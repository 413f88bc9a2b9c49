// Loads an operand's tiles into the stages by cp.async.
#pragma once

#include "gemm/sm80/tile_config.h"
#include "gemm/smem_layout.h"

namespace smem::gemm::sm80::inline SMEM_BUILD {

/// The k-tiles of an operand, in order, for one block. Every thread copies vectors of 16 bytes, the
/// same ones of each stage. What is outside the operand becomes zero, without a branch: the copies
/// of a k-tile can then be spread over the products of another one.
template <typename Layout, int THREADS>
class MultistageLoader {
  using T = typename Layout::Element;
  static constexpr int VEC = Layout::VEC, VECS_PER_ROW = Layout::VECS_PER_ROW;
  static constexpr int STEP = THREADS / VECS_PER_ROW;  ///< rows between a thread's vectors
  static constexpr int PASSES = Layout::ROWS < STEP ? 1 : Layout::ROWS / STEP;

  static_assert(THREADS % VECS_PER_ROW == 0 && (Layout::ROWS < STEP || Layout::ROWS % STEP == 0),
                "all threads copy equally many vectors, or some threads none");
  static_assert(STEP % Layout::SWIZZLE_PERIOD == 0, "a thread's vectors have the same swizzle");

 public:
  /// The first tile begins at `from`, its rows are `pitch` bytes apart; `valid_mn` rows of X(mn, k)
  /// and `valid_k` values of k are inside the operand.
  __device__ __forceinline__ void start(const T* from, uint32_t pitch, int valid_mn, int valid_k) {
    const int row = static_cast<int>(threadIdx.x / VECS_PER_ROW);
    const int vec = static_cast<int>(threadIdx.x % VECS_PER_ROW);
    pitch_ = pitch;
    from_ = reinterpret_cast<const unsigned char*>(from) + uint64_t{pitch} * row + vec * VEC_BYTES;
    smem_offset_ = Layout::offset(row, vec);
    valid_mn_ = valid_mn - (Layout::K_MAJOR ? row : vec * VEC);
    valid_k_ = valid_k - (Layout::K_MAJOR ? vec * VEC : row);
  }

  /// Starts a part of the copies of the next tile, from 0 to PARTS - 1. WHOLE: the tile is wholly
  /// inside the operand, or beyond its last k.
  template <bool WHOLE, int PARTS>
  __device__ __forceinline__ void copy(T* stage, int part) const {
    if (Layout::ROWS < STEP && threadIdx.x >= Layout::ROWS * VECS_PER_ROW) return;
    const int rows = Layout::K_MAJOR ? valid_mn_ : valid_k_;
    const int cols = Layout::K_MAJOR ? valid_k_ : valid_mn_;
    const int bytes = WHOLE ? (valid_k_ > 0 ? VEC : 0) * static_cast<int>(sizeof(T))
                            : min(max(cols, 0), VEC) * static_cast<int>(sizeof(T));
#pragma unroll
    for (int pass = 0; pass < PASSES; ++pass) {
      if (pass % PARTS != part) continue;
      cp_async_16(stage + smem_offset_ + pass * STEP * Layout::COLS,
                  from_ + uint64_t{pitch_} * (pass * STEP),
                  WHOLE || pass * STEP < rows ? bytes : 0);
    }
  }

  /// After all parts of a tile.
  __device__ __forceinline__ void advance() {
    from_ += Layout::K_MAJOR ? Layout::DEPTH * sizeof(T) : uint64_t{pitch_} * Layout::DEPTH;
    valid_k_ -= Layout::DEPTH;
  }

 private:
  const unsigned char* from_;  ///< this thread's first vector of the next tile
  uint32_t pitch_;          ///< bytes between rows, in 32 bits: an address then is one instruction
  int valid_mn_, valid_k_;  ///< from this thread's first element on
  int smem_offset_;
};

}  // namespace smem::gemm::sm80::inline SMEM_BUILD
