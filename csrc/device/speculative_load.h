// A load whose value may turn out to be of no use, where a branch around it would cost more.
#pragma once

#include "device/platform.h"

#ifndef __CUDACC__
#include "cpu_emulator/device/speculative_load.h"
#else

namespace smem::inline SMEM_BUILD {

/// *from, in shared memory, which may not have been stored yet.
template <typename T>
__device__ __forceinline__ T speculative_load(const T* from) {
  return *from;
}

}  // namespace smem::inline SMEM_BUILD

#endif
