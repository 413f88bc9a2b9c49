// An operand's way into shared memory, stages ahead of the products: by cp.async, turned where it
// lies with K along its rows, so that a fragment is contiguous there whatever the layout.
#pragma once

#include "device/cp_async.h"
#include "gemm/lanes/tile.h"

namespace smem::gemm::lanes {
inline namespace SMEM_BUILD {

/// Copies an operand's pieces of EXTENT x DEPTH into stages: stage(k, e) = X(e0 + e, k), zeros
/// outside, where X is A, or B transposed. LIES says how X lies, or that the loader looks.
template <typename T, int EXTENT, int DEPTH, int THREADS, Lies LIES>
class Loader {
  /// The threads' runs in a pass: THREADS_E of them along e, in each of K_ROWS rows; the pass after
  /// next begins E_STEP or K_STEP further. Threads beyond the piece copy nothing.
  struct Sharing {
    int first_e, first_k, step_e, step_k;
  };

 public:
  static constexpr int PITCH = EXTENT + VECTOR_WIDTH<T>;  ///< 16-byte aligned, 4 banks a row
  using Stage = Tile<T, DEPTH, PITCH>;

  /// X's rows from e0 on and its columns from k_begin on.
  __device__ __forceinline__ Loader(const Matrix<const T>& X, int64_t e0, int64_t k_begin)
      : lies_(LIES == Lies::any ? lies_of(X) : LIES) {
    const Sharing s = with_known([](auto lies) { return sharing<decltype(lies)::value>(); });
    e_ = s.first_e;
    k_ = s.first_k;
    const int64_t rows_left = X.rows - e0;
    extent_ = rows_left < EXTENT ? static_cast<int>(rows_left) : EXTENT;
    pass_step_ = s.step_e * X.row_stride + s.step_k * X.col_stride;
    stage_step_ = DEPTH * X.col_stride;
    keep(pass_step_);
    keep(stage_step_);
    to_ = static_cast<unsigned>(k_ * PITCH + e_);
    keep(to_);
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

  static constexpr int min_of(int a, int b) { return a < b ? a : b; }

  /// Runs a row of the stage holds, and of those that threads copy in one pass.
  template <Lies KNOWN>
  static constexpr int RUN = KNOWN == Lies::runs_along_e ? VECTOR_WIDTH<T> : 1;
  template <Lies KNOWN>
  static constexpr int THREADS_E =
      KNOWN == Lies::runs_along_e ? min_of(EXTENT / VECTOR_WIDTH<T>, THREADS / DEPTH)
      : KNOWN == Lies::along_k    ? min_of(EXTENT, THREADS / DEPTH)
                                  : min_of(EXTENT, THREADS);
  template <Lies KNOWN>
  static constexpr int THREADS_K = min_of(DEPTH, THREADS / THREADS_E<KNOWN>);
  template <Lies KNOWN>
  static constexpr int PASSES_E = EXTENT / RUN<KNOWN> / THREADS_E<KNOWN>;
  template <Lies KNOWN>
  static constexpr int PASSES_K = DEPTH / THREADS_K<KNOWN>;

  template <Lies KNOWN>
  __device__ __forceinline__ static Sharing sharing() {
    static_assert(PASSES_E<KNOWN> == 1 || PASSES_K<KNOWN> == 1, "passes go in one direction");
    static_assert(THREADS_E<KNOWN> * RUN<KNOWN> * PASSES_E<KNOWN> == EXTENT &&
                      THREADS_K<KNOWN> * PASSES_K<KNOWN> == DEPTH,
                  "the threads share out the piece without a rest");
    const int thread = static_cast<int>(threadIdx.x);
    constexpr bool K_FIRST = KNOWN == Lies::along_k;
    const int e = K_FIRST ? thread / THREADS_K<KNOWN> : thread % THREADS_E<KNOWN>;
    const int k = K_FIRST ? thread % THREADS_K<KNOWN> : thread / THREADS_E<KNOWN>;
    return {e * RUN<KNOWN>, k, PASSES_E<KNOWN> > 1 ? THREADS_E<KNOWN> * RUN<KNOWN> : 0,
            PASSES_K<KNOWN> > 1 ? THREADS_K<KNOWN> : 0};
  }

  template <Lies KNOWN>
  static constexpr int STEP_E = PASSES_E<KNOWN> > 1 ? THREADS_E<KNOWN> * RUN<KNOWN> : 0;
  template <Lies KNOWN>
  static constexpr int STEP_K = PASSES_K<KNOWN> > 1 ? THREADS_K<KNOWN> : 0;

  template <Lies KNOWN>
  __device__ __forceinline__ void copy_inside(Stage& stage, Site site) const {
    constexpr int PASSES = PASSES_E<KNOWN> * PASSES_K<KNOWN>, W = RUN<KNOWN>;
    if (!all_copy<KNOWN>() && (e_ >= EXTENT || k_ >= DEPTH)) return;
    const int64_t step =
        KNOWN == Lies::runs_along_e && STEP_E<KNOWN> > 0 ? STEP_E<KNOWN> : pass_step_;
    const T* from = from_;
    T* const to = stage.at(0, 0, site) + to_;
#pragma unroll
    for (int pass = 0; pass < PASSES; ++pass, from += step) {
      copy_async<W>(to + pass * (STEP_K<KNOWN> * PITCH + STEP_E<KNOWN>), from, W, site);
    }
  }

  template <Lies KNOWN>
  __device__ __forceinline__ void copy(Stage& stage, int depth, Site site) const {
    constexpr int PASSES = PASSES_E<KNOWN> * PASSES_K<KNOWN>, W = RUN<KNOWN>;
    if (!all_copy<KNOWN>() && (e_ >= EXTENT || k_ >= DEPTH)) return;
    const T* from = from_;
#pragma unroll 1  // the same instructions for all edges
    for (int pass = 0; pass < PASSES; ++pass, from += pass_step_) {
      const int k = k_ + pass * STEP_K<KNOWN>, e = e_ + pass * STEP_E<KNOWN>;
      copy_async<W>(stage.at(k, e, site), from, k < depth ? extent_ - e : 0, site);
    }
  }

  template <Lies KNOWN>
  static constexpr bool all_copy() {
    return THREADS_E<KNOWN> * THREADS_K<KNOWN> == THREADS;
  }

  const T* from_;  ///< the calling thread's first run of the next piece
  int64_t pass_step_, stage_step_;
  int extent_, e_, k_;
  unsigned to_;  ///< its place in the stage
  Lies lies_;
};

}  // namespace SMEM_BUILD
}  // namespace smem::gemm::lanes
