// The same kernel, compiled for the CPU emulator.

#pragma GCC optimize("O1")  // for the time that compiling takes: bench/NOTES.md

#include "activation/backward.cu"

namespace smem::activation {

const Backward& backward(Build build) {
#ifdef SMEM_WITH_CUDA
  if (build == Build::device) return device_backward;
#endif
  return build == Build::traced ? traced_backward : host_backward;
}

}  // namespace smem::activation
