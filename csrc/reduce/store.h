// Where a kernel's results go: the place of a chunk of an output, rounded to the dtype of out.
#pragma once

#include "device/access.h"
#include "reduce/reduce.h"

namespace smem::reduce {
inline namespace SMEM_BUILD {

struct Place {
  void* out;
  int64_t index;
};

template <typename Out, typename Acc>
__device__ __forceinline__ void put(const Place& to, Acc value, Site site) {
  smem::store(static_cast<Out*>(to.out) + to.index,
              from_accumulator<Out>(static_cast<Accumulator<Out>>(value)), site);
}

/// Writes what an output, or a chunk of it, comes to at element `index` of out. Called by one
/// thread.
template <typename Acc>
__device__ __forceinline__ void put_result_at(const Problem& problem, int64_t index, Acc value,
                                              Site site = Site::here()) {
  const Place to{problem.out, index};
  if constexpr (std::is_same_v<Acc, int64_t>) {
    switch (problem.out_dtype) {
      case DType::i32:
        return put<int32_t>(to, value, site);
      case DType::i16:
        return put<int16_t>(to, value, site);
      case DType::i8:
      case DType::u8:
        return put<uint8_t>(to, value, site);
      case DType::boolean:
        return put<bool>(to, value, site);
      default:
        return put<int64_t>(to, value, site);
    }
  } else {
    if (problem.divisor != 1) value = value / Acc(problem.divisor);
    switch (problem.out_dtype) {
      case DType::f64:
        return put<double>(to, value, site);
      case DType::f16:
        return put<half>(to, value, site);
      case DType::bf16:
        return put<bfloat16>(to, value, site);
      default:
        return put<float>(to, value, site);
    }
  }
}

/// The same at the place of chunk `chunk` of output `output`.
template <typename Acc>
__device__ __forceinline__ void put_result(const Problem& problem, int64_t output, int64_t chunk,
                                           Acc value, Site site = Site::here()) {
  put_result_at(problem, offsets_at(problem.outputs, output).of[OUT] + chunk, value, site);
}

}  // namespace SMEM_BUILD
}  // namespace smem::reduce
