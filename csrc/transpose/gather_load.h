// What `gathered` brings to shared memory: rows of a matrix, as whole vectors.
#pragma once

#include "device/cp_async.h"
#include "transpose/block.h"
#include "transpose/gather_tile.h"
#include "transpose/tiling.h"
#include "transpose/words.h"

namespace smem::transpose {
inline namespace SMEM_BUILD {

template <typename T>
constexpr int log2_width() {
  return log2_of(VECTOR_WIDTH<T>);
}

/// Vectors that a thread has under way: 100 KiB a multiprocessor, and a tile in two steps.
constexpr int BATCH = 10;
constexpr int LINE_BYTES = 128;

struct GatherProblem {
  Problem problem;
  GatherTile tile;
  Span readable;
};

/// Copies a vector; of one that is not all readable, the elements that are.
template <typename T>
__device__ __forceinline__ void copy_readable(T* to, const T* from, const Span& readable) {
  constexpr int W = VECTOR_WIDTH<T>;
  const auto* const begin = reinterpret_cast<const T*>(readable.begin);
  const auto* const end = reinterpret_cast<const T*>(readable.end);
  if (from >= begin && from + W <= end) return copy_async<W>(to, from, W);
#pragma unroll 1
  for (int e = 0; e < W; ++e) {
    if (from + e >= begin && from + e < end) store(to + e, load(from + e));
  }
}

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
  const int past = elements_past_line(run);
#pragma unroll 4
  for (int e = past / W * W + static_cast<int>(threadIdx.x) * W; e < past + elements;
       e += GATHER_THREADS * W) {
    copy_readable(shared + e, run + (e - past), readable);
  }
}

/// Which rows of the matrix lie in the slots of shared memory, one after the other: either in their
/// order, or first all that are a multiple of W below the first, then all one further, ...
struct Slots {
  int64_t row0;
  int step;

  template <typename T>
  __device__ __forceinline__ Slots(const GatherTile& tile, int64_t row0, TypeTag<T> /*type*/)
      : row0(row0), step(tile.stacks.by == 1 ? 1 : VECTOR_WIDTH<T>) {}
  __device__ __forceinline__ int64_t row(const GatherTile& tile, int slot) const {
    const Division place = divide(slot, tile.stacks);
    return row0 + place.rest * step + place.quotient;
  }
};

/// Brings `width` elements from column `col0` on of each slot's row: the vectors that they lie in,
/// each once. Rows outside the matrix are left out.
template <typename T>
__device__ __forceinline__ void load_rows(T* shared, const Matrix<const T>& in,
                                          const GatherTile& tile, const Span& readable,
                                          int64_t row0, int64_t col0, int width) {
  constexpr int W = VECTOR_WIDTH<T>;
  const Slots slots(tile, row0, TypeTag<T>{});
#pragma unroll 1
  for (int unit = threadIdx.x; unit < tile.slots * static_cast<int>(tile.pitch.by);
       unit += GATHER_THREADS) {
    const Division slot = divide(unit, tile.pitch);
    const int64_t row = slots.row(tile, slot.quotient);
    if (row < 0 || row >= in.rows) continue;
    const T* const run = in.data + row * in.row_stride + col0;
    const int past = elements_past_vector(run);
    if (slot.rest * W < past + width) {
      copy_readable(shared + unit * W, run - past + slot.rest * W, readable);
    }
  }
}

/// The same for a tile whose columns are a power of two. A thread's rows lie a multiple of W apart,
/// and so all begin equally far past a vector: what the thread knows of one, it knows of all, and a
/// vector costs two additions. The vectors pass through registers, ten at once: cp.async would read
/// half of the sectors twice, those that it must put into two (of 1031 x 517 floats 4.4 MB for
/// 2.7, traced). It brings the vector that rows have beyond a power of two. At the very ends of
/// what may be read, where some vectors may not, each is looked at by itself.
template <typename T>
__device__ __forceinline__ void load_tile(T* shared, const Matrix<const T>& in,
                                          const GatherTile& tile, const Span& readable,
                                          int64_t row0, int64_t col0, int width) {
  constexpr int W = VECTOR_WIDTH<T>;
  const int first = row0 < 0 ? static_cast<int>(-row0) : 0;
  const int end = in.rows - row0 < tile.slots ? static_cast<int>(in.rows - row0) : tile.slots;
  const auto source = [&](int row) { return in.data + (row0 + row) * in.row_stride + col0; };
  const T* const last = source(end - 1) + width;
  if (reinterpret_cast<const char*>(source(first) - elements_past_vector(source(first))) <
          readable.begin ||
      reinterpret_cast<const char*>(last + (-elements_past_vector(last) & (W - 1))) >
          readable.end) {
    return load_rows(shared, in, tile, readable, row0, col0, width);
  }

  const int pitch = static_cast<int>(tile.pitch.by) * W;
  const int stacks = static_cast<int>(tile.stacks.by);
  const auto slot = [&](int row) { return (row % W * stacks + row / W) * pitch; };
  // A row's vectors but the last; so many of them at once that the step is a multiple of W rows.
  const int whole = 1 << tile.log2_cols < W ? W : 1 << tile.log2_cols;
  const int at_once = whole < GATHER_THREADS ? whole : GATHER_THREADS;
  const int vectors = at_once / W, step = GATHER_THREADS / vectors;
  const int begin = static_cast<int>(threadIdx.x) / vectors;
  const int past = elements_past_vector(source(begin));
  for (int row = first + static_cast<int>(threadIdx.x); row < end; row += GATHER_THREADS) {
    const int row_past = elements_past_vector(source(row));
    if (whole < row_past + width) {
      copy_async<W>(shared + slot(row) + whole, source(row) - row_past + whole, W);
    }
  }
  for (int at = static_cast<int>(threadIdx.x) % vectors * W; at < whole && at < past + width;
       at += at_once) {
    const T* from = source(begin) - past + at;
    T* to = shared + slot(begin) + at;
    for (int row = begin; row < end; row += BATCH * step) {
      Words words[BATCH];
#pragma unroll
      for (int i = 0; i < BATCH; ++i) {
        if (row + i * step >= first && row + i * step < end) words[i] = load_words(from);
        from += step * in.row_stride;
      }
#pragma unroll
      for (int i = 0; i < BATCH; ++i) {
        if (row + i * step >= first && row + i * step < end) store_words(to, words[i]);
        to += step / W * pitch;
      }
    }
  }
}

/// The same where the elements of a row lie apart: each row begins at its first element.
template <typename T>
__device__ __forceinline__ void load_elements(T* shared, const Matrix<const T>& in,
                                              const GatherTile& tile, int64_t row0, int64_t col0,
                                              int width) {
  constexpr int W = VECTOR_WIDTH<T>;
  const Slots slots(tile, row0, TypeTag<T>{});
  for (int i = threadIdx.x; i < tile.slots * width; i += GATHER_THREADS) {
    const int slot = i / width, e = i % width;
    const int64_t row = slots.row(tile, slot);
    if (row < 0 || row >= in.rows) continue;
    store(shared + slot * static_cast<int>(tile.pitch.by) * W + e, load(in.at(row, col0 + e)));
  }
}

}  // namespace SMEM_BUILD
}  // namespace smem::transpose
