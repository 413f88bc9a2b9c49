// What `unaligned` brings to shared memory: rows of a matrix, as whole vectors.
#pragma once

#include "device/bounded_copy.h"
#include "transpose/block.h"
#include "transpose/unaligned_tile.h"
#include "transpose/tiling.h"
#include "transpose/vec128.h"

namespace smem::transpose {
inline namespace SMEM_BUILD {

template <typename T>
constexpr int log2_width() {
  return log2_of(VECTOR_WIDTH<T>);
}

constexpr int LINE_BYTES = 128;

struct GatherProblem {
  Problem problem;
  GatherTile tile;
  Span readable;
};

/// Elements by which an address lies above a multiple of 128 bytes.
template <typename T>
__device__ __forceinline__ int elements_past_line(const T* address) {
  return static_cast<int>(reinterpret_cast<uintptr_t>(address) % LINE_BYTES / sizeof(T));
}

/// Brings a run of elements: the vectors that it lies in, each once. It begins as far past a line
/// in shared memory as outside: a copy whose sectors are halved on their way moves them twice.
template <typename T>
__device__ __forceinline__ void load_run(T* shared, const T* run, int elements,
                                         const Span& readable) {
  constexpr int W = VECTOR_WIDTH<T>;
  const int past = elements_past_line(run), end = (past + elements + W - 1) & -W;
  const int begin = past & -W, mine = begin + static_cast<int>(threadIdx.x) * W;
  const T* const from = run - past;
  if (reinterpret_cast<const char*>(from + begin) >= readable.begin &&
      reinterpret_cast<const char*>(from + end) <= readable.end) {
#pragma unroll 4
    for (int e = mine; e < end; e += GATHER_THREADS * W) cp_async<W>(shared + e, from + e, W);
  } else {
#pragma unroll 1
    for (int e = mine; e < end; e += GATHER_THREADS * W) {
      copy_readable(shared + e, from + e, readable);
    }
  }
}

/// Rows of a tile in shared memory, in slots: either in their order, or first all that are a
/// multiple of W below the first, then all one further, ... Rows of one such class begin equally
/// far past a vector and lie an odd number of vectors apart: in different banks.
template <typename T>
struct Slots {
  static constexpr int W = VECTOR_WIDTH<T>;

  int pitch, stacks;    ///< elements from slot to slot; rows of a class
  int past, past_step;  ///< how far past a vector the tile's first row begins, and the next
  int mask = W - 1;     ///< how much of that a slot keeps

  __device__ __forceinline__ explicit Slots(const GatherTile& tile)
      : pitch(static_cast<int>(tile.pitch.by) * W), stacks(static_cast<int>(tile.stacks.by)) {
    past = past_step = 0;
  }

  /// A copy whose sectors are halved on their way moves them twice, so a row is to begin as far
  /// past a sector as it does outside. That costs no bank where rows W apart begin in different
  /// halves of a sector, as they do if the step from row to row is odd.
  __device__ __forceinline__ void begin_like(const Matrix<const T>& in, int64_t row, int64_t col) {
    const auto address = reinterpret_cast<uintptr_t>(in.data + row * in.row_stride + col);
    past = static_cast<int>(address / sizeof(T) % (2 * W));
    past_step = static_cast<int>(in.row_stride & (2 * W - 1));
    mask = past_step % 2 != 0 ? 2 * W - 1 : W - 1;
  }
  __device__ __forceinline__ int past_vector(int row) const {
    return (past + row * past_step) & (W - 1);
  }

  /// Where a row's slot begins, and in it the row's first element; rows are W * stack + class.
  __device__ __forceinline__ int slot(int stack, int of_class) const {
    return (of_class * stacks + stack) * pitch;
  }
  __device__ __forceinline__ int place(int stack, int of_class) const {
    const int begin = slot(stack, of_class);
    return begin + ((past + (stack * W + of_class) * past_step - begin) & mask);
  }
  __device__ __forceinline__ int place(int row) const {
    return stacks == 1 ? place(0, row) : place(row / W, row % W);
  }
  __device__ __forceinline__ int row(const GatherTile& tile, int slot) const {
    const Division found = divide(slot, tile.stacks);
    return stacks == 1 ? slot : found.rest * W + found.quotient;
  }
};

/// Brings `width` elements from column `col0` on of each slot's row: the vectors that they lie in,
/// each once. Rows outside the matrix are left out.
template <typename T>
__device__ __forceinline__ void load_rows(T* shared, const Matrix<const T>& in,
                                          const GatherTile& tile, const Slots<T>& slots,
                                          const Span& readable, int64_t row0, int64_t col0,
                                          int width) {
  constexpr int W = VECTOR_WIDTH<T>;
#pragma unroll 1
  for (int unit = threadIdx.x; unit < tile.slots * static_cast<int>(tile.pitch.by);
       unit += GATHER_THREADS) {
    const Division slot = divide(unit, tile.pitch);
    const int row = slots.row(tile, slot.quotient), past = slots.past_vector(row);
    if (row0 + row < 0 || row0 + row >= in.rows || slot.rest * W >= past + width) continue;
    copy_readable(shared + (slots.place(row) - past + slot.rest * W),
                  in.data + (row0 + row) * in.row_stride + col0 - past + slot.rest * W, readable);
  }
}

/// The same for the rows of a tile: 16 or 32 lanes have a row, as many as it has vectors. A
/// thread's rows lie a multiple of W apart: what it knows of one, it knows of all, and a vector
/// costs a few additions. At the very ends of what may be read, where some vectors may not, each is
/// looked at by itself.
template <typename T, int THREADS>
struct TileLoad {
  static constexpr int W = VECTOR_WIDTH<T>, VECTORS = tile_cols(sizeof(T), THREADS) / W + 1;
  static constexpr int AT_ONCE = THREADS / VECTORS;
  static_assert(AT_ONCE % W == 0);

  const T* from;
  T* to;
  int64_t from_step;
  int row, to_step, first, end;  ///< rows before `first` and from `end` on are not in the matrix
  bool any, inside;

  __device__ __forceinline__ TileLoad(T* shared, const Matrix<const T>& in, const GatherTile& tile,
                                      const Slots<T>& slots, const Span& readable, int64_t row0,
                                      int64_t col0, int width) {
    row = static_cast<int>(threadIdx.x) / VECTORS;
    const int past = slots.past_vector(row), at = static_cast<int>(threadIdx.x) % VECTORS * W;
    const T* const begin = in.data + row0 * in.row_stride + col0;
    from = begin + row * in.row_stride - past + at;
    to = shared + (slots.place(row) - past + at);
    from_step = AT_ONCE * in.row_stride;
    to_step = AT_ONCE / W * slots.pitch;
    first = row0 < 0 ? static_cast<int>(-row0) : 0;
    end = in.rows - row0 < tile.slots ? static_cast<int>(in.rows - row0) : tile.slots;
    any = at < past + width;
    const T* const last = begin + (end - 1) * in.row_stride + width;
    inside =
        reinterpret_cast<const char*>(begin + first * in.row_stride - (W - 1)) >= readable.begin &&
        reinterpret_cast<const char*>(last + (W - 1)) <= readable.end;
  }

  /// The next rows, up to `until`.
  __device__ __forceinline__ void start(int until, const Span& readable) {
    const int stop = until < end ? until : end;
    if (any && inside) {
#pragma unroll 4
      for (; row < stop; row += AT_ONCE) {
        if (row >= first) cp_async<W>(to, from, W);
        from += from_step;
        to += to_step;
      }
    } else {
#pragma unroll 1
      for (; row < stop; row += AT_ONCE) {
        if (any && row >= first) copy_readable(to, from, readable);
        from += from_step;
        to += to_step;
      }
    }
    cp_async_commit();
  }
};

/// The same where the elements of a row lie apart: each row begins at its first element.
template <typename T>
__device__ __forceinline__ void load_elements(T* shared, const Matrix<const T>& in,
                                              const GatherTile& tile, const Slots<T>& slots,
                                              int64_t row0, int64_t col0, int width) {
  for (int i = threadIdx.x; i < tile.slots * width; i += static_cast<int>(blockDim.x)) {
    const int row = slots.row(tile, i / width), e = i % width;
    if (row0 + row < 0 || row0 + row >= in.rows) continue;
    store(shared + (slots.place(row) + e), load(in.at(row0 + row, col0 + e)));
  }
}

}  // namespace SMEM_BUILD
}  // namespace smem::transpose
