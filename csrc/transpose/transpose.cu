// The kernel table of the CUDA build. Each kernel is in a file of its own: start with
// ladder/naive.cu and follow the order of ladder.h.
#include "transpose/ladder.h"

namespace smem::transpose {

KernelTable device_kernels() { return KERNELS; }

}  // namespace smem::transpose
