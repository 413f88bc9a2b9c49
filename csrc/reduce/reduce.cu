// The kernel table of the CUDA build.
#include "reduce/ladder.h"

namespace smem::reduce {

KernelTable device_kernels() { return KERNELS; }

}  // namespace smem::reduce
