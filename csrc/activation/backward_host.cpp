// The same kernel, compiled for the CPU emulator.
#include "activation/backward.cu"

namespace smem::activation {

const Backward& backward([[maybe_unused]] Build build) {
#ifdef SMEM_WITH_CUDA
  if (build == Build::device) return device_backward;
#endif
  return host_backward;
}

}  // namespace smem::activation
