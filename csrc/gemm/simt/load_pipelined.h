// An operand's way into shared memory where its runs are not aligned, or lie along k: each element
// is loaded into a register, a step before it is stored where the fragments want it. A cp.async of
// single elements takes as long as one of 16 bytes each; a load and a store take a quarter of that.
// It hides one step's latency only: for tiles whose threads have many products a step.
#pragma once

#include "device/tile.h"
#include "gemm/simt/tile_config.h"

namespace smem::gemm::simt {
inline namespace SMEM_BUILD {

/// Moves an operand's pieces of EXTENT x DEPTH into stages: stage(k, e) = X(e0 + e, k), zeros
/// beyond X's columns. What stands beyond its rows is not defined: it reaches no sum that is
/// stored.
template <typename T, int EXTENT, int DEPTH, int THREADS>
class Fetcher {
  static constexpr int STEP = THREADS / DEPTH;  ///< along e, from pass to pass
  static constexpr int PASSES = (EXTENT + STEP - 1) / STEP;

 public:
  static constexpr bool ALONG_K = false;
  /// As a Loader's, but for the threads' last pass.
  static constexpr int PITCH = PASSES * STEP + 4;
  using Stage = Tile<T, DEPTH, PITCH>;
  static_assert(THREADS % DEPTH == 0 && PITCH % VECTOR_WIDTH<T> == 0, "rows are aligned");
  static_assert(LARGEST_FETCHED * STEP * sizeof(T) <= UINT32_MAX, "passes count with 32 bits");

  /// X's rows from e0 on and its columns from k_begin on.
  __device__ __forceinline__ Fetcher(const Matrix<const T>& X, int64_t e0, int64_t k_begin) {
    const auto thread = static_cast<int>(threadIdx.x);
    const bool k_first = X.col_stride < X.row_stride;
    const int first = k_first ? thread / DEPTH : thread % STEP;
    const int k = k_first ? thread % DEPTH : thread / STEP;
    const int64_t last = lesser(X.rows - e0, int64_t{EXTENT}) - 1, e = lesser(int64_t{first}, last);
    to_ = k * PITCH + first;
    last_pass_ = static_cast<unsigned>(last - e) / STEP;
    left_ = static_cast<int>(X.cols - k_begin) - k;
    pass_bytes_ = static_cast<unsigned>(X.row_stride) * unsigned{STEP * sizeof(T)};
    stage_step_ = static_cast<unsigned>(X.col_stride) * DEPTH;
    from_ = X.data + (e0 + e) * X.row_stride + (k_begin + k) * X.col_stride;
    opaque(pass_bytes_);
    opaque(stage_step_);
    opaque(to_);
  }

  /// Rows beyond do no harm.
  __device__ __forceinline__ bool rows_inside() const { return true; }

  /// Stores the piece that was fetched.
  __device__ __forceinline__ void put(Stage& stage, Site site = Site::here()) const {
    T* const to = stage.at(0, 0, site) + to_;
#pragma unroll
    for (int pass = 0; pass < PASSES; ++pass) store(to + pass * STEP, fetched_[pass], site);
  }

  /// Begins to load the next piece.
  __device__ __forceinline__ void fetch(Site site = Site::here()) {
    opaque(last_pass_);  // or nvcc keeps all passes' offsets, most of them in local memory
    if (left_ > 0) {
#pragma unroll
      for (unsigned pass = 0; pass < PASSES; ++pass) {
        const uint64_t offset = uint64_t{lesser(pass, last_pass_)} * pass_bytes_;
        const char* const from = reinterpret_cast<const char*>(from_) + offset;
        fetched_[pass] = load(reinterpret_cast<const T*>(from), site);
      }
    } else {
#pragma unroll
      for (int pass = 0; pass < PASSES; ++pass) fetched_[pass] = 0;
    }
    from_ += stage_step_;
    left_ -= DEPTH;
  }

 private:
  const T* from_;  ///< the calling thread's first element of the next piece
  unsigned pass_bytes_, stage_step_;
  unsigned last_pass_;  ///< inside of X: those beyond load it again
  int left_;            ///< of X's columns, from its element on
  int to_;              ///< its place in the stage
  T fetched_[PASSES];
};

}  // namespace SMEM_BUILD
}  // namespace smem::gemm::simt
