// The work tiles of a block whose operands are floats with rows that begin anywhere. A word of a
// raw stage is an element wherever its row begins, so nothing is shifted:
//
//   global memory --cp.async--> raw stages, rows as they lie in memory   stages - 1 k-tiles ahead
//                 --ld.shared-> fragments, rounded to tf32 --mma.sync--> accumulators
//
// Behind the last k-tile of a work tile come those of the block's next one, which are copied during
// the epilogue.
#pragma once

#include "gemm/sm80/mainloop_unaligned.h"

namespace smem::gemm::sm80::inline SMEM_BUILD {

/// FragmentReader for the raw stages of an operand.
template <typename Layout, MmaOperand OPERAND>
class RawFragmentReader {
  using T = typename Layout::Element;
  static constexpr int SIZE = sizeof(T), PITCH = RAW_PITCH<Layout>, VEC = Layout::VEC;
  static constexpr int MN_STRIDE = Layout::K_MAJOR ? PITCH : SIZE,
                       K_STRIDE = Layout::K_MAJOR ? SIZE : PITCH;

 public:
  /// The warp's rows begin at `mn0` of tiles of which the first begins at `from`, with rows `pitch`
  /// bytes apart. All rows of a lane begin at the same place within a vector, since they are 4
  /// apart, or 8.
  __device__ __forceinline__ RawFragmentReader(int mn0, const T* from, uint32_t pitch) {
    const int lane = threadIdx.x % 32, mn = mn0 + lane / 4, k = lane % 4;
    const int row = Layout::K_MAJOR ? mn : k;
    const auto* const row_begin =
        reinterpret_cast<const unsigned char*>(from) + uint64_t{pitch} * row;
    offset_ = mn * MN_STRIDE + k * K_STRIDE + misalignment(row_begin);
  }

  /// Reads X from (mn, k) on, where `mn` counts from the warp's first row.
  __device__ __forceinline__ void read(unsigned (&fragment)[4], const unsigned char* raw_stage,
                                       int mn, int k) const {
    const unsigned char* const from = raw_stage + offset_;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int first = i % 2, second = i / 2;
      const int part_mn = mn + 8 * (OPERAND == MmaOperand::a ? first : second);
      const int part_k = k + VEC * (OPERAND == MmaOperand::a ? second : first);
      fragment[i] = round_to_tf32(
          *reinterpret_cast<const unsigned*>(from + part_mn * MN_STRIDE + part_k * K_STRIDE));
    }
  }

 private:
  int offset_;  ///< of the lane's first element in a raw stage
};

template <typename T, typename Shape, bool A_K_MAJOR, bool B_K_MAJOR>
class UnalignedTf32Mainloop {
  static constexpr int MMA_K = 2 * VECTOR_WIDTH<T>, TILE_K = Shape::template TILE_K<T>;
  using Stages = UnalignedStages<T, Shape, A_K_MAJOR, B_K_MAJOR>;
  using LayoutA = typename Stages::LayoutA;
  using LayoutB = typename Stages::LayoutB;

 public:
  using Mma = WarpMma<Shape, LayoutA, LayoutB>;

  /// As UnalignedMainloop::run.
  template <typename Store>
  __device__ __forceinline__ static void run(unsigned char* shared, const MmaParams<T>& params,
                                             const Store& store) {
    const bool loads = Shape::loads(), multiplies = Shape::multiplies();
    Stages stages(shared, params);
    if (loads) stages.copy_first();
    int stage = 0;
#pragma unroll 1
    for (uint32_t i = blockIdx.x; i < params.scheduler.work_tiles; i += gridDim.x) {
      const WorkTileInfo work = work_tile_at(params.scheduler, i);
      Mma mma;
      const Readers readers(params, work, mma);
#pragma unroll 1
      for (int k_tile = 0; k_tile < work.k_tiles; ++k_tile) {
        // Afterwards the stage has landed for all threads, and they have read the one before.
        cp_async_wait<Shape::STAGES - 2>();
        __syncthreads();
        if (multiplies) {
          const unsigned char* const from =
              shared + Shape::RAW_STAGES_OFFSET + stage * Shape::RAW_STAGE_BYTES;
          multiply_k_tile<TILE_K, MMA_K>(
              mma, [&](auto& fragments, int k) { readers.read(fragments, from, k); });
        }
        if (loads) stages.copy_next();
        stage = Stages::next(stage);
      }
      if (multiplies) store(mma, work, shared);
    }
  }

 private:
  using Fragments = typename Mma::Fragments;

  struct Readers {
    RawFragmentReader<LayoutA, MmaOperand::a> a;
    RawFragmentReader<LayoutB, MmaOperand::b> b;

    __device__ __forceinline__ Readers(const MmaParams<T>& params, const WorkTileInfo& work,
                                       const Mma& mma)
        : a(mma.m,
            params.a.template at<A_K_MAJOR>(work.row * Shape::TILE_M, work.first_k_tile * TILE_K,
                                            work.batch),
            params.a.pitch),
          b(mma.n,
            params.b.template at<B_K_MAJOR>(work.col * Shape::TILE_N, work.first_k_tile * TILE_K,
                                            work.batch),
            params.b.pitch) {}

    __device__ __forceinline__ void read(Fragments& fragments, const unsigned char* raw_stage,
                                         int k) const {
#pragma unroll
      for (int i = 0; i < Mma::COUNT_M; ++i) a.read(fragments.a[i], raw_stage, 16 * i, k);
#pragma unroll
      for (int j = 0; j < Mma::COUNT_N; ++j) {
        b.read(fragments.b[j], raw_stage + Shape::A_RAW_BYTES, 16 * j, k);
      }
    }
  };
};

}  // namespace smem::gemm::sm80::inline SMEM_BUILD
