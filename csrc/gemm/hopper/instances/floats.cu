#include "gemm/hopper/floats.h"
#include "gemm/hopper/kernels.h"

namespace smem::gemm::hopper {

template <int INDEX, Exit EXIT>
const void* kernel_of_exit(Major a) {
  return a == Major::K
             ? reinterpret_cast<const void*>(gemm_kernel<float, Major::K, Major::K, INDEX, EXIT>)
             : reinterpret_cast<const void*>(gemm_kernel<float, Major::MN, Major::K, INDEX, EXIT>);
}

template <int INDEX>
const void* kernel_of_floats(Exit exit, Major a) {
  switch (exit) {
    case Exit::boxes:
      return kernel_of_exit<INDEX, Exit::boxes>(a);
    case Exit::rows:
      return kernel_of_exit<INDEX, Exit::rows>(a);
    case Exit::partials:
      return kernel_of_exit<INDEX, Exit::partials>(a);
    default:
      return kernel_of_exit<INDEX, Exit::any>(a);
  }
}

template const void* kernel_of_floats<0>(Exit, Major);
template const void* kernel_of_floats<3>(Exit, Major);
template const void* kernel_of_floats<7>(Exit, Major);
template const void* kernel_of_floats<8>(Exit, Major);
template const void* kernel_of_floats<11>(Exit, Major);
template const void* kernel_of_floats<13>(Exit, Major);
template const void* kernel_of_floats<14>(Exit, Major);

}  // namespace smem::gemm::hopper
