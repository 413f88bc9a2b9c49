// From a problem's dtype to the kernel instance for its element type.
#pragma once

#include "reduce/reduce.h"
#include "reduce/reduction_tree.h"

namespace smem::reduce::inline SMEM_BUILD {

/// Threads and warps per block of rows and columns.
constexpr int THREADS = 256, WARPS = THREADS / 32;

/// Calls `f(TypeTag<T>{})`. A bool is read as a uint8_t that is 0 or 1.
template <typename F>
auto with_element_type(DType dtype, F&& f) {
  switch (dtype) {
    case DType::i64:
      return f(TypeTag<int64_t>{});
    case DType::i32:
      return f(TypeTag<int32_t>{});
    case DType::i16:
      return f(TypeTag<int16_t>{});
    case DType::i8:
      return f(TypeTag<int8_t>{});
    case DType::u8:
    case DType::boolean:
      return f(TypeTag<uint8_t>{});
    default:
      return with_float_type(dtype, f);
  }
}

}  // namespace smem::reduce::inline SMEM_BUILD
