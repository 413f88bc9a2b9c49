// Follows a user's kernel in its translation unit: how the emulator calls it, what its parameters
// are, and where the block's shared memory is.
#pragma once

#include <type_traits>
#include <utility>

#include "emulator_api.h"
#include "smem_parameters.h"

template <typename... Parameters, size_t... I>
__attribute__((no_sanitize("thread"))) void smem_call(void (*kernel)(Parameters...), void** values,
                                                      std::index_sequence<I...>) {
  kernel(*static_cast<std::remove_cv_t<Parameters>*>(values[I])...);
}

template <typename... Parameters>
__attribute__((no_sanitize("thread"))) void smem_call(void (*kernel)(Parameters...),
                                                      void** values) {
  smem_call(kernel, values, std::index_sequence_for<Parameters...>());
}

thread_local unsigned char smem_anchor;

/// The calling operating-system thread's copy of a variable beside the shared arrays.
SMEM_API unsigned char* smem_shared_memory() { return &smem_anchor; }

#define SMEM_ENTRY(...)                                                           \
  SMEM_API __attribute__((no_sanitize("thread"))) void smem_entry(void* values) { \
    smem_call(__VA_ARGS__, static_cast<void**>(values));                          \
  }                                                                               \
  SMEM_API const smem_parameter* smem_parameters(int* count) {                    \
    static constexpr auto TABLE = smem_parameters_of(__VA_ARGS__);                \
    *count = sizeof(TABLE) / sizeof(smem_parameter) - 1;                          \
    return TABLE.values;                                                          \
  }
