// The same kernel, compiled for the CPU emulator.
#include "attention/combine_parts.cu"

namespace smem::attention {

Combine combine([[maybe_unused]] Build build) {
#ifdef SMEM_WITH_CUDA
  if (build == Build::device) return device_combine;
#endif
  return host_combine;
}

}  // namespace smem::attention
