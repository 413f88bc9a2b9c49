// minmax: the first of two launches that split an MN-major operand with a long K. It finds the
// AbsMinMax of each chunk of each row; `mn_major_pass2` combines them and splits.
//
// A warp reads 512 bytes at a time, one element of each of 128 neighbouring rows, and steps along
// K; the block's eight warps alternate, and their results meet in shared memory. A row's AbsMinMax
// per chunk goes to memory, 16 bytes for 1 KiB or more that was read. This needs no atomics and no
// memory to be cleared beforehand.
//
// The chunks of a row are interleaved: each has eight elements in turn. So all blocks together move
// along K, and what they read last, and the L2 cache still holds, are the rows' ends, where
// `mn_major_pass2` begins.
#include "device/pdl.h"
#include "gemm/fp16x3/scale.h"
#include "gemm/fp16x3/split_kernels.h"
#include "gemm/fp16x3/split_shared_minmax.h"

namespace smem::gemm::fp16x3::split::inline SMEM_BUILD {
namespace {

constexpr int MINMAX_WARPS = 8, MINMAX_THREADS = 32 * MINMAX_WARPS;
constexpr int MINMAX_LOADS = 8;  ///< loads in flight per thread
/// Without this bound nvcc saves registers and has two loads in flight.
constexpr int MINMAX_MIN_BLOCKS_PER_SM = 4;
static_assert(sizeof(AbsMinMax) == MINMAX_BYTES, "the workspace has room for them");
static_assert(MINMAX_TILE_MN == 32 * VEC_SIZE, "a warp's loads are as wide as a block's rows");
static_assert(MINMAX_TILE_MN <= MINMAX_THREADS, "a thread stores the result of one row");

struct MinMaxParams {
  SplitOperand operand;
  uint32_t tiles;   ///< tiles of MINMAX_TILE_MN rows per k slice
  uint32_t chunks;  ///< per row of a k slice
};

template <bool VECTORIZED>
__global__ void __launch_bounds__(MINMAX_THREADS, MINMAX_MIN_BLOCKS_PER_SM)
    split_minmax_kernel(const __grid_constant__ MinMaxParams params) {
  __shared__ SharedMinMax<MINMAX_WARPS, MINMAX_TILE_MN> warp_minmax;
  launch_dependent_grids();
  const SplitOperand& operand = params.operand;
  const uint32_t tile = blockIdx.x % params.tiles, chunk_index = blockIdx.x / params.tiles;
  const uint32_t chunk = chunk_index % params.chunks;
  const KSlice slice(operand, chunk_index / params.chunks);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int64_t tile_row = int64_t{tile} * MINMAX_TILE_MN, row = tile_row + lane * VEC_SIZE;
  const int64_t mn_stride = VECTORIZED ? 1 : operand.mn_stride;
  const int64_t first = chunk * MINMAX_WARPS + warp, k_step = params.chunks * MINMAX_WARPS;
  const int64_t src_step = k_step * operand.k_stride;
  const float* src = slice.src + row * mn_stride + first * operand.k_stride;

  AbsMinMax minmax[VEC_SIZE];
  for (int64_t k = first; k < slice.length; k += MINMAX_LOADS * k_step) {
    FloatVec vecs[MINMAX_LOADS];
#pragma unroll
    for (int i = 0; i < MINMAX_LOADS; ++i) {
      const bool exists = k + i * k_step < slice.length;
      vecs[i] = load_vec<VECTORIZED>(src, mn_stride, exists ? operand.mn - row : 0);
      src += src_step;
    }
#pragma unroll
    for (int i = 0; i < MINMAX_LOADS * VEC_SIZE; ++i) {
      minmax[i % VEC_SIZE].include(vecs[i / VEC_SIZE].lane[i % VEC_SIZE]);
    }
  }
  warp_minmax.store(warp, lane * VEC_SIZE, minmax);
  __syncthreads();

  const int stored = threadIdx.x;
  if (stored >= MINMAX_TILE_MN || tile_row + stored >= operand.mn) return;
  auto* const to = static_cast<AbsMinMax*>(operand.minmax) + chunk_index * operand.mn + tile_row;
  to[stored] = warp_minmax.over_warps(stored);
  wait_on_dependent_grids();
}

}  // namespace

void minmax(const SplitOperand& operand, const Device& device, bool launch_with_pdl) {
  const int64_t tiles = ceil_div(operand.mn, MINMAX_TILE_MN);
  const int64_t chunks = ceil_div(operand.k_slice_length, minmax_chunk_length(operand));
  const bool vectorized = can_vectorize_along_mn(operand);
  smem::launch("split_minmax", vectorized ? split_minmax_kernel<true> : split_minmax_kernel<false>,
               {tiles * chunks * operand.total_k_slices(), {MINMAX_THREADS}, 0, launch_with_pdl},
               device,
               MinMaxParams{
                   .operand = operand,
                   .tiles = static_cast<uint32_t>(tiles),
                   .chunks = static_cast<uint32_t>(chunks),
               });
}

}  // namespace smem::gemm::fp16x3::split::inline SMEM_BUILD
