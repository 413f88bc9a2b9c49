// long_columns: lines that lie side by side, as `columns` splits them, but by a cluster of up to
// eight blocks: 512 elements of 16 lines a block, or 1024, so 8192 in all. What a block has found
// of its lines the others read in its shared memory. So an operand is read once, where `extremes`
// and `turned` read it twice. On sm_90 alone, and not under cpu_emulator.
//
// The extremes are combined by a thread a line: by shuffles in all warps, as in `columns`, nvcc put
// them into local memory, and it took twice as long.
#include "device/cluster.h"
#include "device/dsmem.h"
#include "device/pdl.h"
#include "device/target.h"
#include "gemm/fp16x3/split_kernels.h"
#include "gemm/fp16x3/split_share.h"
#include "gemm/fp16x3/split_shared_minmax.h"

namespace smem::gemm::fp16x3::split {
inline namespace SMEM_BUILD {
namespace {

constexpr int MOST_BLOCKS = 8;  ///< of a cluster, on any sm_90
/// Of an SM, by its registers.
constexpr int blocks_at_once(int threads) { return threads > 256 ? 2 : 3; }

/// Of a line, a block.
constexpr int length_of(int threads) { return threads / ACROSS * OWN; }
static_assert(length_of(512) * MOST_BLOCKS == LONGEST_LONG_COLUMN, "blocks for all elements");

struct LongColumns {
  Split split;
  int64_t padded_length;
  uint32_t part_tiles;  ///< of LINES lines, those of a part
  uint32_t blocks;      ///< of a cluster
};

template <bool WIDE, int THREADS>
__global__ void __launch_bounds__(launch_bound(TARGET_HAS_SM90A, THREADS), blocks_at_once(THREADS))
    long_columns_kernel(const __grid_constant__ LongColumns columns) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  __shared__ SharedExtremes<THREADS / 32, LINES> of_warps;
  __shared__ Tile<Extremes, 1, LINES> of_block;
  __shared__ Tile<int, 1, LINES> scales;
  launch_dependent_grids();
  const int thread = threadIdx.x, in_tile = thread % ACROSS * RUN;
  const uint32_t cluster = blockIdx.x / columns.blocks, rank = block_rank_in_cluster();
  const uint32_t index = cluster / columns.part_tiles;
  const int64_t first_line = int64_t{cluster - index * columns.part_tiles} * LINES;
  const Share<WIDE> share(columns.split, Part(columns.split, index), index, first_line + in_tile,
                          static_cast<int>(rank) * length_of(THREADS) + thread / ACROSS * OWN);

  Extremes of_lines[RUN];
  share.find_extremes(of_lines);
  if (thread % 32 < ACROSS) of_warps.store(thread / 32, in_tile, of_lines);
  __syncthreads();
  if (thread < LINES) of_block(0, thread) = of_warps.of_all(thread);
  cluster_sync();
  if (thread < LINES) {
    Extremes of_line;
#pragma unroll 8
    for (uint32_t block = 0; block < columns.blocks; ++block) {
      of_line.add(*map_shared_rank(of_block.at(0, thread), block));
    }
    scales(0, thread) = scale_of(of_line).code();
  }
  cluster_arrive();
  __syncthreads();
  share.store_halves(load_vector<RUN>(scales.at(0, in_tile)), columns.padded_length);
  cluster_wait();
  wait_on_dependent_grids();
#endif
}

template <int THREADS>
void launch_long_columns(const Split& split, const Device& device, bool launch_with_pdl) {
  const int64_t tiles = ceil_div(split.lines, LINES);
  const int64_t blocks = ceil_div(split.part_length, length_of(THREADS));
  if (split.all_parts() == 0) return;
  cudaLaunchAttribute attributes[2]{};
  attributes[0].id = cudaLaunchAttributeClusterDimension;
  attributes[0].val.clusterDim = {static_cast<unsigned>(blocks), 1, 1};
  attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[1].val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(tiles * split.all_parts() * blocks));
  config.blockDim = dim3(THREADS);
  config.stream = static_cast<cudaStream_t>(device.stream);
  config.attrs = attributes;
  config.numAttrs = launch_with_pdl ? 2 : 1;
  const bool wide = runs_are_wide(split, split.line_stride, split.lines, split.stride);
  const LongColumns arguments{split, split.padded_length(), static_cast<uint32_t>(tiles),
                              static_cast<uint32_t>(blocks)};
  const auto kernel =
      wide ? long_columns_kernel<true, THREADS> : long_columns_kernel<false, THREADS>;
  check_launch(cudaLaunchKernelEx(&config, kernel, arguments), "split_long_columns");
}

}  // namespace

bool has_clusters(const Device& device) { return device.runs_sm90a(); }

void long_columns(const Split& split, const Device& device, bool launch_with_pdl) {
  if (split.part_length <= length_of(256) * MOST_BLOCKS) {
    launch_long_columns<256>(split, device, launch_with_pdl);
  } else {
    launch_long_columns<512>(split, device, launch_with_pdl);
  }
}

}  // namespace SMEM_BUILD
}  // namespace smem::gemm::fp16x3::split
