// From a problem's dtype to the kernel instance for its element type: the launch, and the row of
// the kernel table.
#pragma once

#include "device/symbol.h"
#include "reduce/reduce.h"
#include "reduce/reduction_tree.h"

namespace smem::reduce::inline SMEM_BUILD {

/// Threads and warps per block of rows and columns.
constexpr int THREADS = 256, WARPS = THREADS / 32;

/// Launches a kernel of rows or columns, whose parameters have the problem.
template <typename Params>
void launch_blocks(const char* name, void (*kernel)(Params), int64_t blocks, const Device& device,
                   const Params& params, size_t dynamic_shared_bytes = 0) {
  launch(name, kernel,
         {.blocks = blocks,
          .threads = {THREADS},
          .dynamic_shared_bytes = dynamic_shared_bytes,
          .launch_with_pdl = params.problem.launch_with_pdl},
         device, params);
}

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

/// A row of the kernel table. `Rung` has NAME, `kernel<T>()` (the instance that most problems run),
/// `splits` and `launch`.
template <typename Rung>
constexpr Kernel make_kernel(const char* summary, const char* requires_, bool any_operator) {
  return {.name = Rung::NAME,
          .summary = summary,
          .requires_ = requires_,
          .any_operator = any_operator,
          .splits = &Rung::splits,
          .launch = &Rung::launch,
          .function = [](DType in_dtype) -> const void* {
            return with_element_type(in_dtype, [](auto tag) {
              using T = typename decltype(tag)::type;
              return reinterpret_cast<const void*>(Rung::template kernel<T>());
            });
          },
          .symbol = [](DType in_dtype) -> const char* {
            return with_element_type(in_dtype, [](auto tag) {
              using T = typename decltype(tag)::type;
              return symbol_of<Rung::template kernel<T>()>();
            });
          }};
}

}  // namespace smem::reduce::inline SMEM_BUILD
