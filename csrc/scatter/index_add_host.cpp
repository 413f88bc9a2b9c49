// The same kernel, compiled for the CPU emulator.
#include "scatter/index_add.cu"

namespace smem::scatter {

IndexAdd index_add(Build build) { return *of_build<&device_index_add, &host_index_add>(build); }

}  // namespace smem::scatter
