// mn_major_cluster: splits an MN-major operand as `mn_major` does, but with a cluster of up to
// eight blocks: 512 or 1024 elements of 16 rows per block, so up to 8192 in all. The blocks read
// each other's AbsMinMax through distributed shared memory. So an operand is read once, where the
// two launches `minmax` and `mn_major_pass2` read it twice. For sm_90 only, and not under
// cpu_emulator.
//
//   each block: load Fragments -> AbsMinMax of its share of K -> shared memory
//   cluster_sync               -> AbsMinMax of all blocks (DSMEM) -> RowScales
//   each block: hi, lo of its share to memory
//
// One thread per row combines the results of the blocks. When all warps did so by shuffles, as in
// `mn_major`, nvcc put them into local memory, and the kernel took twice as long.
#include "device/cluster.h"
#include "device/dsmem.h"
#include "device/pdl.h"
#include "device/target.h"
#include "gemm/fp16x3/split_fragment.h"
#include "gemm/fp16x3/split_kernels.h"
#include "gemm/fp16x3/split_shared_minmax.h"

namespace smem::gemm::fp16x3::split::inline SMEM_BUILD {
namespace {

constexpr int MAX_CLUSTER_SIZE = 8;  ///< on any sm_90
/// Blocks per SM for which there are registers.
constexpr int min_blocks_per_sm(int threads) { return threads > 256 ? 2 : 3; }

/// Elements along K per block.
constexpr int block_k(int threads) { return threads / THREADS_MN * THREAD_K; }
static_assert(block_k(512) * MAX_CLUSTER_SIZE == MN_MAJOR_CLUSTER_MAX_K, "blocks for all of K");

struct ClusterSplitParams {
  SplitOperand operand;
  int64_t padded_k;
  uint32_t slice_tiles;  ///< tiles of TILE_MN rows per k slice
  uint32_t cluster_size;
};

template <bool VECTORIZED, int THREADS>
__global__ void __launch_bounds__(launch_bound(TARGET_HAS_SM90A, THREADS),
                                  min_blocks_per_sm(THREADS))
    split_mn_major_cluster_kernel(const __grid_constant__ ClusterSplitParams params) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  __shared__ SharedMinMax<THREADS / 32, TILE_MN> warp_minmax;
  __shared__ Tile<AbsMinMax, 1, TILE_MN> block_minmax;
  __shared__ Tile<int, 1, TILE_MN> scales;
  launch_dependent_grids();
  const int thread = threadIdx.x, row_in_tile = thread % THREADS_MN * VEC_SIZE;
  const uint32_t cluster = blockIdx.x / params.cluster_size, rank = block_rank_in_cluster();
  const uint32_t slice_index = cluster / params.slice_tiles;
  const int64_t tile_row = int64_t{cluster - slice_index * params.slice_tiles} * TILE_MN;
  const Fragment<VECTORIZED> fragment(
      params.operand, KSlice(params.operand, slice_index), slice_index, tile_row + row_in_tile,
      static_cast<int>(rank) * block_k(THREADS) + thread / THREADS_MN * THREAD_K);

  AbsMinMax minmax[VEC_SIZE];
  fragment.warp_minmax(minmax);
  if (thread % 32 < THREADS_MN) warp_minmax.store(thread / 32, row_in_tile, minmax);
  __syncthreads();
  if (thread < TILE_MN) block_minmax(0, thread) = warp_minmax.over_warps(thread);
  cluster_sync();
  if (thread < TILE_MN) {
    AbsMinMax row_minmax;
#pragma unroll 8
    for (uint32_t block = 0; block < params.cluster_size; ++block) {
      row_minmax.merge(*map_shared_rank(block_minmax.at(0, thread), block));
    }
    scales(0, thread) = row_scale_of(row_minmax).pack();
  }
  cluster_arrive();
  __syncthreads();
  fragment.store_hi_lo(load_vector<VEC_SIZE>(scales.at(0, row_in_tile)), params.padded_k);
  cluster_wait();
  wait_on_dependent_grids();
#endif
}

template <int THREADS>
void launch_mn_major_cluster(const SplitOperand& operand, const Device& device,
                             bool launch_with_pdl) {
  const int64_t tiles = ceil_div(operand.mn, TILE_MN);
  const int64_t cluster_size = ceil_div(operand.k_slice_length, block_k(THREADS));
  const bool vectorized = can_vectorize_along_mn(operand);
  smem::launch("split_mn_major_cluster",
               vectorized ? split_mn_major_cluster_kernel<true, THREADS>
                          : split_mn_major_cluster_kernel<false, THREADS>,
               {.blocks = tiles * operand.total_k_slices() * cluster_size,
                .threads = {THREADS},
                .launch_with_pdl = launch_with_pdl,
                .cluster_size = static_cast<unsigned>(cluster_size)},
               device,
               ClusterSplitParams{
                   .operand = operand,
                   .padded_k = operand.padded_k(),
                   .slice_tiles = static_cast<uint32_t>(tiles),
                   .cluster_size = static_cast<uint32_t>(cluster_size),
               });
}

}  // namespace

bool has_clusters(const Device& device) { return device.runs_sm90a(); }

void mn_major_cluster(const SplitOperand& operand, const Device& device, bool launch_with_pdl) {
  if (operand.k_slice_length <= block_k(256) * MAX_CLUSTER_SIZE) {
    launch_mn_major_cluster<256>(operand, device, launch_with_pdl);
  } else {
    launch_mn_major_cluster<512>(operand, device, launch_with_pdl);
  }
}

}  // namespace smem::gemm::fp16x3::split::inline SMEM_BUILD
