// Stores the results of a kernel: the offset of a split of an output, and the conversion to the
// dtype of out.
#pragma once

#include "device/access.h"
#include "reduce/reduce.h"

namespace smem::reduce {
inline namespace SMEM_BUILD {

template <typename Out, typename Acc>
__device__ __forceinline__ void store_as(void* out, int64_t index, Acc value, Site site) {
  smem::store(static_cast<Out*>(out) + index,
              from_accumulator<Out>(static_cast<Accumulator<Out>>(value)), site);
}

/// Stores the result of an output, or the partial of a split of it, to element `index` of out.
/// Called by one thread.
template <typename Acc>
__device__ __forceinline__ void store_result_at(const Problem& problem, int64_t index, Acc value,
                                                Site site = Site::here()) {
  if constexpr (std::is_same_v<Acc, int64_t>) {
    switch (problem.out_dtype) {
      case DType::i32:
        return store_as<int32_t>(problem.out, index, value, site);
      case DType::i16:
        return store_as<int16_t>(problem.out, index, value, site);
      case DType::i8:
      case DType::u8:
        return store_as<uint8_t>(problem.out, index, value, site);
      case DType::boolean:
        return store_as<bool>(problem.out, index, value, site);
      default:
        return store_as<int64_t>(problem.out, index, value, site);
    }
  } else {
    if (problem.divisor != 1) value = value / Acc(problem.divisor);
    switch (problem.out_dtype) {
      case DType::f64:
        return store_as<double>(problem.out, index, value, site);
      case DType::f16:
        return store_as<half>(problem.out, index, value, site);
      case DType::bf16:
        return store_as<bfloat16>(problem.out, index, value, site);
      default:
        return store_as<float>(problem.out, index, value, site);
    }
  }
}

/// Stores the result of split `split` of output `output`.
template <typename Acc>
__device__ __forceinline__ void store_result(const Problem& problem, int64_t output, int64_t split,
                                             Acc value, Site site = Site::here()) {
  store_result_at(problem, offsets_at(problem.outputs, output).of[OUT] + split, value, site);
}

}  // namespace SMEM_BUILD
}  // namespace smem::reduce
