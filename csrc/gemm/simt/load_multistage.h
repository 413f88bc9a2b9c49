// An operand's way into shared memory, stages ahead of the products, by cp.async.
//
// Fragments want what lies along e, M or N, next to each other. An operand with K along its rows is
// turned by copying single elements: cp.async may put each where it likes, but a warp's 32 cost 18
// cycles, as many as 32 runs of 16 bytes. So where blocks are told that an operand has runs along
// k, it keeps them in shared memory, and its fragments are read 16 bytes along k at once.
#pragma once

#include "device/cp_async.h"
#include "gemm/simt/tile_config.h"

namespace smem::gemm::simt {
inline namespace SMEM_BUILD {

/// Copies an operand's pieces of EXTENT x DEPTH into stages: stage(k, e) = X(e0 + e, k), or rows
/// along k where LIES is runs_along_k, zeros outside; X is A, or B transposed. LIES says how X
/// lies, or that the loader looks. LANES of a warp's lanes read groups of GROUP along e.
template <typename T, int EXTENT, int DEPTH, int THREADS, int GROUP, int LANES, Lies LIES>
class Loader {
  static constexpr int min_of(int a, int b) { return a < b ? a : b; }

 public:
  static constexpr bool ALONG_K = LIES == Lies::runs_along_k;
  /// Rows along e are 16-byte aligned, and begin 4 banks apart beyond multiples of 32 or 16.
  static constexpr int PITCH = ALONG_K ? DEPTH : EXTENT + VECTOR_WIDTH<T>;
  using Stage = Tile<T, (ALONG_K ? EXTENT : DEPTH), PITCH>;

  /// Where the run with (e, k) begins in a stage of rows along k: runs of a row are exchanged, so
  /// that lanes find the same k of neighbouring groups in different banks, without any padding.
  __device__ __forceinline__ static int place(int e, int k) {
    return (e * DEPTH + e / GROUP % EXCHANGED * VECTOR_WIDTH<T>)^k;
  }

  /// X's rows from e0 on and its columns from k_begin on.
  __device__ __forceinline__ Loader(const Matrix<const T>& X, int64_t e0, int64_t k_begin)
      : lies_(LIES == Lies::any ? lies_of(X) : LIES) {
    const auto step = with_known([&](auto lies) {
      using By = Sharing<decltype(lies)::value>;
      const auto thread = static_cast<int>(threadIdx.x);
      e_ = (By::K_FIRST ? thread / By::THREADS_K : thread % By::THREADS_E) * By::RUN_E;
      k_ = (By::K_FIRST ? thread % By::THREADS_K : thread / By::THREADS_E) * By::RUN_K;
      return By::STEP_E * X.row_stride + By::STEP_K * X.col_stride;
    });
    const int64_t rows_left = X.rows - e0;
    extent_ = rows_left < EXTENT ? static_cast<int>(rows_left) : EXTENT;
    pass_step_ = step;
    stage_step_ = DEPTH * X.col_stride;
    to_ = ALONG_K ? place(e_, k_) : k_ * PITCH + e_;
    opaque(pass_step_);
    opaque(stage_step_);
    opaque(to_);
    from_ = X.data + (e0 + e_) * X.row_stride + (k_begin + k_) * X.col_stride;
  }

  /// Whether all rows of the pieces lie inside of X.
  __device__ __forceinline__ bool rows_inside() const { return extent_ == EXTENT; }

  /// Starts to copy the next piece, which lies wholly inside.
  __device__ __forceinline__ void next_inside(Stage& stage, Site site = Site::here()) {
    with_known([&](auto lies) {
      copy_inside<decltype(lies)::value>(stage, site);
      return 0;
    });
    from_ += stage_step_;
  }

  /// Starts to copy the next piece, wherever it lies: the `depth` next columns.
  __device__ __forceinline__ void next(Stage& stage, int depth, Site site = Site::here()) {
    with_known([&](auto lies) {
      copy<decltype(lies)::value>(stage, depth, site);
      return 0;
    });
    from_ += stage_step_;
  }

 private:
  template <Lies KNOWN>
  using Known = std::integral_constant<Lies, KNOWN>;

  template <typename F>
  __device__ __forceinline__ auto with_known(const F& f) const {
    if constexpr (LIES == Lies::any) {
      if (lies_ == Lies::runs_along_e) return f(Known<Lies::runs_along_e>{});
      if (lies_ == Lies::along_k) return f(Known<Lies::along_k>{});
      return f(Known<Lies::along_e>{});
    } else {
      return f(Known<LIES>{});
    }
  }

  __device__ __forceinline__ static Lies lies_of(const Matrix<const T>& X) {
    if (rows_are_vectors<VECTOR_WIDTH<T>>(X.transposed())) return Lies::runs_along_e;
    return X.col_stride == 1 ? Lies::along_k : Lies::along_e;
  }

  static constexpr int EXCHANGED =
      min_of(8, min_of(DEPTH / VECTOR_WIDTH<T>, LANES));  ///< runs of a row

  /// How the threads share out a piece, each copying a run of RUN_E or RUN_K elements a pass:
  /// THREADS_E of them along e, THREADS_K along k, and the next pass STEP_E or STEP_K further.
  template <Lies KNOWN>
  struct Sharing {
    static constexpr int W = VECTOR_WIDTH<T>;
    static constexpr int RUN_E = KNOWN == Lies::runs_along_e ? W : 1;
    static constexpr int RUN_K = KNOWN == Lies::runs_along_k ? W : 1;
    static constexpr int RUN = RUN_E * RUN_K;
    static constexpr bool K_FIRST = KNOWN == Lies::runs_along_k || KNOWN == Lies::along_k;
    static constexpr int RUNS_E = EXTENT / RUN_E, RUNS_K = DEPTH / RUN_K;
    static constexpr int THREADS_E =
        min_of(RUNS_E, KNOWN == Lies::along_e ? THREADS : THREADS / RUNS_K);
    static constexpr int THREADS_K = min_of(RUNS_K, THREADS / THREADS_E);
    static constexpr int PASSES_E = RUNS_E / THREADS_E, PASSES_K = RUNS_K / THREADS_K;
    static constexpr int PASSES = PASSES_E * PASSES_K;
    static constexpr int STEP_E = PASSES_E > 1 ? THREADS_E * RUN_E : 0;
    static constexpr int STEP_K = PASSES_K > 1 ? THREADS_K * RUN_K : 0;
    static constexpr int STEP_IN_STAGE =
        ALONG_K ? STEP_E * PITCH + STEP_K : STEP_K * PITCH + STEP_E;
    static constexpr bool ALL_COPY = THREADS_E * THREADS_K == THREADS;

    static_assert(!ALONG_K || (STEP_E % (GROUP * EXCHANGED) == 0 && STEP_K == 0),
                  "all runs of a thread are exchanged alike");
    static_assert(PASSES_E == 1 || PASSES_K == 1, "passes go in one direction");
    static_assert(THREADS_E * PASSES_E == RUNS_E && THREADS_K * PASSES_K == RUNS_K,
                  "the threads share out the piece without a rest");
  };

  /// Threads beyond the piece copy nothing.
  template <Lies KNOWN>
  __device__ __forceinline__ bool copies() const {
    return Sharing<KNOWN>::ALL_COPY || (e_ < EXTENT && k_ < DEPTH);
  }

  template <Lies KNOWN>
  __device__ __forceinline__ void copy_inside(Stage& stage, Site site) const {
    using By = Sharing<KNOWN>;
    if (!copies<KNOWN>()) return;
    const int64_t step =
        KNOWN == Lies::runs_along_e && By::STEP_E > 0 ? int64_t{By::STEP_E} : pass_step_;
    const T* from = from_;
    T* const to = stage.at(0, 0, site) + to_;
#pragma unroll
    for (int pass = 0; pass < By::PASSES; ++pass, from += step) {
      cp_async<By::RUN>(to + pass * By::STEP_IN_STAGE, from, By::RUN, site);
    }
  }

  template <Lies KNOWN>
  __device__ __forceinline__ void copy(Stage& stage, int depth, Site site) const {
    using By = Sharing<KNOWN>;
    if (!copies<KNOWN>()) return;
    const T* from = from_;
    T* const to = stage.at(0, 0, site) + to_;
#pragma unroll 1  // the same instructions for all edges
    for (int pass = 0; pass < By::PASSES; ++pass, from += pass_step_) {
      const int k = depth - k_ - pass * By::STEP_K, e = extent_ - e_ - pass * By::STEP_E;
      const int inside = By::RUN_K > 1 ? (e > 0 ? k : 0) : (k > 0 ? e : 0);
      cp_async<By::RUN>(to + pass * By::STEP_IN_STAGE, from, inside, site);
    }
  }

  const T* from_;  ///< the calling thread's first run of the next piece
  int64_t pass_step_, stage_step_;
  int extent_, e_, k_;
  int to_;  ///< its place in the stage
  Lies lies_;
};

}  // namespace SMEM_BUILD
}  // namespace smem::gemm::simt
