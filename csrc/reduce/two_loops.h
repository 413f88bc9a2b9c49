// Where the elements of an output are, if they lie along two loops, as those of most reductions
// over several dimensions do. An address costs a multiplication and a shift instead of a call that
// divides: rows of 34 elements, for example, begin anew with nearly every load of a lane.
#pragma once

#include <limits>

#include "device/fast_divmod.h"
#include "reduce/reduce.h"

namespace smem::reduce {

struct TwoLoops {
  bool exist;  ///< false: there are not two loops, no elements, or too many for FastDivmod
  FastDivmod by_inner_size;
  int64_t outer_stride, inner_stride;

  explicit TwoLoops(const Problem& problem)
      : exist(problem.reduced.rank == 2 && problem.count > 0 &&
              problem.count <= std::numeric_limits<int32_t>::max()),
        by_inner_size(exist ? problem.reduced.size[1] : 1),
        outer_stride(problem.reduced.stride[IN][0]),
        inner_stride(problem.reduced.stride[IN][1]) {}
};

inline namespace SMEM_BUILD {

/// The offset of element i, which is below 2^31. The loops exist.
__device__ __forceinline__ int64_t offset_at(const TwoLoops& loops, int64_t i) {
  const auto [outer, inner] = divide(static_cast<int>(i), loops.by_inner_size);
  return outer * loops.outer_stride + inner * loops.inner_stride;
}

}  // namespace SMEM_BUILD
}  // namespace smem::reduce
