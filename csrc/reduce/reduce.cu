// The kernel table of the CUDA build.
#include <iterator>

#include "reduce/ladder.h"

namespace smem::reduce {

KernelTable device_kernels() { return {KERNELS, static_cast<int>(std::size(KERNELS))}; }

}  // namespace smem::reduce
