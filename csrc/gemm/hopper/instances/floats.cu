#include "gemm/hopper/floats.h"
#include "gemm/hopper/kernels.h"

namespace smem::gemm::hopper {

template <int INDEX>
const void* kernel_of_floats(Major a) {
  constexpr Exit ANY = Exit::any;
  return a == Major::K
             ? reinterpret_cast<const void*>(gemm_kernel<float, Major::K, Major::K, INDEX, ANY>)
             : reinterpret_cast<const void*>(gemm_kernel<float, Major::MN, Major::K, INDEX, ANY>);
}

template const void* kernel_of_floats<0>(Major);
template const void* kernel_of_floats<3>(Major);
template const void* kernel_of_floats<7>(Major);
template const void* kernel_of_floats<8>(Major);
template const void* kernel_of_floats<11>(Major);
template const void* kernel_of_floats<13>(Major);
template const void* kernel_of_floats<14>(Major);

}  // namespace smem::gemm::hopper
