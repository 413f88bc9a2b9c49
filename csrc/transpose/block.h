// What every transpose kernel shares: 32 x 8 threads turn a 32 x 32 tile, four rows of it a thread.
#pragma once

#include "device/symbol.h"
#include "device/tile.h"
#include "transpose/ladder.h"

namespace smem::transpose {
inline namespace SMEM_BUILD {

constexpr int TILE = 32;
constexpr int TILE_ROWS_A_STEP = 8;
constexpr int THREADS = TILE * TILE_ROWS_A_STEP;

/// Bits of an element: transposing never looks at values.
struct alignas(16) Bits128 {
  uint64_t low, high;
};

/// One block's tile: its matrix of the batch and the tile's corner.
template <typename T>
struct Block {
  Matrix<const T> in;
  Matrix<T> out;  ///< cols x rows
  int64_t row0, col0;

  __device__ __forceinline__ explicit Block(const Problem& problem) {
    const auto tiles_m = static_cast<unsigned>((problem.rows + TILE - 1) / TILE);
    const auto tiles_n = static_cast<unsigned>((problem.cols + TILE - 1) / TILE);
    const unsigned tile = blockIdx.x % (tiles_m * tiles_n);
    row0 = int64_t{tile / tiles_n} * TILE;
    col0 = int64_t{tile % tiles_n} * TILE;
    const auto batch = offsets_at(problem.batch, blockIdx.x / (tiles_m * tiles_n));
    in = {static_cast<const T*>(problem.in) + batch.of[IN], problem.rows, problem.cols,
          problem.in_row_stride, problem.in_col_stride};
    out = {static_cast<T*>(problem.out) + batch.of[OUT], problem.cols, problem.rows,
           problem.out_col_stride, problem.out_row_stride};
  }
};

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

/// A table row from a type that gives `kernel<T>()`.
template <typename Rung>
constexpr Kernel make_kernel(const char* summary) {
  return {Rung::NAME,
          summary,
          "any shape, any strides, elements of 1, 2, 4, 8 or 16 bytes",
          [](const Problem& problem, const Device& device) {
            const int64_t tiles = ceil_div(problem.rows, TILE) * ceil_div(problem.cols, TILE);
            const Geometry geometry{tiles * problem.batch.count(), {TILE, TILE_ROWS_A_STEP}};
            with_element_type(problem.element_bytes, [&](auto tag) {
              using T = typename decltype(tag)::type;
              launch(Rung::NAME, Rung::template kernel<T>(), geometry, device, problem);
            });
          },
          [](size_t element_bytes) -> const void* {
            return with_element_type(element_bytes, [](auto tag) {
              using T = typename decltype(tag)::type;
              return reinterpret_cast<const void*>(Rung::template kernel<T>());
            });
          },
          [](size_t element_bytes) -> std::string_view {
            return with_element_type(element_bytes, [](auto tag) {
              using T = typename decltype(tag)::type;
              return symbol_of<Rung::template kernel<T>()>();
            });
          }};
}

}  // namespace SMEM_BUILD
}  // namespace smem::transpose
