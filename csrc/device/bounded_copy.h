// Copies of the aligned vectors that runs lie in which begin and end anywhere: of the first and the
// last of them only what belongs to the tensor may be read.
#pragma once

#include "device/cp_async.h"

namespace smem {

/// The elements that may be read: from the problem's first to its last, and what lies between.
struct Span {
  const char *begin, *end;
};

inline namespace SMEM_BUILD {

/// Copies a vector; of one that is not all readable, the elements that are, and zeros.
template <typename T>
__device__ __forceinline__ void copy_readable(T* to, const T* from, const Span& readable,
                                              Site site = Site::here()) {
  constexpr int W = VECTOR_WIDTH<T>;
  const auto* const begin = reinterpret_cast<const T*>(readable.begin);
  const auto* const end = reinterpret_cast<const T*>(readable.end);
  if (from >= begin && from + W <= end) return cp_async<W>(to, from, W, site);
#pragma unroll 1
  for (int e = 0; e < W; ++e) {
    const bool inside = from + e >= begin && from + e < end;
    store(to + e, inside ? load(from + e, site) : T{}, site);
  }
}

}  // namespace SMEM_BUILD
}  // namespace smem
