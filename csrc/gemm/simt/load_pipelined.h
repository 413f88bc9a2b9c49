// The pipelined loader, for operands of any layout: a thread loads single elements into registers,
// and stores them into a stage of shared memory one step later, where the fragments need them.
//
// A cp.async of single elements takes as long as one of 16 bytes per thread; a load and a store
// take a quarter of that. This loader hides the latency of one step only, so it suits tiles whose
// threads make many products per step.
#pragma once

#include "device/tile.h"
#include "device/vector.h"
#include "gemm/simt/tile_config.h"

namespace smem::gemm::simt::inline SMEM_BUILD {

/// Moves tiles of EXTENT x DEPTH of an operand into stages: stage(k, mn) = X(mn0 + mn, k), with
/// zeros beyond X's columns. Elements beyond X's rows are undefined; they affect no element that is
/// stored.
template <typename T, int EXTENT, int DEPTH, int THREADS>
class PipelinedLoader {
  static constexpr int STEP = THREADS / DEPTH;  ///< along mn, from pass to pass
  static constexpr int PASSES = (EXTENT + STEP - 1) / STEP;

 public:
  static constexpr bool K_MAJOR = false;
  /// The pitch of a MultistageLoader, except that the last pass may exceed EXTENT.
  static constexpr int PITCH = PASSES * STEP + 4;
  using Stage = Tile<T, DEPTH, PITCH>;
  static_assert(THREADS % DEPTH == 0 && PITCH % VECTOR_WIDTH<T> == 0, "rows are aligned");
  static_assert(MAX_STRIDE_VIA_REGISTERS * STEP * sizeof(T) <= UINT32_MAX,
                "a pass's stride in bytes has 32 bits");

  /// Loads X's rows from mn0 on and its columns from k_begin on.
  __device__ __forceinline__ PipelinedLoader(const Matrix<const T>& X, int64_t mn0,
                                             int64_t k_begin) {
    const auto thread = static_cast<int>(threadIdx.x);
    const bool k_fastest = X.col_stride < X.row_stride;
    const int first = k_fastest ? thread / DEPTH : thread % STEP;
    const int k = k_fastest ? thread % DEPTH : thread / STEP;
    const int64_t last = lesser(X.rows - mn0, int64_t{EXTENT}) - 1;
    const int64_t mn = lesser(int64_t{first}, last);
    smem_offset_ = k * PITCH + first;
    last_pass_ = static_cast<unsigned>(last - mn) / STEP;
    k_remaining_ = static_cast<int>(X.cols - k_begin) - k;
    pass_bytes_ = static_cast<unsigned>(X.row_stride) * unsigned{STEP * sizeof(T)};
    stage_stride_ = static_cast<unsigned>(X.col_stride) * DEPTH;
    from_ = X.data + (mn0 + mn) * X.row_stride + (k_begin + k) * X.col_stride;
    opaque(pass_bytes_);
    opaque(stage_stride_);
    opaque(smem_offset_);
  }

  /// Always true: rows beyond X need no special case.
  __device__ __forceinline__ bool all_rows_valid() const { return true; }

  /// Stores the tile that was loaded into registers.
  __device__ __forceinline__ void store_to_stage(Stage& stage) const {
    T* const to = stage.at(0, 0) + smem_offset_;
#pragma unroll
    for (int pass = 0; pass < PASSES; ++pass) to[pass * STEP] = registers_[pass];
  }

  /// Starts to load the next tile into registers.
  __device__ __forceinline__ void load_to_registers() {
    opaque(last_pass_);  // otherwise nvcc keeps the offsets of all passes, mostly in local memory
    if (k_remaining_ > 0) {
#pragma unroll
      for (unsigned pass = 0; pass < PASSES; ++pass) {
        const uint64_t offset = uint64_t{lesser(pass, last_pass_)} * pass_bytes_;
        const char* const from = reinterpret_cast<const char*>(from_) + offset;
        registers_[pass] = *reinterpret_cast<const T*>(from);
      }
    } else {
#pragma unroll
      for (int pass = 0; pass < PASSES; ++pass) registers_[pass] = 0;
    }
    from_ += stage_stride_;
    k_remaining_ -= DEPTH;
  }

 private:
  const T* from_;  ///< the calling thread's first element of the next tile
  unsigned pass_bytes_, stage_stride_;
  unsigned last_pass_;  ///< the last one inside X; later passes load its element again
  int k_remaining_;     ///< columns of X from the thread's element on
  int smem_offset_;     ///< of that element in a stage
  T registers_[PASSES];
};

}  // namespace smem::gemm::simt::inline SMEM_BUILD
