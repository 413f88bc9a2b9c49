// Atomic functions on global and shared memory, and the loads and stores with cache hints.
#pragma once

#include <string.h>

#include "emulator_api.h"

/// The unsigned integer of so many bytes.
template <int BYTES>
struct smem_word;
template <>
struct smem_word<2> {
  using type = uint16_t;
};
template <>
struct smem_word<4> {
  using type = uint32_t;
};
template <>
struct smem_word<8> {
  using type = uint64_t;
};

/// Replaces *address by update(*address) in one step, since blocks run on several cores at once.
/// Not instrumented: the access was reported before.
template <typename T, typename Update>
__attribute__((noinline, no_sanitize("thread"))) T smem_apply(T* address, Update update) {
  using Word = typename smem_word<sizeof(T)>::type;
  auto* const word = reinterpret_cast<Word*>(address);
  Word seen = __atomic_load_n(word, __ATOMIC_SEQ_CST), wanted;
  T old;
  do {
    __builtin_memcpy(static_cast<void*>(&old), &seen, sizeof(T));
    const T value = update(old);
    __builtin_memcpy(&wanted, &value, sizeof(T));
  } while (
      !__atomic_compare_exchange_n(word, &seen, wanted, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
  return old;
}

template <typename T, typename Update>
inline __attribute__((always_inline)) T smem_atomic_update(T* address, Update update) {
  smem_atomic(address, sizeof(T));
  return smem_apply(address, update);
}

/// The type of an argument that does not take part in deduction: atomicAdd(float*, 1) is valid.
template <typename T>
struct smem_same {
  using type = T;
};
template <typename T>
using smem_operand = typename smem_same<T>::type;

/// CUDA has each function for some types only: for another, g++ finds none at the user's line.
template <typename T, typename... Types>
constexpr bool smem_is_one_of = (__is_same(T, Types) || ...);
template <bool>
struct smem_enable {};
template <>
struct smem_enable<true> {
  using type = int;
};

using smem_ulonglong = unsigned long long;
template <typename T>
constexpr bool smem_adds = smem_is_one_of<T, int, unsigned, smem_ulonglong, float, double> ||
                           __is_class(T);  // half, half2, bfloat16
template <typename T>
constexpr bool smem_swaps = smem_is_one_of<T, int, unsigned, smem_ulonglong, float>;
template <typename T>
constexpr bool smem_compares = smem_is_one_of<T, int, unsigned, smem_ulonglong, long long>;
template <typename T>
constexpr bool smem_has_bits = smem_is_one_of<T, int, unsigned, smem_ulonglong>;
template <typename T>
constexpr bool smem_subtracts = smem_is_one_of<T, int, unsigned>;
template <typename T>
constexpr bool smem_counts = smem_is_one_of<T, unsigned>;
template <typename T>
constexpr bool smem_compares_and_swaps =
    smem_is_one_of<T, int, unsigned, smem_ulonglong, unsigned short>;

#define SMEM_ATOMIC_FOR(condition)                                    \
  template <typename T, typename smem_enable<condition<T>>::type = 0> \
  inline __attribute__((always_inline)) T

#define SMEM_ATOMIC(name, condition, result)                                               \
  SMEM_ATOMIC_FOR(condition) name(T* address, smem_operand<T> value) {                     \
    return smem_atomic_update(address, [value](T old) { return static_cast<T>(result); }); \
  }                                                                                        \
  SMEM_ATOMIC_FOR(condition) name##_block(T* address, smem_operand<T> value) {             \
    return name(address, value);                                                           \
  }                                                                                        \
  SMEM_ATOMIC_FOR(condition) name##_system(T* address, smem_operand<T> value) {            \
    return name(address, value);                                                           \
  }

SMEM_ATOMIC(atomicAdd, smem_adds, old + value)
SMEM_ATOMIC(atomicSub, smem_subtracts, old - value)
SMEM_ATOMIC(atomicExch, smem_swaps, value)
SMEM_ATOMIC(atomicMin, smem_compares, value < old ? value : old)
SMEM_ATOMIC(atomicMax, smem_compares, old < value ? value : old)
SMEM_ATOMIC(atomicAnd, smem_has_bits, old& value)
SMEM_ATOMIC(atomicOr, smem_has_bits, old | value)
SMEM_ATOMIC(atomicXor, smem_has_bits, old ^ value)
SMEM_ATOMIC(atomicInc, smem_counts, old >= value ? 0 : old + 1)
SMEM_ATOMIC(atomicDec, smem_counts, old == 0 || old > value ? value : old - 1)
#undef SMEM_ATOMIC

#define SMEM_ATOMIC_CAS(name)                                                                \
  SMEM_ATOMIC_FOR(smem_compares_and_swaps)                                                   \
  name(T* address, smem_operand<T> compare, smem_operand<T> value) {                         \
    return smem_atomic_update(address, [=](T old) { return old == compare ? value : old; }); \
  }
SMEM_ATOMIC_CAS(atomicCAS)
SMEM_ATOMIC_CAS(atomicCAS_block)
SMEM_ATOMIC_CAS(atomicCAS_system)
#undef SMEM_ATOMIC_CAS
#undef SMEM_ATOMIC_FOR

// Loads and stores whose cache hint has no meaning here. Macros, so that the access stands in the
// kernel's own line.
#define __ldg(address) (*(address))
#define __ldca(address) (*(address))
#define __ldcg(address) (*(address))
#define __ldcs(address) (*(address))
#define __ldlu(address) (*(address))
#define __ldcv(address) (*(address))
#define __stwb(address, value) ((void)(*(address) = (value)))
#define __stcg(address, value) ((void)(*(address) = (value)))
#define __stcs(address, value) ((void)(*(address) = (value)))
#define __stwt(address, value) ((void)(*(address) = (value)))
