// Which instructions the target of the current compilation has. One build compiles a kernel for
// several GPUs; for a target without the kernel's instructions its body is empty, and dispatch does
// not choose it (Device::code_capability). Its launch bound is one thread there, so a launch by
// mistake fails with an error instead of doing nothing.
#pragma once

#include "device/platform.h"

namespace smem {

// SMEM_EMULATE_SM75: g++ compiles a kernel for the emulator as nvcc does for sm_75, for a test.
#if defined(SMEM_EMULATE_SM75) || (defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800)
constexpr bool TARGET_HAS_SM80 = false;
#else
constexpr bool TARGET_HAS_SM80 = true;
#endif

/// The threads per SM that a launch bound may ask for and still leave each at least 40 registers.
/// An SM before sm_80 has no more than 1024.
constexpr int BOUND_THREADS_PER_SM = TARGET_HAS_SM80 ? 1536 : 1024;

#if defined(__CUDA_ARCH__) && !defined(__CUDA_ARCH_FEAT_SM90_ALL)
constexpr bool TARGET_HAS_SM90A = false;
#else
constexpr bool TARGET_HAS_SM90A = true;
#endif

/// A kernel's __launch_bounds__.
constexpr int launch_bound(bool target_has_code, int threads) {
  return target_has_code ? threads : 1;
}

/// The blocks per SM of a kernel's __launch_bounds__: an SM of sm_75 has no more than 16.
constexpr int launch_bound_blocks(int blocks) {
  return TARGET_HAS_SM80 || blocks < 16 ? blocks : 16;
}

}  // namespace smem
