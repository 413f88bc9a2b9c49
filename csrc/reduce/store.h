// Stores the results of a kernel: the offset of a split of an output, and the conversion to the
// dtype of out.
#pragma once

#include "device/numeric_types.h"
#include "reduce/reduce.h"

namespace smem::reduce::inline SMEM_BUILD {

/// Element `index` of out.
struct OutputElement {
  void* out;
  int64_t index;
};

template <typename Out, typename Acc>
__device__ __forceinline__ void store_as(const OutputElement& to, Acc value) {
  static_cast<Out*>(to.out)[to.index] = from_accumulator<Out>(static_cast<Accumulator<Out>>(value));
}

/// Stores the result of an output, or the partial of a split of it, to element `index` of out.
/// Called by one thread.
template <typename Acc>
__device__ __forceinline__ void store_result_at(const Problem& problem, int64_t index, Acc value) {
  const OutputElement to{problem.out, index};
  if constexpr (std::is_same_v<Acc, int64_t>) {
    switch (problem.out_dtype) {
      case DType::i32:
        return store_as<int32_t>(to, value);
      case DType::i16:
        return store_as<int16_t>(to, value);
      case DType::i8:
      case DType::u8:
        return store_as<uint8_t>(to, value);
      case DType::boolean:
        return store_as<bool>(to, value);
      default:
        return store_as<int64_t>(to, value);
    }
  } else {
    if (problem.divisor != 1) value = value / Acc(problem.divisor);
    switch (problem.out_dtype) {
      case DType::f64:
        return store_as<double>(to, value);
      case DType::f16:
        return store_as<half>(to, value);
      case DType::bf16:
        return store_as<bfloat16>(to, value);
      default:
        return store_as<float>(to, value);
    }
  }
}

/// Stores the result of split `split` of output `output`.
template <typename Acc>
__device__ __forceinline__ void store_result(const Problem& problem, int64_t output, int64_t split,
                                             Acc value) {
  store_result_at(problem, offsets_at(problem.outputs, output).of[OUT] + split, value);
}

}  // namespace smem::reduce::inline SMEM_BUILD
