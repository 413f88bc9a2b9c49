// Definitions in plain C++ of the CUDA keywords and functions that the kernels use.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "cpu_emulator/cpu_emulator.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __noinline__
#define __launch_bounds__(...)
#define __grid_constant__
// A worker thread of the operating system runs one block at a time, so what is local to the
// worker is shared by the block.
#define __shared__ static thread_local

#define threadIdx (::smem::cpu_emulator::current_thread->index)
#define blockIdx (::smem::cpu_emulator::current_thread->block_index)
#define blockDim (::smem::cpu_emulator::current_thread->block_threads)
#define gridDim (::smem::cpu_emulator::current_thread->grid)

using ::smem::cpu_emulator::dim3;

inline void __syncthreads(smem::cpu_emulator::Site site = smem::cpu_emulator::Site::here()) {
  smem::cpu_emulator::sync_threads(site);
}

inline void __syncwarp(unsigned mask = 0xffffffffu,
                       smem::cpu_emulator::Site site = smem::cpu_emulator::Site::here()) {
  smem::cpu_emulator::sync_warp(mask, site);
}

// The lanes of a warp form segments of `width`; a lane whose source lies outside its segment gets
// its own value (CUDA C++ Programming Guide, "Warp Shuffle Functions").

template <typename T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32,
              smem::cpu_emulator::Site site = smem::cpu_emulator::Site::here()) {
  const int lane = smem::cpu_emulator::lane(), first = lane & -width;
  return smem::cpu_emulator::shuffle(mask, value, first + (source & (width - 1)), site);
}

template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32,
                 smem::cpu_emulator::Site site = smem::cpu_emulator::Site::here()) {
  const int lane = smem::cpu_emulator::lane(), source = lane - static_cast<int>(delta);
  return smem::cpu_emulator::shuffle(mask, value, source < (lane & -width) ? lane : source, site);
}

template <typename T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32,
                   smem::cpu_emulator::Site site = smem::cpu_emulator::Site::here()) {
  const int lane = smem::cpu_emulator::lane(), source = lane + static_cast<int>(delta);
  return smem::cpu_emulator::shuffle(mask, value, source >= (lane & -width) + width ? lane : source,
                                     site);
}

template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32,
                  smem::cpu_emulator::Site site = smem::cpu_emulator::Site::here()) {
  const int lane = smem::cpu_emulator::lane(), source = lane ^ lane_mask;
  return smem::cpu_emulator::shuffle(mask, value, source >= (lane & -width) + width ? lane : source,
                                     site);
}

inline uint32_t __float_as_uint(float number) { return std::bit_cast<uint32_t>(number); }
inline float __uint_as_float(uint32_t bits) { return std::bit_cast<float>(bits); }

/// c plus the products of the four bytes of a with those of b.
inline int32_t __dp4a(int32_t a, int32_t b, int32_t c) {
  for (int shift = 0; shift < 32; shift += 8) {
    c += static_cast<int8_t>(a >> shift) * static_cast<int8_t>(b >> shift);
  }
  return c;
}

inline uint32_t __dp4a(uint32_t a, uint32_t b, uint32_t c) {
  for (int shift = 0; shift < 32; shift += 8) c += (a >> shift & 255) * (b >> shift & 255);
  return c;
}
