// The same kernel, compiled for the CPU emulator.
#include "attention/combine_parts.cu"

namespace smem::attention {

Combine combine(Build build) { return *of_build<&device_combine, &host_combine>(build); }

}  // namespace smem::attention
