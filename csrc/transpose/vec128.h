// 16 bytes in four 32-bit registers: loaded and stored, transposed among the registers of a thread,
// packed from elements.
//
// W = VECTOR_WIDTH<T> = 16 / sizeof(T) is the number of elements in such a vector. A register tile
// is W x W elements: W vectors, one per row before `transpose_in_registers` and one per column
// after it.
#pragma once

#include <bit>

#include "device/vector.h"

namespace smem::transpose::inline SMEM_BUILD {

/// 16 bytes, whatever their elements are. (nvcc would move a struct of sixteen bytes byte by byte.)
using Vec128 = Vector<uint32_t, 4>;

template <typename T>
__device__ __forceinline__ Vec128 load_vec128(const T* from) {
  return *reinterpret_cast<const Vec128*>(from);
}
template <typename T>
__device__ __forceinline__ void store_vec128(T* to, const Vec128& vec) {
  *reinterpret_cast<Vec128*>(to) = vec;
}
/// The same to global memory, as one 16-byte instruction (store_global_vector in device/vector.h).
template <typename T>
__device__ __forceinline__ void store_global_vec128(T* to, const Vec128& vec) {
  store_global_vector<4>(reinterpret_cast<uint32_t*>(to), vec);
}

/// PTX prmt: hexadecimal digit i of SELECTOR says which of the eight bytes of low (0 to 3) and high
/// (4 to 7) becomes byte i of the result.
template <unsigned SELECTOR>
__device__ __forceinline__ uint32_t byte_permute(uint32_t low, uint32_t high) {
#ifdef __CUDA_ARCH__
  return __byte_perm(low, high, SELECTOR);
#else
  const uint64_t both = uint64_t{high} << 32 | low;
  uint32_t permuted = 0;
  for (int i = 0; i < 4; ++i) {
    permuted |= uint32_t{static_cast<uint8_t>(both >> 8 * (SELECTOR >> 4 * i & 15))} << 8 * i;
  }
  return permuted;
#endif
}

/// Transposes a register tile: columns_out[j] gets element j of every row. Elements of 4 bytes and
/// more cost no instruction, because registers only change their names. Smaller elements cost one
/// prmt per register and per halving of their size: 32 for 2 bytes, 128 for 1 byte.
///
///   2-byte elements, rows a and b, one register of each:
///     a = [a0 a1]   prmt 0x5410 -> [a0 b0]   part of column 0
///     b = [b0 b1]   prmt 0x7632 -> [a1 b1]   part of column 1
template <typename T, int W>
__device__ __forceinline__ void transpose_in_registers(const Vec128 (&rows_in)[W],
                                                       Vec128 (&columns_out)[W]) {
  static_assert(W == VECTOR_WIDTH<T>);
  constexpr int REGISTERS = sizeof(T) / 4;  // per element, where it has at least one
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    if constexpr (sizeof(T) >= 4) {
#pragma unroll
      for (int i = 0; i < W; ++i) {
        columns_out[r / REGISTERS].lane[i * REGISTERS + r % REGISTERS] = rows_in[i].lane[r];
      }
    } else if constexpr (sizeof(T) == 2) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const uint32_t a = rows_in[2 * i].lane[r], b = rows_in[2 * i + 1].lane[r];
        columns_out[2 * r].lane[i] = byte_permute<0x5410>(a, b);
        columns_out[2 * r + 1].lane[i] = byte_permute<0x7632>(a, b);
      }
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const uint32_t a = rows_in[4 * i].lane[r], b = rows_in[4 * i + 1].lane[r];
        const uint32_t c = rows_in[4 * i + 2].lane[r], d = rows_in[4 * i + 3].lane[r];
        const uint32_t ab01 = byte_permute<0x5140>(a, b), ab23 = byte_permute<0x7362>(a, b);
        const uint32_t cd01 = byte_permute<0x5140>(c, d), cd23 = byte_permute<0x7362>(c, d);
        columns_out[4 * r].lane[i] = byte_permute<0x5410>(ab01, cd01);
        columns_out[4 * r + 1].lane[i] = byte_permute<0x7632>(ab01, cd01);
        columns_out[4 * r + 2].lane[i] = byte_permute<0x5410>(ab23, cd23);
        columns_out[4 * r + 3].lane[i] = byte_permute<0x7632>(ab23, cd23);
      }
    }
  }
}

/// The number of elements of T between the last multiple of 16 bytes and an address.
template <typename T>
__device__ __forceinline__ int offset_in_vector(const T* address) {
  return static_cast<int>(reinterpret_cast<uintptr_t>(address) % 16 / sizeof(T));
}

/// Packs W elements, each in a register of its own, into 16 bytes.
template <typename T, int W>
__device__ __forceinline__ Vec128 pack(const T (&elements)[W]) {
  static_assert(W == VECTOR_WIDTH<T>);
  Vec128 vec;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if constexpr (sizeof(T) == 16) {
      vec.lane[i] =
          static_cast<uint32_t>((i < 2 ? elements[0].low : elements[0].high) >> 32 * (i % 2));
    } else if constexpr (sizeof(T) == 8) {
      vec.lane[i] = static_cast<uint32_t>(elements[i / 2] >> 32 * (i % 2));
    } else if constexpr (sizeof(T) == 4) {
      vec.lane[i] = elements[i];
    } else if constexpr (sizeof(T) == 2) {
      vec.lane[i] = byte_permute<0x5410>(elements[2 * i], elements[2 * i + 1]);
    } else {
      vec.lane[i] =
          byte_permute<0x5410>(byte_permute<0x0040>(elements[4 * i], elements[4 * i + 1]),
                               byte_permute<0x0040>(elements[4 * i + 2], elements[4 * i + 3]));
    }
  }
  return vec;
}

/// Rotates the elements towards the end: element i becomes element (i + by) % W.
template <typename T>
__device__ __forceinline__ Vec128 rotate_elements(Vec128 vec, int by) {
  const unsigned bytes = static_cast<unsigned>(by) * sizeof(T);
#pragma unroll
  for (unsigned step = 4; step < 16; step *= 2) {
    if (step < sizeof(T)) continue;
    const Vec128 from = vec;
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) {
      vec.lane[i] = bytes & step ? from.lane[(i - step / 4) % 4] : from.lane[i];
    }
  }
  if constexpr (sizeof(T) < 4) {
    const Vec128 from = vec;
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) {
      const uint64_t both = uint64_t{from.lane[i]} << 32 | from.lane[(i + 3) % 4];
      vec.lane[i] = static_cast<uint32_t>(both >> (32 - 8 * (bytes & 3)));  // PTX shf: funnel shift
    }
  }
  return vec;
}

/// Stores the elements whose bit in `mask` is set, `stride` elements apart. Contiguous bytes are
/// stored four at a time where all four are wanted.
template <typename T>
__device__ __forceinline__ void store_masked(T* to, int64_t stride, const Vec128& vec,
                                             unsigned mask) {
  const auto elements = std::bit_cast<Vector<T, VECTOR_WIDTH<T>>>(vec);
  if (sizeof(T) == 1 && stride == 1) {
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const unsigned four = mask >> 4 * r & 15;
      if (four == 15) {
        reinterpret_cast<uint32_t*>(to)[r] = vec.lane[r];
      } else if (four != 0) {
#pragma unroll
        for (int i = 4 * r; i < 4 * r + 4; ++i) {
          if (mask >> i & 1) to[i] = elements.lane[i];
        }
      }
    }
  } else {
#pragma unroll
    for (int i = 0; i < VECTOR_WIDTH<T>; ++i) {
      if (mask >> i & 1) to[i * stride] = elements.lane[i];
    }
  }
}

}  // namespace smem::transpose::inline SMEM_BUILD
