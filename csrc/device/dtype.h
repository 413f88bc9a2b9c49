// The element types of tensors, as the bindings pass them to launches. Needs no torch header.
#pragma once

#include <cstddef>

namespace smem {

enum class DType : int { f64, f32, f16, bf16, i64, i32, i16, i8, u8, boolean };

constexpr size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
    case DType::i64:
      return 8;
    case DType::f32:
    case DType::i32:
      return 4;
    case DType::f16:
    case DType::bf16:
    case DType::i16:
      return 2;
    default:
      return 1;
  }
}

constexpr const char* name_of(DType dtype) {
  constexpr const char* names[] = {"float64", "float32", "float16", "bfloat16", "int64",
                                   "int32",   "int16",   "int8",    "uint8",    "bool"};
  return names[static_cast<int>(dtype)];
}

}  // namespace smem
