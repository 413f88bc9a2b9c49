// The layouts of B, and the thread maps by which split_producer.h reads each of them.
#pragma once

#include "gemm/fp16x3/scale.h"

namespace smem::gemm::fp16x3::inline SMEM_BUILD {

using split::VEC_SIZE;

/// A stage holds four k blocks of each column. In shared memory a column's 32 hi of a k block
/// precede its 32 lo.
constexpr int STAGE_K_BLOCKS = 4, STAGE_K = STAGE_K_BLOCKS * split::K_BLOCK;
constexpr int K_BLOCK_BYTES = 2 * split::K_BLOCK * 2;
/// The pitch of a column in a stage: 16 bytes of padding put eight columns into different banks.
constexpr int COLUMN_BYTES = STAGE_K_BLOCKS * K_BLOCK_BYTES + 16;
/// Columns that a group of warps splits: the rows of an mma instruction.
constexpr int GROUP_COLS = 16;

// A BLayout says which elements of a stage a thread loads and splits:
//
//   IS_MN_MAJOR, SPLIT_K   the layout, and whether K may be cut into slices
//   IS_ROW_RING            whether RowRing loads it, or VectorRing (raw_ring.h)
//   COPY_ELEMENTS          per cp.async of VectorRing, and per load of a stage that is read again
//   WARPS                  per group of GROUP_COLS columns
//   VECS                   vectors of 16 bytes per thread and stage
//   COLS                   columns per thread
//   ELEMENTS               neighbours along K per thread, column and k block
//   FIRST_XOR, LAST_XOR    the shuffle masks that reduce over the lanes that share columns
//   column, k              the thread's first column in its group, and its first k in a k block
//   k_of(vec, lane)        an element's k, less that of the first one
//   offset_of(vec, lane, k_stride)
//                          the same in memory
//   element(vecs, c, b, e) element e of column c in k block b

/// B is K-major. 8 lanes share a column, each with 4 elements of every k block.
struct KMajor {
  static constexpr bool IS_MN_MAJOR = false, SPLIT_K = false, IS_ROW_RING = false;
  static constexpr int COPY_ELEMENTS = VEC_SIZE;
  static constexpr int WARPS = 4;
  static constexpr int VECS = STAGE_K_BLOCKS;
  static constexpr int COLS = 1;
  static constexpr int ELEMENTS = VEC_SIZE;
  static constexpr int FIRST_XOR = 1, LAST_XOR = 4;

  int column, k;

  /// Two columns that are stored at the same time are four apart, so in different banks.
  __device__ __forceinline__ KMajor(int warp, int lane)
      : column(warp + lane / 8 * 4), k(lane % 8 * VEC_SIZE) {}
  __device__ __forceinline__ static constexpr int k_of(int vec, int lane) {
    return vec * split::K_BLOCK + lane;
  }
  __device__ __forceinline__ static int64_t offset_of(int vec, int lane, int64_t) {
    return k_of(vec, lane);
  }
  template <typename Vecs>
  __device__ __forceinline__ static auto& element(Vecs& vecs, int, int k_block, int e) {
    return vecs[k_block].lane[e];
  }
};

/// B is MN-major. 16 lanes share four columns, each with 2 elements of every k block.
struct MnMajor {
  static constexpr bool IS_MN_MAJOR = true, SPLIT_K = false, IS_ROW_RING = false;
  static constexpr int COPY_ELEMENTS = VEC_SIZE;
  static constexpr int WARPS = 2;
  static constexpr int VECS = 2 * STAGE_K_BLOCKS;
  static constexpr int COLS = VEC_SIZE;
  static constexpr int ELEMENTS = 2;
  static constexpr int FIRST_XOR = 2, LAST_XOR = 16;

  int column, k;

  __device__ __forceinline__ MnMajor(int warp, int lane)
      : column(warp * 8 + lane % 2 * VEC_SIZE), k(lane / 2 * 2) {}
  __device__ __forceinline__ static constexpr int k_of(int vec, int) {
    return vec / 2 * split::K_BLOCK + vec % 2;
  }
  __device__ __forceinline__ static int64_t offset_of(int vec, int lane, int64_t k_stride) {
    return k_of(vec, lane) * k_stride;
  }
  template <typename Vecs>
  __device__ __forceinline__ static auto& element(Vecs& vecs, int column, int k_block, int e) {
    return vecs[2 * k_block + e].lane[column];
  }
};

/// The same with split-K (split_k.h). These have kernels of their own: kernels for both were 5 to
/// 35% slower without split-K, because they ran out of registers.
template <typename BLayout>
struct WithSplitK : BLayout {
  static constexpr bool SPLIT_K = true;
  using BLayout::BLayout;
};

/// B is K-major but cannot be loaded by vectors, or K is no multiple of one. With split-K or
/// without.
struct KMajorUnaligned : WithSplitK<KMajor> {
  static constexpr int COPY_ELEMENTS = 1;
  using WithSplitK<KMajor>::WithSplitK;
};

/// B has any strides. Four lanes share a column, each with 8 elements of every k block. With
/// split-K or without.
struct AnyStrides {
  static constexpr bool IS_MN_MAJOR = true, SPLIT_K = true, IS_ROW_RING = false;
  static constexpr int COPY_ELEMENTS = 1;
  static constexpr int WARPS = 2;
  static constexpr int VECS = 2 * STAGE_K_BLOCKS;
  static constexpr int COLS = 1;
  static constexpr int ELEMENTS = 2 * VEC_SIZE;
  static constexpr int FIRST_XOR = 8, LAST_XOR = 16;

  int column, k;

  __device__ __forceinline__ AnyStrides(int warp, int lane)
      : column(warp * 8 + lane % 8), k(lane / 8 * ELEMENTS) {}
  __device__ __forceinline__ static constexpr int k_of(int vec, int lane) {
    return vec / 2 * split::K_BLOCK + vec % 2 * VEC_SIZE + lane;
  }
  __device__ __forceinline__ static int64_t offset_of(int vec, int lane, int64_t k_stride) {
    return k_of(vec, lane) * k_stride;
  }
  template <typename Vecs>
  __device__ __forceinline__ static auto& element(Vecs& vecs, int, int k_block, int e) {
    return vecs[2 * k_block + e / VEC_SIZE].lane[e % VEC_SIZE];
  }
};

/// B is MN-major, and its rows begin anywhere. With split-K or without.
struct MnMajorUnaligned : AnyStrides {
  static constexpr bool IS_ROW_RING = true;
  using AnyStrides::AnyStrides;
};

/// The same by four warps, for blocks that have an SM to themselves: one warp alone issues an
/// instruction in every third cycle. 8 lanes share a column, each with 4 elements of every k block.
struct MnMajorFourWarps : WithSplitK<KMajor> {
  static constexpr bool IS_MN_MAJOR = true, IS_ROW_RING = true;
  static constexpr int COPY_ELEMENTS = 1;
  static constexpr int FIRST_XOR = 4, LAST_XOR = 16;

  __device__ __forceinline__ MnMajorFourWarps(int warp, int lane) : WithSplitK<KMajor>(warp, lane) {
    column = warp * 4 + lane % 4;
    k = lane / 4 * ELEMENTS;
  }
  __device__ __forceinline__ static int64_t offset_of(int vec, int lane, int64_t k_stride) {
    return k_of(vec, lane) * k_stride;
  }
};

}  // namespace smem::gemm::fp16x3::inline SMEM_BUILD
