// What a kernel of the ladder needs to become a row of the kernel table.
#pragma once

#include "device/symbol.h"
#include "gemm/accumulator.h"
#include "gemm/block_tile.h"
#include "gemm/ladder.h"

namespace smem::gemm::inline SMEM_BUILD {

/// The launch with one block of `threads` per tile of out, through the whole batch.
inline Geometry grid_of_tiles(const Problem& problem, int tile_m, int tile_n, dim3 threads,
                              size_t dynamic_shared_bytes = 0) {
  return {ceil_div(problem.M, tile_m) * ceil_div(problem.N, tile_n) * problem.batch.count(),
          threads, dynamic_shared_bytes};
}

/// A row of the table, from a type that gives `kernel<T>()` and `geometry<T>(problem)` for each
/// element type T.
template <typename Rung>
constexpr Kernel make_kernel(const char* name, const char* summary,
                             const char* requires_ = "any shape, any strides",
                             int64_t (*largest_k)(DType, size_t) = nullptr) {
  return {
      .name = name,
      .summary = summary,
      .requires_ = requires_,
      .launch =
          [](const Problem& problem, const Device& device) {
            with_float_type(problem.dtype, [&](auto tag) {
              using T = typename decltype(tag)::type;
              launch(Rung::NAME, Rung::template kernel<T>(), Rung::template geometry<T>(problem),
                     device, problem);
            });
          },
      .function = [](DType dtype) -> const void* {
        return with_float_type(dtype, [](auto tag) {
          using T = typename decltype(tag)::type;
          return reinterpret_cast<const void*>(Rung::template kernel<T>());
        });
      },
      .symbol = [](DType dtype) -> const char* {
        return with_float_type(dtype, [](auto tag) {
          using T = typename decltype(tag)::type;
          return symbol_of<Rung::template kernel<T>()>();
        });
      },
      .largest_k = largest_k,
  };
}

}  // namespace smem::gemm::inline SMEM_BUILD
