// memcpy, memmove and memset in a kernel: accesses like others. The compiler's own would be calls
// that nothing reports, but for those that it makes one load and one store of.
#pragma once

#include <cstring>

#include "emulator_api.h"

constexpr bool smem_is_one_access(size_t bytes) { return bytes <= 16 && !(bytes & (bytes - 1)); }

#define SMEM_MEMORY_FUNCTION(name, Source)                                                   \
  inline __attribute__((always_inline)) void* smem_##name##_checked(void* to, Source source, \
                                                                    size_t bytes) {          \
    const bool is_known = __builtin_constant_p(bytes);                                       \
    if (is_known && smem_is_one_access(bytes)) return __builtin_##name(to, source, bytes);   \
    return smem_##name(to, source, bytes);                                                   \
  }                                                                                          \
  namespace std {                                                                            \
  using ::smem_##name##_checked;                                                             \
  }
SMEM_MEMORY_FUNCTION(memcpy, const void*)
SMEM_MEMORY_FUNCTION(memmove, const void*)
SMEM_MEMORY_FUNCTION(memset, int)
#undef SMEM_MEMORY_FUNCTION

#define memcpy smem_memcpy_checked
#define memmove smem_memmove_checked
#define memset smem_memset_checked
