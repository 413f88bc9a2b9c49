// Loads and stores of inline PTX: ld.global.v4.f32, st.shared.f32 and the like. Each is one access,
// as on a GPU. The operands of PTX have no types: bits are copied.
#pragma once

#include <string.h>

#include "math_functions.h"
#include "shared_address.h"

/// What an instruction moves: COUNT words, aligned together.
template <typename Word, int COUNT>
struct __attribute__((aligned(sizeof(Word) * COUNT), may_alias)) smem_ptx_vector {
  Word words[COUNT];
};

template <typename Word, typename... Values>
SMEM_MATH void smem_ptx_load(const void* address, Values&... values) {
  static_assert(((sizeof(Values) >= sizeof(Word)) && ...), "a register is narrower than the load");
  using Vector = smem_ptx_vector<Word, sizeof...(Values)>;
  const Vector loaded = *static_cast<const Vector*>(address);
  int i = 0;
  ((__builtin_memcpy(static_cast<void*>(&values), &loaded.words[i++], sizeof(Word))), ...);
}

template <typename Word, typename... Values>
SMEM_MATH void smem_ptx_store(void* address, const Values&... values) {
  using Vector = smem_ptx_vector<Word, sizeof...(Values)>;
  Vector stored;
  int i = 0;
  ((__builtin_memcpy(&stored.words[i++], static_cast<const void*>(&values), sizeof(Word))), ...);
  *static_cast<Vector*>(address) = stored;
}
