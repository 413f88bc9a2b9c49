// tensor_core in the kernel table, and what it is compiled to for float16. The kernel is in
// tensor_core.h; the other dtypes are in tensor_core_bf16.cu and tensor_core_tf32.cu.
#include "gemm/ladder/tensor_core.h"

namespace smem::gemm {
inline namespace SMEM_BUILD {

#ifdef __CUDACC__

template void launch_tensor_core<half>(const Problem&, const Device&);
template const void* tensor_core_function<half>();
extern template void launch_tensor_core<bfloat16>(const Problem&, const Device&);
extern template const void* tensor_core_function<bfloat16>();
extern template void launch_tensor_core<float>(const Problem&, const Device&);
extern template const void* tensor_core_function<float>();

/// Calls f(TypeTag<T>{}) for a dtype the kernel takes.
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

#else
constexpr std::nullptr_t launch_by_dtype = nullptr, function_by_dtype = nullptr;
#endif

const Kernel tensor_core = {"tensor_core",
                            "ldmatrix and mma: 16 x 8 x 16 products an instruction, four stages",
                            "16-bit floats or precision tf32, compute capability 8.0 or newer",
                            launch_by_dtype,
                            function_by_dtype,
                            nullptr,
                            nullptr,
                            dtypes(DType::f32, DType::f16, DType::bf16),
                            {.capability = 80},
                            Precision::tf32};

}  // namespace SMEM_BUILD
}  // namespace smem::gemm
