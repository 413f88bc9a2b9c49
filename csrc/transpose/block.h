// What all transpose kernels share: the element types, the block's tile, the row of the kernel
// table.
//
// A launch covers every matrix of the batch with tiles of tile_rows x tile_cols, one block per
// tile, in a one-dimensional grid:
//
//            in: rows x cols                        out: cols x rows
//          tile_n = 0     1     2                 tile_m = 0      1
//         +-------+-------+-----+                +--------+-----+
//  tile_m |       |       |     |         tile_n |        |     |
//     = 0 |   0   |   2   |  4  |            = 0 |   0    |  1  |    (column-major order of tiles:
//         +-------+-------+-----+                +--------+-----+     the numbers are blockIdx.x)
//       1 |   1   |   3   |  5  |              1 |   2    |  3  |
//         +-------+-------+-----+                +--------+-----+
//
// What may be changed safely: the order of the tiles. It decides which blocks run at the same time
// and so which DRAM pages are open together; it does not change the result.
#pragma once

#include "device/numeric_types.h"
#include "device/symbol.h"
#include "device/tile.h"
#include "transpose/ladder.h"

namespace smem::transpose::inline SMEM_BUILD {

/// A 16-byte element. Elements are unsigned integers of their size: no kernel looks at values.
struct alignas(16) Bits128 {
  uint64_t low, high;
};

/// Splits an index, such as threadIdx.x, into bit fields, from the lowest bit on.
struct BitFields {
  int remaining;

  __device__ __forceinline__ int take(int count) {
    const int field = remaining & ((1 << count) - 1);
    remaining >>= count;
    return field;
  }
};

/// A matrix cut into tiles_m x tiles_n tiles.
struct TileGrid {
  int tile_rows, tile_cols;
  unsigned tiles_m, tiles_n;
};

/// Tiles of 2^log2_tile_rows x 2^log2_tile_cols. `halo_rows` is how many rows the tiles must cover
/// beyond the last row of the matrix.
__device__ __forceinline__ TileGrid make_tile_grid(const Problem& problem, int log2_tile_rows,
                                                   int log2_tile_cols, int halo_rows = 0) {
  const int rows = 1 << log2_tile_rows, cols = 1 << log2_tile_cols;
  return {rows, cols,
          static_cast<unsigned>((problem.rows + halo_rows + rows - 1) >> log2_tile_rows),
          static_cast<unsigned>((problem.cols + cols - 1) >> log2_tile_cols)};
}

/// The block's tile: its matrix of the batch and the coordinates of the tile's first element.
template <typename T>
struct BlockTile {
  Matrix<const T> in;
  Matrix<T> out;  ///< cols x rows
  int64_t row0, col0;

  /// Row-major order: consecutive blocks have tiles side by side in `in`.
  __device__ __forceinline__ BlockTile(const Problem& problem, int tile_rows, int tile_cols) {
    const auto tiles_m = static_cast<unsigned>((problem.rows + tile_rows - 1) / tile_rows);
    const auto tiles_n = static_cast<unsigned>((problem.cols + tile_cols - 1) / tile_cols);
    const unsigned tile = locate(problem, tiles_m * tiles_n);
    row0 = int64_t{tile / tiles_n} * tile_rows;
    col0 = int64_t{tile % tiles_n} * tile_cols;
  }

  /// Column-major order: consecutive blocks have tiles below each other in `in`, so that blocks
  /// which run at the same time write neighbouring addresses. DRAM gains more from neighbouring
  /// writes than from neighbouring reads.
  __device__ __forceinline__ BlockTile(const Problem& problem, const TileGrid& grid) {
    const unsigned tile = locate(problem, grid.tiles_m * grid.tiles_n);
    row0 = int64_t{tile % grid.tiles_m} * grid.tile_rows;
    col0 = int64_t{tile / grid.tiles_m} * grid.tile_cols;
  }

 private:
  /// Finds the block's matrix and returns the index of its tile there. A single matrix costs no
  /// division. The general nest of batch dimensions is a call, so that its registers and
  /// instructions do not burden the other two cases.
  __device__ __forceinline__ unsigned locate(const Problem& problem, unsigned tiles_per_matrix) {
    unsigned tile = blockIdx.x;
    Offsets<TENSORS> batch{};
    if (problem.batch.rank > 0) {
      const unsigned matrix = tile / tiles_per_matrix;
      tile %= tiles_per_matrix;
      if (problem.batch.rank > 1) {
        batch = call_offsets_at(problem.batch, matrix);
      } else {
        batch.of[IN] = matrix * problem.batch.stride[IN][0];
        batch.of[OUT] = matrix * problem.batch.stride[OUT][0];
      }
    }
    in = {static_cast<const T*>(problem.in) + batch.of[IN], problem.rows, problem.cols,
          problem.in_row_stride, problem.in_col_stride};
    out = {static_cast<T*>(problem.out) + batch.of[OUT], problem.cols, problem.rows,
           problem.out_col_stride, problem.out_row_stride};
    return tile;
  }
};

/// The launch with one block per tile of every matrix of the batch.
inline Geometry one_block_per_tile(const Problem& problem, int64_t tile_rows, int64_t tile_cols,
                                   dim3 threads, size_t dynamic_shared_bytes = 0) {
  return {.blocks = ceil_div(problem.rows, tile_rows) * ceil_div(problem.cols, tile_cols) *
                    problem.batch.count(),
          .threads = threads,
          .dynamic_shared_bytes = dynamic_shared_bytes};
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

/// A row of the kernel table. For every element type T, `Implementation` has `run<T>(problem,
/// device)`, which launches, and `kernel<T>()`, the __global__ function that it launches (the most
/// frequent one where there are several).
template <typename Implementation>
constexpr Kernel make_kernel(const char* summary) {
  return {.name = Implementation::NAME,
          .summary = summary,
          .requires_ = "any shape, any strides, elements of 1, 2, 4, 8 or 16 bytes",
          .launch =
              [](const Problem& problem, const Device& device) {
                with_element_type(problem.element_bytes, [&](auto tag) {
                  Implementation::template run<typename decltype(tag)::type>(problem, device);
                });
              },
          .function = [](size_t element_bytes) -> const void* {
            return with_element_type(element_bytes, [](auto tag) {
              using T = typename decltype(tag)::type;
              return reinterpret_cast<const void*>(Implementation::template kernel<T>());
            });
          },
          .symbol = [](size_t element_bytes) -> const char* {
            return with_element_type(element_bytes, [](auto tag) {
              using T = typename decltype(tag)::type;
              return symbol_of<Implementation::template kernel<T>()>();
            });
          }};
}

}  // namespace smem::transpose::inline SMEM_BUILD
