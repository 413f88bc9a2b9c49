// CUDA's functions on integers, and on the bytes and 16-bit halves of a word.
#pragma once

#include "math_functions.h"

SMEM_MATH int __popc(unsigned x) { return __builtin_popcount(x); }
SMEM_MATH int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
SMEM_MATH int __clz(int x) { return x ? __builtin_clz(static_cast<unsigned>(x)) : 32; }
SMEM_MATH int __clzll(long long x) {
  return x ? __builtin_clzll(static_cast<unsigned long long>(x)) : 64;
}
SMEM_MATH int __vimax3_s32(int a, int b, int c) { return max(max(a, b), c); }
SMEM_MATH int __vimin3_s32(int a, int b, int c) { return min(min(a, b), c); }
SMEM_MATH unsigned __vimax3_u32(unsigned a, unsigned b, unsigned c) { return max(max(a, b), c); }
SMEM_MATH unsigned __vimin3_u32(unsigned a, unsigned b, unsigned c) { return min(min(a, b), c); }
SMEM_MATH int __ffs(int x) { return __builtin_ffs(x); }
SMEM_MATH int __ffsll(long long x) { return __builtin_ffsll(x); }
SMEM_MATH int __mul24(int a, int b) { return (a << 8 >> 8) * (b << 8 >> 8); }
SMEM_MATH unsigned __umul24(unsigned a, unsigned b) { return (a & 0xffffff) * (b & 0xffffff); }
SMEM_MATH int __mulhi(int a, int b) { return static_cast<int>(int64_t{a} * b >> 32); }
SMEM_MATH unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>(uint64_t{a} * b >> 32);
}
SMEM_MATH long long __mul64hi(long long a, long long b) {
  return static_cast<long long>(static_cast<__int128>(a) * b >> 64);
}
SMEM_MATH unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return static_cast<unsigned long long>(static_cast<unsigned __int128>(a) * b >> 64);
}
SMEM_MATH unsigned __sad(int a, int b, unsigned c) {
  return static_cast<unsigned>(a < b ? b - a : a - b) + c;
}
SMEM_MATH unsigned __usad(unsigned a, unsigned b, unsigned c) {
  return (a < b ? b - a : a - b) + c;
}
SMEM_MATH int __hadd(int a, int b) { return static_cast<int>((int64_t{a} + b) >> 1); }
SMEM_MATH int __rhadd(int a, int b) { return static_cast<int>((int64_t{a} + b + 1) >> 1); }
SMEM_MATH unsigned __uhadd(unsigned a, unsigned b) {
  return static_cast<unsigned>((uint64_t{a} + b) >> 1);
}
SMEM_MATH unsigned __urhadd(unsigned a, unsigned b) {
  return static_cast<unsigned>((uint64_t{a} + b + 1) >> 1);
}

SMEM_UNSEEN __attribute__((noinline)) inline unsigned __brev(unsigned x) {
  unsigned reversed = 0;
  for (int bit = 0; bit < 32; ++bit) reversed |= (x >> bit & 1) << (31 - bit);
  return reversed;
}
SMEM_MATH unsigned long long __brevll(unsigned long long x) {
  return static_cast<unsigned long long>(__brev(static_cast<unsigned>(x))) << 32 |
         __brev(static_cast<unsigned>(x >> 32));
}
/// The bit of `mask` at or after `base` (before it if `offset` is negative) that is the
/// offset-th of those set; -1 if there is none.
SMEM_UNSEEN __attribute__((noinline)) inline unsigned __fns(unsigned mask, unsigned base,
                                                            int offset) {
  if (offset == 0) return mask >> base & 1 ? base : ~0u;
  const int step = offset > 0 ? 1 : -1;
  int left = offset > 0 ? offset : -offset;
  for (int bit = static_cast<int>(base); bit >= 0 && bit < 32; bit += step) {
    if ((mask >> bit & 1) && --left == 0) return static_cast<unsigned>(bit);
  }
  return ~0u;
}
SMEM_UNSEEN __attribute__((noinline)) inline unsigned __byte_perm(unsigned a, unsigned b,
                                                                  unsigned selector) {
  const uint64_t bytes = uint64_t{b} << 32 | a;
  unsigned result = 0;
  for (int i = 0; i < 4; ++i) {
    const unsigned choice = selector >> 4 * i & 7;  // prmt's fourth bit, of signs, is not used
    result |= static_cast<unsigned>(bytes >> 8 * choice & 255) << 8 * i;
  }
  return result;
}

// A shift of two words by the low five bits of `shift`, or (names that end in c) by at most 32.
SMEM_MATH unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  return static_cast<unsigned>((uint64_t{high} << 32 | low) << (shift & 31) >> 32);
}
SMEM_MATH unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return static_cast<unsigned>((uint64_t{high} << 32 | low) >> (shift & 31));
}
SMEM_MATH unsigned __funnelshift_lc(unsigned low, unsigned high, unsigned shift) {
  return static_cast<unsigned>((uint64_t{high} << 32 | low) << min(shift, 32) >> 32);
}
SMEM_MATH unsigned __funnelshift_rc(unsigned low, unsigned high, unsigned shift) {
  return static_cast<unsigned>((uint64_t{high} << 32 | low) >> min(shift, 32));
}

/// c plus the products of the four bytes of a with those of b; of two halves with two bytes.
SMEM_MATH int __dp4a(int a, int b, int c) {
  for (int shift = 0; shift < 32; shift += 8) {
    c += static_cast<int8_t>(a >> shift) * static_cast<int8_t>(b >> shift);
  }
  return c;
}
SMEM_MATH unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
  for (int shift = 0; shift < 32; shift += 8) c += (a >> shift & 255) * (b >> shift & 255);
  return c;
}
SMEM_MATH int __dp4a(char4 a, char4 b, int c) {
  return c + a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w;
}
SMEM_MATH unsigned __dp4a(uchar4 a, uchar4 b, unsigned c) {
  return c + a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w;
}
SMEM_MATH int __dp2a_lo(int a, int b, int c) {
  return c + static_cast<int16_t>(a) * static_cast<int8_t>(b) +
         (a >> 16) * static_cast<int8_t>(b >> 8);
}
SMEM_MATH unsigned __dp2a_lo(unsigned a, unsigned b, unsigned c) {
  return c + (a & 0xffff) * (b & 255) + (a >> 16) * (b >> 8 & 255);
}
SMEM_MATH int __dp2a_hi(int a, int b, int c) { return __dp2a_lo(a, b >> 16, c); }
SMEM_MATH unsigned __dp2a_hi(unsigned a, unsigned b, unsigned c) {
  return __dp2a_lo(a, b >> 16, c);
}

// -------------------------------------------------------------- four bytes or two halves at once

/// Applies `combine` to each pair of the elements of type T of two words.
template <typename T, typename Combine>
SMEM_MATH unsigned smem_each_element(unsigned a, unsigned b, Combine combine) {
  constexpr int BITS = 8 * sizeof(T);
  constexpr unsigned MASK = (1u << BITS) - 1;
  unsigned result = 0;
  for (int shift = 0; shift < 32; shift += BITS) {
    // NOLINTNEXTLINE(bugprone-signed-char-misuse): the signs are meant
    const int x = static_cast<T>(a >> shift), y = static_cast<T>(b >> shift);
    result |= (static_cast<unsigned>(combine(x, y)) & MASK) << shift;
  }
  return result;
}

template <typename T>
SMEM_MATH int smem_saturate(int x) {
  constexpr bool IS_SIGNED = T(-1) < T(0);
  constexpr int MAX = IS_SIGNED ? (1 << (8 * sizeof(T) - 1)) - 1 : (1 << 8 * sizeof(T)) - 1;
  return min(max(x, IS_SIGNED ? -MAX - 1 : 0), MAX);
}

#define SMEM_SIMD_OF(name, T, result)                                       \
  SMEM_MATH unsigned name(unsigned a, unsigned b) {                         \
    return smem_each_element<T>(a, b, [](int x, int y) { return result; }); \
  }
// For bytes and for 16-bit numbers; and of both kinds of sign: s or u in the name.
#define SMEM_SIMD(name, result)           \
  SMEM_SIMD_OF(name##2, uint16_t, result) \
  SMEM_SIMD_OF(name##4, uint8_t, result)
#define SMEM_SIMD_OF_SIGNS(name, result)   \
  SMEM_SIMD_OF(name##s2, int16_t, result)  \
  SMEM_SIMD_OF(name##s4, int8_t, result)   \
  SMEM_SIMD_OF(name##u2, uint16_t, result) \
  SMEM_SIMD_OF(name##u4, uint8_t, result)
SMEM_SIMD(__vadd, x + y)
SMEM_SIMD(__vsub, x - y)
SMEM_SIMD(__vcmpeq, x == y ? -1 : 0)
SMEM_SIMD(__vcmpne, x != y ? -1 : 0)
SMEM_SIMD_OF_SIGNS(__vcmpgt, x > y ? -1 : 0)
SMEM_SIMD_OF_SIGNS(__vcmpge, x >= y ? -1 : 0)
SMEM_SIMD_OF_SIGNS(__vcmplt, x < y ? -1 : 0)
SMEM_SIMD_OF_SIGNS(__vcmple, x <= y ? -1 : 0)
SMEM_SIMD_OF_SIGNS(__vmin, x < y ? x : y)
SMEM_SIMD_OF_SIGNS(__vmax, x < y ? y : x)
SMEM_SIMD_OF_SIGNS(__vabsdiff, x < y ? y - x : x - y)
SMEM_SIMD(__vavgu, (x + y + 1) >> 1)
SMEM_SIMD(__vhaddu, (x + y) >> 1)
SMEM_SIMD(__vseteq, x == y)
SMEM_SIMD(__vsetne, x != y)
SMEM_SIMD_OF_SIGNS(__vsetgt, x > y)
SMEM_SIMD_OF_SIGNS(__vsetge, x >= y)
SMEM_SIMD_OF_SIGNS(__vsetlt, x < y)
SMEM_SIMD_OF_SIGNS(__vsetle, x <= y)
#define SMEM_SATURATED(name, suffix, T)                          \
  SMEM_SIMD_OF(__vadd##name##suffix, T, smem_saturate<T>(x + y)) \
  SMEM_SIMD_OF(__vsub##name##suffix, T, smem_saturate<T>(x - y))
SMEM_SATURATED(ss, 2, int16_t)
SMEM_SATURATED(ss, 4, int8_t)
SMEM_SATURATED(us, 2, uint16_t)
SMEM_SATURATED(us, 4, uint8_t)
#undef SMEM_SATURATED
// Of one word, and sums of the elements.
#define SMEM_SIMD_UNARY(suffix, T)                                                          \
  SMEM_MATH unsigned __vneg##suffix(unsigned a) { return __vsub##suffix(0, a); }            \
  SMEM_MATH unsigned __vnegss##suffix(unsigned a) { return __vsubss##suffix(0, a); }        \
  SMEM_MATH unsigned __vabs##suffix(unsigned a) { return __vabsdiffs##suffix(a, 0); }       \
  SMEM_MATH unsigned __vabsss##suffix(unsigned a) {                                         \
    return smem_each_element<T>(a, 0, [](int x, int) { return smem_saturate<T>(abs(x)); }); \
  }                                                                                         \
  SMEM_MATH unsigned smem_sum##suffix(unsigned a) {                                         \
    unsigned sum = 0;                                                                       \
    for (; a; a >>= 8 * sizeof(T)) sum += a & ((1u << 8 * sizeof(T)) - 1);                  \
    return sum;                                                                             \
  }                                                                                         \
  SMEM_MATH unsigned __vsads##suffix(unsigned a, unsigned b) {                              \
    return smem_sum##suffix(__vabsdiffs##suffix(a, b));                                     \
  }                                                                                         \
  SMEM_MATH unsigned __vsadu##suffix(unsigned a, unsigned b) {                              \
    return smem_sum##suffix(__vabsdiffu##suffix(a, b));                                     \
  }
SMEM_SIMD_UNARY(2, int16_t)
SMEM_SIMD_UNARY(4, int8_t)
#undef SMEM_SIMD_UNARY
#undef SMEM_SIMD_OF
#undef SMEM_SIMD
#undef SMEM_SIMD_OF_SIGNS
