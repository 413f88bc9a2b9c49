// The mainloop of a work tile whose fragments come from global memory without stages in shared
// memory: from operands that are K-major or MN-major, with rows that begin anywhere.
//
//   global memory --ld.global--> fragments of STEPS mma steps in registers
//                 --mma.sync---> accumulators
//
// The other warps of the SM hide the latency of the loads.
//
// It is for outputs of few rows or columns, where the warps of a block share little of what they
// load, and for problems so small that the way through a pipeline takes longer than the product: a
// warp waits for nobody's loads but its own.
#pragma once

#include "device/global_load.h"
#include "gemm/sm80/params.h"
#include "gemm/warp_mma.h"

namespace smem::gemm::sm80::inline SMEM_BUILD {

/// Loads fragments of an operand X(mn, k): COUNT of 8 along mn, below one another, by two vectors
/// of 16 bytes along k.
template <typename T, int COUNT>
class FragmentLoader {
  static constexpr int SIZE = sizeof(T), PER_WORD = 4 / SIZE;  ///< elements in a register, along k
  static constexpr int VEC = VECTOR_WIDTH<T>;

 public:
  /// Of a tile that begins at X(mn, k) and has `valid_mn` x `valid_k` elements within X, the warp's
  /// fragments from `warp_mn` on.
  __device__ __forceinline__ FragmentLoader(const LoadedOperand<T>& operand, int64_t mn, int64_t k,
                                            int batch, int warp_mn, int valid_mn, int valid_k) {
    const int lane = threadIdx.x % 32, lane_mn = warp_mn + lane / 4, lane_k = lane % 4 * PER_WORD;
    const bool k_major = operand.major == Major::K;
    const int64_t pitch = operand.pitch, mn_stride = k_major ? pitch : SIZE;
    k_stride_ = k_major ? SIZE : pitch;
    vec_stride_ = VEC * k_stride_;
    fragment_stride_ = 8 * mn_stride;
    from_ = reinterpret_cast<const char*>(operand.data + batch * operand.batch_stride) +
            (mn + lane_mn) * mn_stride + (k + lane_k) * k_stride_;
    mn_left_ = valid_mn - lane_mn;
    k_left_ = valid_k - lane_k;
    has_pairs_ = k_major && pitch % 4 == 0 && valid_k % 2 == 0 &&
                 reinterpret_cast<uintptr_t>(from_) % 4 == 0;
  }

  /// Two elements along k are an aligned word, wherever X has both.
  __device__ __forceinline__ bool has_pairs() const { return has_pairs_; }

  /// Loads the next vectors along k; beyond X they are zeros. words[i][j]: fragment i, vector j.
  template <bool PAIRS>
  __device__ __forceinline__ void load(unsigned (&words)[COUNT][2]) {
    const char* from = from_;
#pragma unroll
    for (int i = 0; i < COUNT; ++i) {
      const int left = 8 * i < mn_left_ ? k_left_ : 0;
      words[i][0] = load_word<PAIRS>(from, left);
      words[i][1] = load_word<PAIRS>(from + vec_stride_, left - VEC);
      from += fragment_stride_;
    }
    from_ += 2 * vec_stride_;
    k_left_ -= 2 * VEC;
  }

 private:
  template <bool PAIRS>
  __device__ __forceinline__ unsigned load_word(const char* from, int left) const {
    if constexpr (PER_WORD == 1) {
      return round_to_tf32(global_load<4>(from, left > 0));
    } else if constexpr (PAIRS) {
      return global_load<4>(from, left > 0);
    } else {
      return global_load<2>(from, left > 0) | global_load<2>(from + k_stride_, left > 1) << 16;
    }
  }

  const char* from_;  ///< the lane's first element of the next vectors
  int64_t k_stride_, vec_stride_, fragment_stride_;  ///< in bytes
  int mn_left_, k_left_;                             ///< elements from there to the end of X
  bool has_pairs_;
};

template <typename T, typename Shape>
class LdgMainloop {
  static constexpr int MMA_K = 2 * VECTOR_WIDTH<T>, TILE_K = Shape::template TILE_K<T>;
  static constexpr int STEPS = Shape::C.ldg_steps();
  using Layout = SmemLayout<T, true, 16, TILE_K>;  // of no tile: WarpMma reads from none

 public:
  using Mma = WarpMma<Shape, Layout, Layout>;

  __device__ __forceinline__ LdgMainloop(unsigned char*, const MmaParams<T>& params,
                                         const WorkTileInfo& work)
      : params_(params), work_(work) {}

  /// Adds the products of the work tile.
  __device__ __forceinline__ void run(Mma& mma) const {
    const int first_k = work_.first_k_tile * TILE_K;
    const int valid_k = min(params_.K - first_k, work_.k_tiles * TILE_K);
    const int row0 = work_.row * Shape::TILE_M, col0 = work_.col * Shape::TILE_N;
    LoadA load_a(params_.a, row0, first_k, work_.batch, mma.m, params_.M - row0, valid_k);
    LoadB load_b(params_.b, col0, first_k, work_.batch, mma.n, params_.N - col0, valid_k);
    if constexpr (sizeof(T) == 4) {
      run_as<false, false>(mma, load_a, load_b, valid_k);
    } else if (load_a.has_pairs()) {
      load_b.has_pairs() ? run_as<true, true>(mma, load_a, load_b, valid_k)
                         : run_as<true, false>(mma, load_a, load_b, valid_k);
    } else {
      load_b.has_pairs() ? run_as<false, true>(mma, load_a, load_b, valid_k)
                         : run_as<false, false>(mma, load_a, load_b, valid_k);
    }
  }

 private:
  using LoadA = FragmentLoader<T, 2 * Mma::COUNT_M>;
  using LoadB = FragmentLoader<T, 2 * Mma::COUNT_N>;
  struct Words {
    unsigned a[2 * Mma::COUNT_M][2], b[2 * Mma::COUNT_N][2];
  };

  /// The loop is compiled for each kind of loads: a branch in it would end with all its loads.
  template <bool A_PAIRS, bool B_PAIRS>
  __device__ __forceinline__ static void run_as(Mma& mma, LoadA& load_a, LoadB& load_b,
                                                int valid_k) {
#pragma unroll 1
    for (int k = 0; k < valid_k; k += STEPS * MMA_K) {
      Words words[STEPS];
#pragma unroll
      for (int step = 0; step < STEPS; ++step) {
        load_a.template load<A_PAIRS>(words[step].a);
        load_b.template load<B_PAIRS>(words[step].b);
      }
#pragma unroll
      for (int step = 0; step < STEPS; ++step) {
        if (k + step * MMA_K < valid_k) multiply(mma, words[step]);
      }
    }
  }

  __device__ __forceinline__ static void multiply(Mma& mma, const Words& words) {
    typename Mma::Fragments fragments;
#pragma unroll
    for (int i = 0; i < Mma::COUNT_M; ++i) {
#pragma unroll
      for (int quarter = 0; quarter < 4; ++quarter) {
        fragments.a[i][quarter] = words.a[2 * i + quarter % 2][quarter / 2];
      }
    }
#pragma unroll
    for (int j = 0; j < Mma::COUNT_N; ++j) {
#pragma unroll
      for (int quarter = 0; quarter < 4; ++quarter) {
        fragments.b[j][quarter] = words.b[2 * j + quarter / 2][quarter % 2];
      }
    }
    mma.multiply(fragments);
  }

  const MmaParams<T>& params_;
  const WorkTileInfo& work_;
};

}  // namespace smem::gemm::sm80::inline SMEM_BUILD
