// Stands for CUDA's header of that name: cp.async and the waits for its groups.
#pragma once

#include "math_functions.h"

/// Copies `bytes`, the last `zeros` of which are not read but become zero.
SMEM_MATH void __pipeline_memcpy_async(void* shared, const void* global, size_t bytes,
                                       size_t zeros = 0) {
  smem_cp_async(shared, global, static_cast<int>(bytes), static_cast<int>(bytes - zeros));
}
SMEM_MATH void __pipeline_commit() { smem_cp_async_commit(); }
SMEM_MATH void __pipeline_wait_prior(size_t groups) {
  smem_cp_async_wait(static_cast<int>(groups));
}
