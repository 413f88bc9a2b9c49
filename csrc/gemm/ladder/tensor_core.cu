// tensor_core: its row of the kernel table, and its float16 kernels. The kernel is in
// tensor_core.h; the other dtypes are compiled in tensor_core_bf16.cu and tensor_core_tf32.cu.
#include "gemm/ladder/tensor_core.h"

namespace smem::gemm::inline SMEM_BUILD {

template void launch_tensor_core<half>(const Problem&, const Device&);
template const void* tensor_core_function<half>();
extern template void launch_tensor_core<bfloat16>(const Problem&, const Device&);
extern template const void* tensor_core_function<bfloat16>();
extern template void launch_tensor_core<float>(const Problem&, const Device&);
extern template const void* tensor_core_function<float>();

/// Calls f(TypeTag<T>{}) for the dtypes that the kernel takes.
template <typename F>
auto with_mma_type(DType dtype, const F& f) {
  return dtype == DType::f32    ? f(TypeTag<float>{})
         : dtype == DType::bf16 ? f(TypeTag<bfloat16>{})
                                : f(TypeTag<half>{});
}

void launch_by_dtype(const Problem& problem, const Device& device) {
  with_mma_type(problem.dtype, [&](auto tag) {
    launch_tensor_core<typename decltype(tag)::type>(problem, device);
  });
}

const void* function_by_dtype(DType dtype) {
  return with_mma_type(
      dtype, [](auto tag) { return tensor_core_function<typename decltype(tag)::type>(); });
}

const Kernel tensor_core = {
    .name = "tensor_core",
    .summary = "ldmatrix and mma: 16 x 8 x 16 products per instruction, four stages",
    .requires_ = "16-bit floats or precision tf32, compute capability 8.0 or newer",
    .launch = launch_by_dtype,
    .function = function_by_dtype,
    .symbol = nullptr,
    .largest_k = nullptr,
    .dtypes = dtypes(DType::f32, DType::f16, DType::bf16),
    .tensor_cores = {.capability = 80},
    .float32 = Precision::tf32,
};

}  // namespace smem::gemm::inline SMEM_BUILD
