// 16 bytes in four registers: moved to and from memory, turned among the registers, put together
// from elements.
#pragma once

#include <bit>

#include "device/vector.h"

namespace smem::transpose {
inline namespace SMEM_BUILD {

/// A run of 16 bytes, whatever its elements are. (As a struct of 16 bytes nvcc would move it byte
/// by byte.)
using Words = Vector<uint32_t, 4>;

template <typename T>
__device__ __forceinline__ Words load_words(const T* from, Site site = Site::here()) {
  return load(reinterpret_cast<const Words*>(from), site);
}
template <typename T>
__device__ __forceinline__ void store_words(T* to, const Words& words, Site site = Site::here()) {
  store(reinterpret_cast<Words*>(to), words, site);
}

/// Four of the bytes of two words: hexadecimal digit i of `selector` says which becomes byte i.
template <unsigned SELECTOR>
__device__ __forceinline__ uint32_t pick_bytes(uint32_t low, uint32_t high) {
#ifdef __CUDA_ARCH__
  return __byte_perm(low, high, SELECTOR);
#else
  const uint64_t both = uint64_t{high} << 32 | low;
  uint32_t picked = 0;
  for (int i = 0; i < 4; ++i) {
    picked |= uint32_t{static_cast<uint8_t>(both >> 8 * (SELECTOR >> 4 * i & 15))} << 8 * i;
  }
  return picked;
#endif
}

/// Turns W runs of W elements of W = 16 / sizeof(T): `turned[j]` gets element j of each run. Words
/// of 4 bytes and more only change their names; smaller elements take a byte permutation for each
/// word and each halving of their size: 32 for 2 bytes, 128 for 1 byte.
template <typename T, int W>
__device__ __forceinline__ void turn(const Words (&runs)[W], Words (&turned)[W]) {
  static_assert(W == VECTOR_WIDTH<T>);
  constexpr int WORDS = sizeof(T) / 4;  // an element, where it has at least one
#pragma unroll
  for (int w = 0; w < 4; ++w) {
    if constexpr (sizeof(T) >= 4) {
#pragma unroll
      for (int i = 0; i < W; ++i) {
        turned[w / WORDS].lane[i * WORDS + w % WORDS] = runs[i].lane[w];
      }
    } else if constexpr (sizeof(T) == 2) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const uint32_t a = runs[2 * i].lane[w], b = runs[2 * i + 1].lane[w];
        turned[2 * w].lane[i] = pick_bytes<0x5410>(a, b);
        turned[2 * w + 1].lane[i] = pick_bytes<0x7632>(a, b);
      }
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const uint32_t a = runs[4 * i].lane[w], b = runs[4 * i + 1].lane[w];
        const uint32_t c = runs[4 * i + 2].lane[w], d = runs[4 * i + 3].lane[w];
        const uint32_t ab01 = pick_bytes<0x5140>(a, b), ab23 = pick_bytes<0x7362>(a, b);
        const uint32_t cd01 = pick_bytes<0x5140>(c, d), cd23 = pick_bytes<0x7362>(c, d);
        turned[4 * w].lane[i] = pick_bytes<0x5410>(ab01, cd01);
        turned[4 * w + 1].lane[i] = pick_bytes<0x7632>(ab01, cd01);
        turned[4 * w + 2].lane[i] = pick_bytes<0x5410>(ab23, cd23);
        turned[4 * w + 3].lane[i] = pick_bytes<0x7632>(ab23, cd23);
      }
    }
  }
}

/// Elements of T by which an address lies above a multiple of 16 bytes.
template <typename T>
__device__ __forceinline__ int elements_past_vector(const T* address) {
  return static_cast<int>(reinterpret_cast<uintptr_t>(address) % 16 / sizeof(T));
}

/// 16 bytes of W elements.
template <typename T, int W>
__device__ __forceinline__ Words packed(const T (&elements)[W]) {
  static_assert(W == VECTOR_WIDTH<T>);
  Words words;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if constexpr (sizeof(T) == 16) {
      words.lane[i] =
          static_cast<uint32_t>((i < 2 ? elements[0].low : elements[0].high) >> 32 * (i % 2));
    } else if constexpr (sizeof(T) == 8) {
      words.lane[i] = static_cast<uint32_t>(elements[i / 2] >> 32 * (i % 2));
    } else if constexpr (sizeof(T) == 4) {
      words.lane[i] = elements[i];
    } else if constexpr (sizeof(T) == 2) {
      words.lane[i] = pick_bytes<0x5410>(elements[2 * i], elements[2 * i + 1]);
    } else {
      words.lane[i] =
          pick_bytes<0x5410>(pick_bytes<0x0040>(elements[4 * i], elements[4 * i + 1]),
                             pick_bytes<0x0040>(elements[4 * i + 2], elements[4 * i + 3]));
    }
  }
  return words;
}

/// The same elements, each `by` places further; what leaves at the end comes in at the front.
template <typename T>
__device__ __forceinline__ Words rotated(Words words, int by) {
  const unsigned bytes = static_cast<unsigned>(by) * sizeof(T);
#pragma unroll
  for (unsigned step = 4; step < 16; step *= 2) {
    if (step < sizeof(T)) continue;
    const Words from = words;
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) {
      words.lane[i] = bytes & step ? from.lane[(i - step / 4) % 4] : from.lane[i];
    }
  }
  if constexpr (sizeof(T) < 4) {
    const Words from = words;
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) {
      const uint64_t both = uint64_t{from.lane[i]} << 32 | from.lane[(i + 3) % 4];
      words.lane[i] = static_cast<uint32_t>(both >> (32 - 8 * (bytes & 3)));  // a funnel shift
    }
  }
  return words;
}

/// Stores those elements of 16 bytes that have a bit in `which`, `step` apart. Bytes side by side
/// leave by four where all four do.
template <typename T>
__device__ __forceinline__ void store_part(T* to, int64_t step, const Words& words, unsigned which,
                                           Site site = Site::here()) {
  const auto run = std::bit_cast<Vector<T, VECTOR_WIDTH<T>>>(words);
  if (sizeof(T) == 1 && step == 1) {
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      const unsigned four = which >> 4 * w & 15;
      if (four == 15) {
        store(reinterpret_cast<uint32_t*>(to) + w, words.lane[w], site);
      } else if (four != 0) {
#pragma unroll
        for (int i = 4 * w; i < 4 * w + 4; ++i) {
          if (which >> i & 1) store(to + i, run.lane[i], site);
        }
      }
    }
  } else {
#pragma unroll
    for (int i = 0; i < VECTOR_WIDTH<T>; ++i) {
      if (which >> i & 1) store(to + i * step, run.lane[i], site);
    }
  }
}

}  // namespace SMEM_BUILD
}  // namespace smem::transpose
