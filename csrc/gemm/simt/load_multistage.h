// The multistage loader: cp.async copies an operand's tiles into shared memory several stages ahead
// of the products.
//
// X(mn, k) is an operand with its M or N dimension first. Fragments want neighbours along mn next
// to each other, so a stage normally has rows along mn. A K-major operand can be transposed by
// copying single elements, as cp.async may write each to any address, but a warp's 32 single
// elements take 18 cycles of the load/store unit, as many as 32 vectors of 16 bytes. So if the
// layout is known to be K-major and aligned, the stage stays K-major too, and fragments are read as
// vectors along k.
#pragma once

#include "device/cp_async.h"
#include "gemm/simt/tile_config.h"

namespace smem::gemm::simt::inline SMEM_BUILD {

/// Copies tiles of EXTENT x DEPTH into stages, with zeros outside X: stage(k, mn) = X(mn0 + mn, k),
/// or stage(mn, k) if MODE is vec16_along_k. Fragments are read by LANES different lanes of a warp,
/// VEC elements along mn each.
template <typename T, int EXTENT, int DEPTH, int THREADS, int VEC, int LANES, LoadMode MODE>
class MultistageLoader {
  static constexpr int min_of(int a, int b) { return a < b ? a : b; }

 public:
  static constexpr bool K_MAJOR = MODE == LoadMode::vec16_along_k;
  /// MN-major rows are 16-byte aligned, and each begins 4 banks after the one before, modulo 32 or
  /// 16 banks.
  static constexpr int PITCH = K_MAJOR ? DEPTH : EXTENT + VECTOR_WIDTH<T>;
  using Stage = Tile<T, (K_MAJOR ? EXTENT : DEPTH), PITCH>;

  /// The offset of the vec16 with (mn, k) in a K-major stage. The vec16s of a row are swizzled, so
  /// that lanes that read the same k of neighbouring rows use different banks, without padding.
  __device__ __forceinline__ static int smem_offset(int mn, int k) {
    return (mn * DEPTH + mn / VEC % SWIZZLE_VECS * VECTOR_WIDTH<T>)^k;
  }

  /// Loads X's rows from mn0 on and its columns from k_begin on.
  __device__ __forceinline__ MultistageLoader(const Matrix<const T>& X, int64_t mn0,
                                              int64_t k_begin)
      : mode_(MODE == LoadMode::dynamic ? mode_of(X) : MODE) {
    const auto step = with_static_mode([&](auto mode) {
      using Map = CopyThreadMap<decltype(mode)::value>;
      const auto thread = static_cast<int>(threadIdx.x);
      mn_ = (Map::K_FASTEST ? thread / Map::THREADS_K : thread % Map::THREADS_MN) * Map::VEC_MN;
      k_ = (Map::K_FASTEST ? thread % Map::THREADS_K : thread / Map::THREADS_MN) * Map::VEC_K;
      return Map::STEP_MN * X.row_stride + Map::STEP_K * X.col_stride;
    });
    const int64_t rows_left = X.rows - mn0;
    valid_mn_ = rows_left < EXTENT ? static_cast<int>(rows_left) : EXTENT;
    pass_stride_ = step;
    stage_stride_ = DEPTH * X.col_stride;
    smem_offset_ = K_MAJOR ? smem_offset(mn_, k_) : k_ * PITCH + mn_;
    opaque(pass_stride_);
    opaque(stage_stride_);
    opaque(smem_offset_);
    from_ = X.data + (mn0 + mn_) * X.row_stride + (k_begin + k_) * X.col_stride;
  }

  /// Whether all rows of the tiles are inside X.
  __device__ __forceinline__ bool all_rows_valid() const { return valid_mn_ == EXTENT; }

  /// Starts the copy of the next tile, which must be wholly inside X.
  __device__ __forceinline__ void load_inside(Stage& stage) {
    with_static_mode([&](auto mode) {
      copy_inside<decltype(mode)::value>(stage);
      return 0;
    });
    from_ += stage_stride_;
  }

  /// Starts the copy of the next tile, which has `depth` columns inside X.
  __device__ __forceinline__ void load_at_edge(Stage& stage, int depth) {
    with_static_mode([&](auto mode) {
      copy_at_edge<decltype(mode)::value>(stage, depth);
      return 0;
    });
    from_ += stage_stride_;
  }

 private:
  template <LoadMode KNOWN>
  using StaticMode = std::integral_constant<LoadMode, KNOWN>;

  /// Calls f with the mode as a compile-time constant.
  template <typename F>
  __device__ __forceinline__ auto with_static_mode(const F& f) const {
    if constexpr (MODE == LoadMode::dynamic) {
      if (mode_ == LoadMode::vec16_along_mn) return f(StaticMode<LoadMode::vec16_along_mn>{});
      if (mode_ == LoadMode::scalar_along_k) return f(StaticMode<LoadMode::scalar_along_k>{});
      return f(StaticMode<LoadMode::scalar_along_mn>{});
    } else {
      return f(StaticMode<MODE>{});
    }
  }

  __device__ __forceinline__ static LoadMode mode_of(const Matrix<const T>& X) {
    if (rows_are_vectors<VECTOR_WIDTH<T>>(X.transposed())) return LoadMode::vec16_along_mn;
    return X.col_stride == 1 ? LoadMode::scalar_along_k : LoadMode::scalar_along_mn;
  }

  /// vec16s of a row of a K-major stage that the swizzle permutes.
  static constexpr int SWIZZLE_VECS = min_of(8, min_of(DEPTH / VECTOR_WIDTH<T>, LANES));

  /// How the threads share a tile: THREADS_MN x THREADS_K of them copy a vector of VEC_MN or VEC_K
  /// elements each per pass, and the next pass is STEP_MN or STEP_K further.
  template <LoadMode KNOWN>
  struct CopyThreadMap {
    static constexpr int W = VECTOR_WIDTH<T>;
    static constexpr int VEC_MN = KNOWN == LoadMode::vec16_along_mn ? W : 1;
    static constexpr int VEC_K = KNOWN == LoadMode::vec16_along_k ? W : 1;
    static constexpr int ELEMENTS = VEC_MN * VEC_K;
    static constexpr bool K_FASTEST =
        KNOWN == LoadMode::vec16_along_k || KNOWN == LoadMode::scalar_along_k;
    static constexpr int VECS_MN = EXTENT / VEC_MN, VECS_K = DEPTH / VEC_K;
    static constexpr int THREADS_MN =
        min_of(VECS_MN, KNOWN == LoadMode::scalar_along_mn ? THREADS : THREADS / VECS_K);
    static constexpr int THREADS_K = min_of(VECS_K, THREADS / THREADS_MN);
    static constexpr int PASSES_MN = VECS_MN / THREADS_MN, PASSES_K = VECS_K / THREADS_K;
    static constexpr int PASSES = PASSES_MN * PASSES_K;
    static constexpr int STEP_MN = PASSES_MN > 1 ? THREADS_MN * VEC_MN : 0;
    static constexpr int STEP_K = PASSES_K > 1 ? THREADS_K * VEC_K : 0;
    static constexpr int SMEM_STEP = K_MAJOR ? STEP_MN * PITCH + STEP_K : STEP_K * PITCH + STEP_MN;
    static constexpr bool ALL_THREADS_COPY = THREADS_MN * THREADS_K == THREADS;

    static_assert(!K_MAJOR || (STEP_MN % (VEC * SWIZZLE_VECS) == 0 && STEP_K == 0),
                  "all vec16s of a thread have the same swizzle");
    static_assert(PASSES_MN == 1 || PASSES_K == 1, "passes go along one dimension");
    static_assert(THREADS_MN * PASSES_MN == VECS_MN && THREADS_K * PASSES_K == VECS_K,
                  "all threads that copy have equally many vectors");
  };

  /// Whether the calling thread has a part of the tile.
  template <LoadMode KNOWN>
  __device__ __forceinline__ bool copies() const {
    return CopyThreadMap<KNOWN>::ALL_THREADS_COPY || (mn_ < EXTENT && k_ < DEPTH);
  }

  template <LoadMode KNOWN>
  __device__ __forceinline__ void copy_inside(Stage& stage) const {
    using Map = CopyThreadMap<KNOWN>;
    if (!copies<KNOWN>()) return;
    const int64_t step = KNOWN == LoadMode::vec16_along_mn && Map::STEP_MN > 0
                             ? int64_t{Map::STEP_MN}
                             : pass_stride_;
    const T* from = from_;
    T* const to = stage.at(0, 0) + smem_offset_;
#pragma unroll
    for (int pass = 0; pass < Map::PASSES; ++pass, from += step) {
      cp_async<Map::ELEMENTS>(to + pass * Map::SMEM_STEP, from, Map::ELEMENTS);
    }
  }

  template <LoadMode KNOWN>
  __device__ __forceinline__ void copy_at_edge(Stage& stage, int depth) const {
    using Map = CopyThreadMap<KNOWN>;
    if (!copies<KNOWN>()) return;
    const T* from = from_;
    T* const to = stage.at(0, 0) + smem_offset_;
#pragma unroll 1  // edges are rare: keep their code small
    for (int pass = 0; pass < Map::PASSES; ++pass, from += pass_stride_) {
      const int k_left = depth - k_ - pass * Map::STEP_K;
      const int mn_left = valid_mn_ - mn_ - pass * Map::STEP_MN;
      const int num_valid =
          Map::VEC_K > 1 ? (mn_left > 0 ? k_left : 0) : (k_left > 0 ? mn_left : 0);
      cp_async<Map::ELEMENTS>(to + pass * Map::SMEM_STEP, from, num_valid);
    }
  }

  const T* from_;  ///< the calling thread's first vector of the next tile
  int64_t pass_stride_, stage_stride_;
  int valid_mn_, mn_, k_;
  int smem_offset_;  ///< of that vector in a stage
  LoadMode mode_;
};

}  // namespace smem::gemm::simt::inline SMEM_BUILD
