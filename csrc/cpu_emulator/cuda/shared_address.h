// Addresses of shared memory as PTX has them: 32-bit numbers, which inline assembly takes.
#pragma once

#include "emulator_api.h"
#include "math_functions.h"

/// Stands beside the shared arrays (smem_unit.h).
extern thread_local unsigned char smem_anchor;

/// Addresses count from here: an array that is aligned to up to 64 KiB is so in them, too.
SMEM_MATH unsigned char* smem_shared_begin() {
  return &smem_anchor - reinterpret_cast<size_t>(&smem_anchor) % (64 * 1024);
}

SMEM_MATH size_t __cvta_generic_to_shared(const void* address) {
  return static_cast<uint32_t>(static_cast<const unsigned char*>(address) - smem_shared_begin());
}
SMEM_MATH void* __cvta_shared_to_generic(size_t address) {
  return smem_shared_begin() + static_cast<int32_t>(address);
}
SMEM_MATH size_t __cvta_generic_to_global(const void* address) {
  return reinterpret_cast<size_t>(address);
}
SMEM_MATH void* __cvta_global_to_generic(size_t address) {
  return reinterpret_cast<void*>(address);
}

/// cp.async: of `bytes`, `bytes_read` are read.
SMEM_MATH void smem_ptx_cp_async(size_t shared, size_t global, int bytes, int bytes_read) {
  smem_cp_async(__cvta_shared_to_generic(shared), reinterpret_cast<const void*>(global), bytes,
                bytes_read);
}
SMEM_MATH void smem_ptx_cp_async(size_t shared, size_t global, int bytes) {
  smem_ptx_cp_async(shared, global, bytes, bytes);
}
