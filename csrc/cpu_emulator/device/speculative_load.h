// device/speculative_load.h for the emulator, under the same name.
#pragma once

#include "cpu_emulator/sm90/api.h"
#include "device/platform.h"

namespace smem {
inline namespace SMEM_BUILD {

template <typename T>
__device__ __forceinline__ T speculative_load(const T* from) {
  T value;
  smem_speculative_load(from, &value, sizeof(T));
  return value;
}

}  // namespace SMEM_BUILD
}  // namespace smem
