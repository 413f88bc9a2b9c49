// device/tma.h for the emulator, under the same names.
#pragma once

#include "device/mbarrier.h"

namespace smem {
inline namespace SMEM_BUILD {

struct Coordinates {
  int x, y, z;
};

__device__ __forceinline__ void prefetch_tensor_map(const CUtensorMap& /*map*/) {}

__device__ __forceinline__ void tma_load(void* shared, const CUtensorMap& map, Coordinates at,
                                         Barrier& barrier) {
  smem_tma_load(shared, &map, at.x, at.y, at.z, &barrier);
}
__device__ __forceinline__ void tma_load(void* shared, const CUtensorMap& map, Coordinates at,
                                         Barrier& barrier, uint16_t blocks) {
  smem_tma_load_multicast(shared, &map, at.x, at.y, at.z, &barrier, blocks);
}

__device__ __forceinline__ void tma_store(const CUtensorMap& map, Coordinates at,
                                          const void* shared) {
  smem_tma_store(&map, at.x, at.y, at.z, shared);
}
__device__ __forceinline__ void tma_store_commit() { smem_tma_store_commit(); }
template <int MAX_PENDING>
__device__ __forceinline__ void tma_store_wait_read() {
  smem_tma_store_wait_read(MAX_PENDING);
}

__device__ __forceinline__ void fence_view_async_shared() { smem_fence_async_shared(); }

}  // namespace SMEM_BUILD
}  // namespace smem
