// Copies of aligned 16-byte vectors, for segments that begin and end anywhere. The first and the
// last vector of a tensor may extend beyond it; only the part inside the tensor is read.
#pragma once

#include "device/cp_async.h"

namespace smem {

/// The bytes that may be read: from the first element of a tensor to its last, gaps included.
struct Span {
  const char *begin, *end;
};

inline namespace SMEM_BUILD {

/// Copies an aligned vector to shared memory by cp.async. If it is only partly readable, copies the
/// readable elements one by one and writes zeros for the others.
template <typename T>
__device__ __forceinline__ void copy_readable(T* to, const T* from, const Span& readable) {
  constexpr int W = VECTOR_WIDTH<T>;
  const auto* const begin = reinterpret_cast<const T*>(readable.begin);
  const auto* const end = reinterpret_cast<const T*>(readable.end);
  if (from >= begin && from + W <= end) return cp_async<W>(to, from, W);
#pragma unroll 1
  for (int e = 0; e < W; ++e) {
    const bool is_readable = from + e >= begin && from + e < end;
    T* const slot = to + e;
    const T element = is_readable ? from[e] : T{};
    *slot = element;
  }
}

}  // namespace SMEM_BUILD
}  // namespace smem
