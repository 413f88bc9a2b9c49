// Loads an operand's k-tiles into the stages: by cp.async, and through registers on GPUs of sm_75,
// which have no cp.async.
#pragma once

#include "device/target.h"
#include "gemm/sm80/tile_config.h"
#include "gemm/smem_layout.h"

namespace smem::gemm::sm80::inline SMEM_BUILD {

/// Where the operand may end within a tile.
enum class Edges {
  NONE,  ///< nowhere: the tile is inside the operand, or beyond its last k
  ROWS,  ///< between rows of the stage
  ANY    ///< anywhere
};

/// The vectors of 16 bytes that a thread copies of an operand's k-tiles, in order: the same ones of
/// each tile. What is outside the operand becomes zero, without a branch: the copies of a k-tile
/// can then be spread over the products of another one.
template <typename Layout, int THREADS>
class TileVectors {
  using T = typename Layout::Element;
  static constexpr int VEC = Layout::VEC, VECS_PER_ROW = Layout::VECS_PER_ROW;
  static constexpr int STEP = THREADS / VECS_PER_ROW;  ///< rows between a thread's vectors

  static_assert(THREADS % VECS_PER_ROW == 0 && (Layout::ROWS < STEP || Layout::ROWS % STEP == 0),
                "all threads copy equally many vectors, or some threads none");
  static_assert(STEP % Layout::SWIZZLE_PERIOD == 0, "a thread's vectors have the same swizzle");

 public:
  static constexpr int PASSES = Layout::ROWS < STEP ? 1 : Layout::ROWS / STEP;
  static constexpr int PASS_ELEMENTS = STEP * Layout::COLS;  ///< of a stage, between two passes

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

  /// Where the thread's vector of pass 0 belongs.
  __device__ __forceinline__ T* destination(T* stage) const { return stage + smem_offset_; }

  /// Calls visit(pass, from, bytes) for this thread's vectors of a part of the next tile, from 0 to
  /// PARTS - 1. `bytes` are inside the operand: all 16 or none, unless EDGES are ANY.
  template <Edges EDGES, int PARTS, typename Visit>
  __device__ __forceinline__ void for_each(int part, const Visit& visit) const {
    if (Layout::ROWS < STEP && threadIdx.x >= Layout::ROWS * VECS_PER_ROW) return;
    const int rows = Layout::K_MAJOR ? valid_mn_ : valid_k_;
    const int cols = Layout::K_MAJOR ? valid_k_ : valid_mn_;
    const int vec = EDGES == Edges::NONE   ? (valid_k_ > 0 ? VEC : 0)
                    : EDGES == Edges::ROWS ? VEC
                                           : min(max(cols, 0), VEC);
    const int bytes = vec * static_cast<int>(sizeof(T));
#pragma unroll
    for (int pass = 0; pass < PASSES; ++pass) {
      if (pass % PARTS != part) continue;
      visit(pass, from_ + uint64_t{pitch_} * (pass * STEP),
            EDGES == Edges::NONE || pass * STEP < rows ? bytes : 0);
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

/// Copies by cp.async: they land after a commit and a wait.
template <typename Layout, int THREADS, int PARTS>
class AsyncLoader : public TileVectors<Layout, THREADS> {
  using T = typename Layout::Element;

 public:
  /// Starts a part of the copies of the next tile.
  template <Edges EDGES>
  __device__ __forceinline__ void copy(T* stage, int part) {
    T* const first = this->destination(stage);
    const auto copy_vector = [&](int pass, const unsigned char* from, int bytes) {
      T* const to = first + pass * this->PASS_ELEMENTS;
      // NONE would gain nothing by it in mma, and tf32 lose 2%.
      if constexpr (EDGES == Edges::ROWS) {
        cp_async_or_zero<16>(to, from, bytes > 0);
      } else {
        cp_async_16(to, from, bytes);
      }
    };
    this->template for_each<EDGES, PARTS>(part, copy_vector);
  }

  /// Before the wait for the stage that was copied last.
  __device__ __forceinline__ void finish() {}
};

/// Copies through registers: loads are in flight while the products of a k-tile are computed.
template <typename Layout, int THREADS>
class RegisterLoader : public TileVectors<Layout, THREADS> {
  using T = typename Layout::Element;
  using Base = TileVectors<Layout, THREADS>;

  static_assert(Base::PASSES * Base::PASS_ELEMENTS == Layout::ELEMENTS, "all threads copy vectors");

 public:
  /// Loads the next tile, in one part.
  template <Edges EDGES>
  __device__ __forceinline__ void copy(T* stage, int part) {
    to_ = this->destination(stage);
    this->template for_each<EDGES, 1>(part, [&](int pass, const unsigned char* from, int bytes) {
      vectors_[pass] = load_vector<Layout::VEC>(reinterpret_cast<const T*>(from),
                                                bytes / static_cast<int>(sizeof(T)));
    });
  }

  /// Stores the tile that was loaded last.
  __device__ __forceinline__ void finish() {
#pragma unroll
    for (int pass = 0; pass < Base::PASSES; ++pass) {
      store_vector<Layout::VEC>(to_ + pass * Base::PASS_ELEMENTS, vectors_[pass]);
    }
  }

 private:
  Vector<T, Layout::VEC> vectors_[Base::PASSES];
  T* to_;  ///< of vectors_[0]
};

template <typename Layout, int THREADS, int PARTS>
using MultistageLoader = std::conditional_t<TARGET_HAS_SM80, AsyncLoader<Layout, THREADS, PARTS>,
                                            RegisterLoader<Layout, THREADS>>;

}  // namespace smem::gemm::sm80::inline SMEM_BUILD
