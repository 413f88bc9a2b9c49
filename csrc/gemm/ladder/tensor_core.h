// tensor_core: mma.sync multiplies 16 x 16 by 16 x 8 matrices per warp instruction (sm_80 and
// newer).
//
// What it adds over double_buffered: tensor cores. One mma instruction makes 2048 products, where
// the FMAs of a warp's 32 lanes make 32, and ldmatrix loads its operands from shared memory already
// distributed over the lanes. What remains is to supply the operands fast enough:
//
//   global memory --cp.async--> 4 stages of swizzled shared memory   3 steps of K ahead
//                 --ldmatrix--> 2 sets of fragments in registers     1 mma ahead
//                 --mma.sync--> accumulators in registers
//
// All warps of a block have the same role: each loads its share of every stage and multiplies its
// own part of the tile. The swizzle keeps the copies and ldmatrix free of bank conflicts for both
// layouts of an operand (smem_layout.h); ldmatrix transposes an MN-major operand. A warp has
// 64 x 64 accumulators, and the 8 warps share a 256 x 128 tile, which needs a quarter less L2
// traffic than 128 x 128. This is its only tile; `mma` has others for outputs that it does not
// fill. float32 operands are rounded to tf32 (10 bits of mantissa) in registers, if `precision`
// allows it, with 8 values of k per instruction.
//
// Every accumulator is one chain of mma with K ascending from zero, so all M give the same bits.
// The bits differ from those of the ladder's other kernels, which add one product at a time.
//
//   Reads:  A ceil(N/128) times, B ceil(M/256) times.
//   Writes: out once.
//
// What may be changed: the sizes of MmaTile (its static_asserts check them). The order of the mma
// instructions along K decides the bits.
#pragma once

#include "device/mbarrier.h"
#include "device/target.h"
#include "gemm/kernel_table.h"
#include "gemm/smem_layout.h"
#include "gemm/warp_mma.h"

namespace smem::gemm::inline SMEM_BUILD {

/// Sizes of the block's tile of out, its stages and its grid of warps.
struct MmaTile {
#ifdef __CUDACC__
  static constexpr int TILE_M = 256, TILE_N = 128, WARPS_M = 4, WARPS_N = 2;
#else  // g++ takes minutes for the unrolled code of the large tile
  static constexpr int TILE_M = 64, TILE_N = 64, WARPS_M = 2, WARPS_N = 2;
#endif
  static constexpr int VECS_K = 4;  ///< vectors of 16 bytes along K per stage
  static constexpr int STAGES = 4;
  static constexpr int THREADS = 32 * WARPS_M * WARPS_N;
  static constexpr int WARP_M = TILE_M / WARPS_M, WARP_N = TILE_N / WARPS_N;
  static constexpr int A_BYTES = TILE_M * VECS_K * 16, B_BYTES = TILE_N * VECS_K * 16;
  static constexpr int STAGE_BYTES = A_BYTES + B_BYTES;
  static constexpr int SHARED_BYTES = STAGES * STAGE_BYTES;
  /// Accumulators that a warp's epilogue stages in shared memory at once: 16 rows.
  static constexpr int STAGING_ELEMENTS = 16 * WARP_N;

  static_assert((WARP_M & (WARP_M - 1)) == 0 && (WARP_N & (WARP_N - 1)) == 0,
                "FragmentReader combines addresses by exclusive or");
  static_assert(VECS_K % 4 == 0, "two sets of fragments, of two vectors along K each, alternate");
  static_assert(WARP_M % 16 == 0 && WARP_N % 32 == 0,
                "fragments have 16 rows, and the staging buffer swizzles 4 groups of 8 columns");
  static_assert(SHARED_BYTES <= 99 * 1024, "a block on sm_86 and sm_89 has at most 99 KiB");
  static_assert(WARPS_M * WARPS_N * STAGING_ELEMENTS * 4 <= SHARED_BYTES,
                "the epilogue reuses the stages");
};

/// A warp's accumulators, and how they are stored.
template <typename LayoutA, typename LayoutB>
struct WarpTile : WarpMma<MmaTile, LayoutA, LayoutB> {
  using Base = WarpMma<MmaTile, LayoutA, LayoutB>;
  using T = typename Base::T;
  using Base::accum, Base::m, Base::n, Base::COUNT_M, Base::COUNT_N;

  /// The offset of (row, col) in the staging buffer. Groups of 8 columns are swizzled, so that the
  /// 4 rows that half a warp writes at once are in different banks.
  __device__ __forceinline__ static int staging_offset(int row, int col) {
    return row * MmaTile::WARP_N + (col ^ row % 4 * 8);
  }

  /// Stores 16 rows at a time through the warp's own staging buffer. Neighbouring lanes then store
  /// neighbouring vectors, and the code of the epilogue is instantiated once per 16 rows instead of
  /// once per accumulator.
  __device__ __forceinline__ void store(const BlockTile<T>& block, Accumulator<T>* shared) const {
    const int lane = threadIdx.x % 32;
    Accumulator<T>* const staging = shared + threadIdx.x / 32 * MmaTile::STAGING_ELEMENTS;
#pragma unroll
    for (int i = 0; i < COUNT_M; ++i) {
#pragma unroll
      for (int j = 0; j < 2 * COUNT_N; ++j) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const Vector<Accumulator<T>, 2> pair{{accum[i][j][2 * half], accum[i][j][2 * half + 1]}};
          const int offset = staging_offset(lane / 4 + 8 * half, lane % 4 * 2 + 8 * j);
          store_vector<2>(staging + offset, pair);
        }
      }
      __syncwarp();
      constexpr int VEC = 4, VECS_PER_ROW = MmaTile::WARP_N / VEC;
#pragma unroll 1
      for (int vec = lane; vec < 16 * VECS_PER_ROW; vec += 32) {
        const int row = vec / VECS_PER_ROW, col = vec % VECS_PER_ROW * VEC;
        const auto values = load_vector<VEC>(staging + staging_offset(row, col));
        block.epilogue.template store<true>(block.row0 + m + 16 * i + row, block.col0 + n + col,
                                            values.lane);
      }
      __syncwarp();
    }
  }
};

template <typename T, bool A_K_MAJOR, bool B_K_MAJOR>
__global__ void __launch_bounds__(launch_bound(TARGET_HAS_SM80, MmaTile::THREADS), 1)
    tensor_core_kernel(const __grid_constant__ Problem problem) {
#if !defined(__CUDACC__) || __CUDA_ARCH__ >= 800
  constexpr int VEC = VECTOR_WIDTH<T>;
  constexpr int MMA_K = 2 * VEC, DEPTH = MmaTile::VECS_K * VEC;  // values of k
  using LayoutA = SmemLayout<T, A_K_MAJOR, MmaTile::TILE_M, DEPTH>;
  using LayoutB = SmemLayout<T, B_K_MAJOR, MmaTile::TILE_N, DEPTH>;
  unsigned char* const shared = dynamic_shared<unsigned char>();
  const BlockTile<T> block(problem, MmaTile::TILE_M, MmaTile::TILE_N);
  TileLoader<LayoutA, MmaTile::THREADS> load_a(block.A, block.row0);
  TileLoader<LayoutB, MmaTile::THREADS> load_b(block.B.transposed(), block.col0);

  int64_t steps_to_load = (problem.K + DEPTH - 1) / DEPTH;
  int64_t steps = steps_to_load;
  const auto next = [](int stage) { return stage + 1 == MmaTile::STAGES ? 0 : stage + 1; };
  int write_stage = 0;  // the stage to fill next
  const auto load_next = [&] {
    if (steps_to_load > 0) {
      unsigned char* const stage = shared + write_stage * MmaTile::STAGE_BYTES;
      load_a.next(reinterpret_cast<T*>(stage));
      load_b.next(reinterpret_cast<T*>(stage + MmaTile::A_BYTES));
      --steps_to_load;
      write_stage = next(write_stage);
    }
    cp_async_commit();  // also without copies, because cp_async_wait counts groups
  };
  // Afterwards the oldest stage in flight has landed for all threads.
  const auto await_stage = [] {
    cp_async_wait<MmaTile::STAGES - 2>();
    __syncthreads();
  };

  WarpTile<LayoutA, LayoutB> tile;
  typename decltype(tile)::Fragments fragments[2];
#pragma unroll 1
  for (int stage = 0; stage < MmaTile::STAGES - 1; ++stage) load_next();
  await_stage();
  const unsigned stages = shared_address(shared);
  int read_stage = 0;
  tile.read(fragments[0], stages, 0);
  for (; steps > 0; --steps) {
    load_next();  // into the stage of the previous step, which all threads have read
#pragma unroll
    for (int k = 0; k < DEPTH; k += MMA_K) {
      const bool last = k + MMA_K == DEPTH;
      if (last) {
        await_stage();
        read_stage = next(read_stage);
      }
      // The next fragments are read while the current ones are multiplied.
      const int set = k / MMA_K % 2;
      tile.read(fragments[1 - set], stages + read_stage * MmaTile::STAGE_BYTES,
                last ? 0 : k + MMA_K);
      tile.multiply(fragments[set]);
    }
  }
  __syncthreads();
  tile.store(block, reinterpret_cast<Accumulator<T>*>(shared));
#endif
}

/// The kernel for the major dimensions of both operands. An operand that is contiguous along
/// neither dimension is read by the K-major kernel.
template <typename T>
auto* tensor_core_kernel_for(const Problem& problem) {
  const bool a_k_major = problem.a.col_stride == 1 || problem.a.row_stride != 1;
  const bool b_k_major = problem.b.row_stride == 1 || problem.b.col_stride != 1;
  return a_k_major
             ? b_k_major ? tensor_core_kernel<T, true, true> : tensor_core_kernel<T, true, false>
         : b_k_major ? tensor_core_kernel<T, false, true>
                     : tensor_core_kernel<T, false, false>;
}

template <typename T>
void launch_tensor_core(const Problem& problem, const Device& device) {
  launch("tensor_core", tensor_core_kernel_for<T>(problem),
         grid_of_tiles(problem, MmaTile::TILE_M, MmaTile::TILE_N, {MmaTile::THREADS},
                       MmaTile::SHARED_BYTES),
         device, problem);
}

/// The kernel for K-major operands.
template <typename T>
const void* tensor_core_function() {
  return reinterpret_cast<const void*>(tensor_core_kernel<T, true, true>);
}

}  // namespace smem::gemm::inline SMEM_BUILD
