// CUDA's pairs of half for the emulator, under the same names.
#pragma once

#include <torch/headeronly/util/Half.h>

#include "cpu_emulator/cuda/vector_types.h"
#include "device/platform.h"

namespace smem {
inline namespace SMEM_BUILD {

struct half2 {
  torch::headeronly::Half x, y;
};

__device__ __forceinline__ half2 __floats2half2_rn(float x, float y) { return {x, y}; }
__device__ __forceinline__ float2 __half22float2(half2 pair) {
  return {static_cast<float>(pair.x), static_cast<float>(pair.y)};
}
__device__ __forceinline__ torch::headeronly::Half __low2half(half2 pair) { return pair.x; }
__device__ __forceinline__ torch::headeronly::Half __high2half(half2 pair) { return pair.y; }

}  // namespace SMEM_BUILD
}  // namespace smem
