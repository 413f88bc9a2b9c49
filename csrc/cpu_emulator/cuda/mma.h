// Stands for CUDA's header of that name: nvcuda::wmma for half, bfloat16 and tf32. Fragments have
// the elements, accesses and instructions that nvcc 13.0 gives them for sm_90, so that a trace
// counts what a GPU executes.
//
// Fragments are those of mma.sync: 16 rows of A times 8 columns of B, in registers that hold 8 x 8
// elements (8 x 4 floats). An operand along which a product has 16 or 32 elements is an A (`wide`)
// or two B. The product of 8 x 32 is computed as its transpose.
#pragma once

#include <stdint.h>
#include <string.h>

#include "cuda_bf16.h"
#include "cuda_fp16.h"
#include "warp_matrix_api.h"

namespace nvcuda::wmma {

struct matrix_a;
struct matrix_b;
struct accumulator;
struct row_major;
struct col_major;
enum layout_t { mem_row_major, mem_col_major };
namespace precision {
struct tf32;
}

/// PTX cvt.rna.tf32: ties away from zero.
SMEM_MATH float __float_to_tf32(float x) {
  const auto bits = __builtin_bit_cast(uint32_t, x);
  const bool is_finite = (bits & 0x7f800000u) != 0x7f800000u;
  return __builtin_bit_cast(float, is_finite ? (bits + 0x1000u) & ~0x1fffu : bits);
}

template <typename T>
struct smem_storage {
  using type = T;
};
template <>
struct smem_storage<precision::tf32> {
  using type = float;
};

template <typename T>
constexpr smem_mma_format smem_format = std::is_same_v<T, half>            ? smem_mma_format::f16
                                        : std::is_same_v<T, __nv_bfloat16> ? smem_mma_format::bf16
                                                                           : smem_mma_format::tf32;

template <typename T, int COUNT>
struct __align__(8) smem_elements {
  enum { num_elements = COUNT, num_storage_elements = COUNT };
  using element_type = T;
  using storage_element_type = typename smem_storage<T>::type;
  storage_element_type x[COUNT];
};

/// An operand of MN elements along M or N. If it has more than COUNT elements for each lane, those
/// repeat, as nvcc has it.
template <typename T, int COUNT, int MN, bool IS_WIDE, bool K_IS_CONTIGUOUS>
struct smem_operand : smem_elements<T, COUNT> {
  using Storage = typename smem_storage<T>::type;
  static constexpr int REGISTERS = MN / 4, HALF_K = 16 / sizeof(Storage);

  // The first element of a register's 8 x 8 elements.
  SMEM_MATH static int mn_of(int i) { return IS_WIDE ? i / 4 * 16 + i % 2 * 8 : i / 2 * 8; }
  SMEM_MATH static int k_of(int i) { return (IS_WIDE ? i / 2 % 2 : i % 2) * HALF_K; }
  SMEM_MATH static size_t offset(int mn, int k, unsigned pitch) {
    return K_IS_CONTIGUOUS ? size_t{pitch} * mn + k : size_t{pitch} * k + mn;
  }

  SMEM_MATH void load(const Storage* from, unsigned pitch) {
    uint32_t registers[REGISTERS];
    const int first = smem_lane() / 4, second = smem_lane() % 4;
    if (std::is_same_v<T, half> && smem_is_shared(from)) {
      constexpr int MATRICES = REGISTERS < 4 ? REGISTERS : 4;
      for (int i = 0; i < REGISTERS; i += MATRICES) {
        const int row = smem_lane() % 8, matrix = i + smem_lane() / 8 % MATRICES;
        const int mn = mn_of(matrix) + (K_IS_CONTIGUOUS ? row : 0);
        const int k = k_of(matrix) + (K_IS_CONTIGUOUS ? 0 : row);
        smem_ldmatrix(from + offset(mn, k, pitch), MATRICES, !K_IS_CONTIGUOUS, registers + i);
      }
    } else {
      for (int i = 0; i < REGISTERS; ++i) {
        constexpr bool IS_TRANSPOSED = sizeof(Storage) == 2 && !K_IS_CONTIGUOUS;
        const int pair = second * (4 / static_cast<int>(sizeof(Storage)));
        const int mn = mn_of(i) + (IS_TRANSPOSED ? pair : first);
        const int k = k_of(i) + (IS_TRANSPOSED ? first : pair);
        registers[i] = *reinterpret_cast<const uint32_t*>(from + offset(mn, k, pitch));
        if (IS_TRANSPOSED) registers[i] = smem_movmatrix(registers[i]);
      }
    }
    constexpr int BYTES = sizeof(registers);
    for (int at = 0; at < COUNT * static_cast<int>(sizeof(Storage)); at += BYTES) {
      memcpy(reinterpret_cast<char*>(this->x) + at, registers, BYTES);
    }
  }
  SMEM_MATH void copy(uint32_t (&registers)[REGISTERS]) const {
    memcpy(registers, this->x, sizeof(registers));
  }
};

/// 16 x 16 accumulators, or IS_TALL: 32 x 8, perhaps of a transposed product.
template <typename T, bool IS_TALL, bool IS_TRANSPOSED>
struct smem_accumulators : smem_elements<T, 8> {
  /// Calls access(address, index) for the elements, in pairs where these are neighbours in memory.
  /// Else halves are accessed as their transposes: transpose(register) is called then.
  template <typename Memory, typename Access, typename Transpose>
  SMEM_MATH static void for_each(Memory* memory, unsigned pitch, layout_t layout,
                                 const Access& access, const Transpose& transpose) {
    const bool n_is_contiguous = (layout == mem_row_major) != IS_TRANSPOSED;
    const int first = smem_lane() / 4, second = smem_lane() % 4 * 2;
    for (int i = 0; i < 8; i += 2) {
      const int m = (IS_TALL ? i / 4 * 16 : 0) + i / 2 % 2 * 8, n = IS_TALL ? 0 : i / 4 * 8;
      if (n_is_contiguous) {
        access(memory + size_t{pitch} * (m + first) + n + second, i, true);
      } else if (sizeof(T) == 2) {
        transpose(memory + size_t{pitch} * (n + first) + m + second, i);
      } else {
        Memory* const to = memory + size_t{pitch} * (n + second) + m + first;
        access(to, i, false);
        access(to + pitch, i + 1, false);
      }
    }
  }
};

/// As in CUDA, there are fragments of these shapes and types only.
template <typename Use, int m, int n, int k, typename T, typename Layout = void>
class fragment;

#define SMEM_FRAGMENTS(M, N, K, T, A_COUNT, B_COUNT)                                      \
  template <typename Layout>                                                              \
  class fragment<matrix_a, M, N, K, T, Layout>                                            \
      : public smem_operand<T, A_COUNT, M, M != 8, std::is_same_v<Layout, row_major>> {}; \
  template <typename Layout>                                                              \
  class fragment<matrix_b, M, N, K, T, Layout>                                            \
      : public smem_operand<T, B_COUNT, N, M == 8, std::is_same_v<Layout, col_major>> {};
#define SMEM_ACCUMULATORS(M, N, K, T) \
  template <>                         \
  class fragment<accumulator, M, N, K, T> : public smem_accumulators<T, M != 16, M == 8> {};
SMEM_FRAGMENTS(16, 16, 16, half, 16, 16)
SMEM_FRAGMENTS(32, 8, 16, half, 16, 16)
SMEM_FRAGMENTS(8, 32, 16, half, 16, 16)
SMEM_FRAGMENTS(16, 16, 16, __nv_bfloat16, 8, 8)
SMEM_FRAGMENTS(32, 8, 16, __nv_bfloat16, 16, 4)
SMEM_FRAGMENTS(8, 32, 16, __nv_bfloat16, 4, 16)
SMEM_FRAGMENTS(16, 16, 8, precision::tf32, 4, 4)
SMEM_ACCUMULATORS(16, 16, 16, float)
SMEM_ACCUMULATORS(32, 8, 16, float)
SMEM_ACCUMULATORS(8, 32, 16, float)
SMEM_ACCUMULATORS(16, 16, 16, half)
SMEM_ACCUMULATORS(32, 8, 16, half)
SMEM_ACCUMULATORS(8, 32, 16, half)
SMEM_ACCUMULATORS(16, 16, 8, float)
#undef SMEM_FRAGMENTS
#undef SMEM_ACCUMULATORS

/// What CUDA asks of the memory of a matrix.
#define SMEM_CHECK_MATRIX(p, ldm)                                                              \
  if (reinterpret_cast<uintptr_t>(p) % 32 != 0 || (ldm) * sizeof(*(p)) % 16 != 0) {            \
    smem_fault("misaligned",                                                                   \
               "wmma needs a matrix at a multiple of 32 bytes, whose ldm is one of 16 bytes"); \
  }

template <typename T, int COUNT>
SMEM_MATH void fill_fragment(smem_elements<T, COUNT>& f,
                             const typename smem_storage<T>::type& value) {
  for (auto& x : f.x) x = value;
}

template <typename T, int COUNT, int MN, bool IS_WIDE, bool K_IS_CONTIGUOUS>
SMEM_MATH void load_matrix_sync(smem_operand<T, COUNT, MN, IS_WIDE, K_IS_CONTIGUOUS>& f,
                                const typename smem_storage<T>::type* p, unsigned ldm) {
  SMEM_CHECK_MATRIX(p, ldm)
  f.load(p, ldm);
}

template <typename T, bool IS_TALL, bool IS_TRANSPOSED>
SMEM_MATH void load_matrix_sync(smem_accumulators<T, IS_TALL, IS_TRANSPOSED>& f, const T* p,
                                unsigned ldm, layout_t layout) {
  SMEM_CHECK_MATRIX(p, ldm)
  using Pair = std::conditional_t<sizeof(T) == 2, uint32_t, uint64_t>;
  const auto load = [&](const T* from, int i, bool is_pair) __attribute__((always_inline)) {
    if (is_pair) {
      const Pair pair = *reinterpret_cast<const Pair*>(from);
      memcpy(static_cast<void*>(f.x + i), &pair, sizeof(pair));
    } else {
      f.x[i] = *from;
    }
  };
  const auto load_transposed = [&](const T* from, int i) __attribute__((always_inline)) {
    const uint32_t pair = smem_movmatrix(*reinterpret_cast<const uint32_t*>(from));
    memcpy(static_cast<void*>(f.x + i), &pair, sizeof(pair));
  };
  f.for_each(p, ldm, layout, load, load_transposed);
}

template <typename T, bool IS_TALL, bool IS_TRANSPOSED>
SMEM_MATH void store_matrix_sync(T* p, const smem_accumulators<T, IS_TALL, IS_TRANSPOSED>& f,
                                 unsigned ldm, layout_t layout) {
  SMEM_CHECK_MATRIX(p, ldm)
  using Pair = std::conditional_t<sizeof(T) == 2, uint32_t, uint64_t>;
  const auto store = [&](T* to, int i, bool is_pair) __attribute__((always_inline)) {
    if (is_pair) {
      Pair pair;
      memcpy(&pair, f.x + i, sizeof(pair));
      *reinterpret_cast<Pair*>(to) = pair;
    } else {
      *to = f.x[i];
    }
  };
  const auto store_transposed = [&](T* to, int i) __attribute__((always_inline)) {
    uint32_t pair;
    memcpy(&pair, f.x + i, sizeof(pair));
    *reinterpret_cast<uint32_t*>(to) = smem_movmatrix(pair);
  };
  f.for_each(p, ldm, layout, store, store_transposed);
}
#undef SMEM_CHECK_MATRIX

/// D = A B + C, perhaps in place.
template <int M, int N, int K, typename T, typename LayoutA, typename LayoutB, typename C,
          typename D>
SMEM_MATH void mma_sync(fragment<accumulator, M, N, K, D>& d,
                        const fragment<matrix_a, M, N, K, T, LayoutA>& a,
                        const fragment<matrix_b, M, N, K, T, LayoutB>& b,
                        const fragment<accumulator, M, N, K, C>& c) {
  static_assert(std::is_same_v<T, half> || (std::is_same_v<C, float> && std::is_same_v<D, float>),
                "bfloat16 and tf32 have accumulators of float");
  uint32_t of_a[M / 4], of_b[N / 4];
  a.copy(of_a);
  b.copy(of_b);
  const uint32_t *wide = M == 8 ? of_b : of_a, *narrow = M == 8 ? of_a : of_b;
  for (int i = 0; i < 8; i += 4) {
    float accum[4];
    for (int j = 0; j < 4; ++j) accum[j] = c.x[i + j];
    if (std::is_same_v<T, precision::tf32>) {
      for (int k = 0; k < 2; ++k) smem_mma_sync(smem_format<T>, 4, accum, wide + 2 * k, narrow + k);
    } else {
      smem_mma_sync(smem_format<T>, 16, accum, wide, narrow);
    }
    for (int j = 0; j < 4; ++j) d.x[i + j] = accum[j];
    if (M == 16) {
      narrow += 2;
    } else {
      wide += 4;
    }
  }
}

}  // namespace nvcuda::wmma
