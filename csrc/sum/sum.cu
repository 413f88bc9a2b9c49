// The kernel table of the CUDA build.
#include <iterator>

#include "sum/ladder.h"

namespace smem::sum {

KernelTable device_kernels() { return {KERNELS, static_cast<int>(std::size(KERNELS))}; }

}  // namespace smem::sum
