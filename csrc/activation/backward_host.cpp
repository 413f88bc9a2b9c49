// The same kernel, compiled for the CPU emulator.
#include "activation/backward.cu"

namespace smem::activation {

const Backward& backward(Build build) { return *of_build<&device_backward, &host_backward>(build); }

}  // namespace smem::activation
