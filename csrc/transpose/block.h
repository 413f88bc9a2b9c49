// What the transpose kernels share: the block's tile, the element types, the row of the table.
#pragma once

#include "device/numeric_types.h"
#include "device/symbol.h"
#include "device/tile.h"
#include "transpose/ladder.h"

namespace smem::transpose {
inline namespace SMEM_BUILD {

/// Bits of an element: transposing never looks at values.
struct alignas(16) Bits128 {
  uint64_t low, high;
};

/// A number of which bits are taken, from the lowest on: what a thread's number says, part by part.
struct Bits {
  int left;

  __device__ __forceinline__ int take(int count) {
    const int bits = left & ((1 << count) - 1);
    left >>= count;
    return bits;
  }
};

/// Tiles of a size, so many below each other and side by side.
struct Tiles {
  int rows, cols;
  unsigned down, across;
};

/// Tiles of 2^log2_rows x 2^log2_cols, which cover `more_rows` rows beyond the last.
__device__ __forceinline__ Tiles tiles_of(const Problem& problem, int log2_rows, int log2_cols,
                                          int more_rows = 0) {
  const int rows = 1 << log2_rows, cols = 1 << log2_cols;
  return {rows, cols, static_cast<unsigned>((problem.rows + more_rows + rows - 1) >> log2_rows),
          static_cast<unsigned>((problem.cols + cols - 1) >> log2_cols)};
}

/// One block's tile: its matrix of the batch and the tile's corner.
template <typename T>
struct Block {
  Matrix<const T> in;
  Matrix<T> out;  ///< cols x rows
  int64_t row0, col0;

  /// Tiles that follow each other lie side by side along a row.
  __device__ __forceinline__ Block(const Problem& problem, int tile_rows, int tile_cols) {
    const auto tiles_m = static_cast<unsigned>((problem.rows + tile_rows - 1) / tile_rows);
    const auto tiles_n = static_cast<unsigned>((problem.cols + tile_cols - 1) / tile_cols);
    const unsigned tile = place(problem, tiles_m * tiles_n);
    row0 = int64_t{tile / tiles_n} * tile_rows;
    col0 = int64_t{tile % tiles_n} * tile_cols;
  }

  /// Tiles that follow each other lie below each other: what blocks write that run together lies
  /// close, which DRAM rewards more than that of what they read.
  __device__ __forceinline__ Block(const Problem& problem, const Tiles& tiles) {
    const unsigned tile = place(problem, tiles.down * tiles.across);
    row0 = int64_t{tile % tiles.down} * tiles.rows;
    col0 = int64_t{tile / tiles.down} * tiles.cols;
  }

 private:
  /// Finds the block's matrix, and its tile among so many there. A matrix alone costs no division,
  /// and what a nest of batches costs does not stand in the way of the others.
  __device__ __forceinline__ unsigned place(const Problem& problem, unsigned tiles) {
    unsigned tile = blockIdx.x;
    Offsets<TENSORS> batch{};
    if (problem.batch.rank > 0) {
      const unsigned member = tile / tiles;
      tile %= tiles;
      if (problem.batch.rank > 1) {
        batch = call_offsets_at(problem.batch, member);
      } else {
        batch.of[IN] = member * problem.batch.stride[IN][0];
        batch.of[OUT] = member * problem.batch.stride[OUT][0];
      }
    }
    in = {static_cast<const T*>(problem.in) + batch.of[IN], problem.rows, problem.cols,
          problem.in_row_stride, problem.in_col_stride};
    out = {static_cast<T*>(problem.out) + batch.of[OUT], problem.cols, problem.rows,
           problem.out_col_stride, problem.out_row_stride};
    return tile;
  }
};

/// The launch that covers every matrix of the batch with tiles, a block to a tile.
inline Geometry cover(const Problem& problem, int64_t tile_rows, int64_t tile_cols, dim3 threads,
                      size_t dynamic_shared_bytes = 0) {
  return {
      ceil_div(problem.rows, tile_rows) * ceil_div(problem.cols, tile_cols) * problem.batch.count(),
      threads, dynamic_shared_bytes};
}

template <typename F>
auto with_element_type(size_t element_bytes, F&& f) {
  switch (element_bytes) {
    case 1:
      return f(TypeTag<uint8_t>{});
    case 2:
      return f(TypeTag<uint16_t>{});
    case 4:
      return f(TypeTag<uint32_t>{});
    case 8:
      return f(TypeTag<uint64_t>{});
    default:
      return f(TypeTag<Bits128>{});
  }
}

/// A table row from a type that gives, for an element type T, `run<T>(problem, device)` and
/// `kernel<T>()`, the function that it launches (one of them, where there are several).
template <typename Rung>
constexpr Kernel make_kernel(const char* summary) {
  return {Rung::NAME,
          summary,
          "any shape, any strides, elements of 1, 2, 4, 8 or 16 bytes",
          [](const Problem& problem, const Device& device) {
            with_element_type(problem.element_bytes, [&](auto tag) {
              Rung::template run<typename decltype(tag)::type>(problem, device);
            });
          },
          [](size_t element_bytes) -> const void* {
            return with_element_type(element_bytes, [](auto tag) {
              using T = typename decltype(tag)::type;
              return reinterpret_cast<const void*>(Rung::template kernel<T>());
            });
          },
          [](size_t element_bytes) -> const char* {
            return with_element_type(element_bytes, [](auto tag) {
              using T = typename decltype(tag)::type;
              return symbol_of<Rung::template kernel<T>()>();
            });
          }};
}

}  // namespace SMEM_BUILD
}  // namespace smem::transpose
