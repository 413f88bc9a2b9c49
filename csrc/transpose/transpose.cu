// The kernel table of the CUDA build.
#include <iterator>

#include "transpose/ladder.h"

namespace smem::transpose {

KernelTable device_kernels() { return {KERNELS, static_cast<int>(std::size(KERNELS))}; }

}  // namespace smem::transpose
