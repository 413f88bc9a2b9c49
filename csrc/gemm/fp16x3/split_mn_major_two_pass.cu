// mn_major_pass2: the second of two launches that split an MN-major operand with a long K; `minmax`
// (split_minmax.cu) is the first. A block splits a tile of 64 rows by 128 elements of K.
//
//   load 8 elements of 4 rows per thread, 16 bytes at a time along MN
//   combine the chunks' AbsMinMax -> RowScales in shared memory
//   transpose by naming registers, split: 16 bytes of hi and of lo per row -> shared memory
//   read along rows, write 64 bytes of hi, 64 of lo and so on per row -> memory
//
// Shared memory only regroups the results, so that all accesses to memory are whole sectors and 16
// bytes per thread.
//
// It is swizzled: a row's vector u of 8 fp16 numbers is at slot u ^ row / 4 % 8. The 8 lanes whose
// accesses the banks serve together write one vector of every fourth row, which the XOR puts in 8
// slots, and read 8 vectors of one row.
//
// Blocks traverse the operand from its end, as the L2 cache may still hold what `minmax` read last.
#include "device/pdl.h"
#include "device/tile.h"
#include "gemm/fp16x3/scale.h"
#include "gemm/fp16x3/split_kernels.h"

namespace smem::gemm::fp16x3::split::inline SMEM_BUILD {
namespace {

constexpr int PASS2_THREADS = 256;
constexpr int PASS2_TILE_MN = 64, PASS2_TILE_K = 128;
constexpr int HALF_VEC = 8, HALF_VECS = PASS2_TILE_K / HALF_VEC;  ///< fp16 per 16 bytes; per row
constexpr int SWIZZLE_SLOTS = 8;                             ///< slots of 16 bytes in the 32 banks
constexpr int REDUCE_LANES = PASS2_THREADS / PASS2_TILE_MN;  ///< lanes that combine a row's chunks
constexpr int CHUNKS_IN_FLIGHT = 4;
static_assert(PASS2_TILE_MN / VEC_SIZE * HALF_VECS == PASS2_THREADS,
              "a thread splits one HALF_VEC of each of VEC_SIZE rows");
static_assert(HALF_VECS % SWIZZLE_SLOTS == 0, "the XOR leaves a vector in its row");
static_assert(PASS2_TILE_MN % (PASS2_THREADS / HALF_VECS) == 0, "all threads store equally often");

struct Pass2Params {
  SplitOperand operand;
  int64_t padded_k;
  uint32_t tiles_mn, tiles_k;  ///< per k slice
  uint32_t chunks;             ///< per row of a k slice
};

/// hi or lo of a tile, swizzled.
struct SwizzledTile {
  Tile<half, PASS2_TILE_MN, PASS2_TILE_K> elements;

  __device__ __forceinline__ half* at(unsigned row, unsigned vec) {
    const unsigned slot = vec ^ row / VEC_SIZE % SWIZZLE_SLOTS;
    return elements.at(static_cast<int>(row), static_cast<int>(slot * HALF_VEC));
  }
};

template <bool VECTORIZED>
__global__ void __launch_bounds__(PASS2_THREADS, 3)
    split_mn_major_pass2_kernel(const __grid_constant__ Pass2Params params) {
  __shared__ SwizzledTile hi, lo;
  __shared__ Tile<int, 1, PASS2_TILE_MN> scales;
  launch_dependent_grids();
  const SplitOperand& operand = params.operand;
  const uint32_t block = gridDim.x - 1 - blockIdx.x, tile_row = block / params.tiles_mn;
  const int64_t mn_begin = int64_t{block % params.tiles_mn} * PASS2_TILE_MN;
  const int64_t k_begin = int64_t{tile_row % params.tiles_k} * PASS2_TILE_K,
                slice_index = tile_row / params.tiles_k;
  const KSlice slice(operand, tile_row / params.tiles_k);

  const int row = static_cast<int>(threadIdx.x) % (PASS2_TILE_MN / VEC_SIZE) * VEC_SIZE;
  const int vec = static_cast<int>(threadIdx.x) / (PASS2_TILE_MN / VEC_SIZE);
  const int64_t rows_left = operand.mn - mn_begin - row;
  const int64_t k_left = slice.length - k_begin - vec * HALF_VEC;
  const int64_t mn_stride = VECTORIZED ? 1 : operand.mn_stride;
  const float* const src =
      slice.src + (mn_begin + row) * mn_stride + (k_begin + vec * HALF_VEC) * operand.k_stride;
  FloatVec vecs[HALF_VEC];
#pragma unroll
  for (int i = 0; i < HALF_VEC; ++i) {
    vecs[i] =
        load_vec<VECTORIZED>(src + i * operand.k_stride, mn_stride, i < k_left ? rows_left : 0);
  }

  // The loads of the chunks' results are in flight together, beside those above.
  wait_on_dependent_grids();
  const int reduced_row = static_cast<int>(threadIdx.x) / REDUCE_LANES;
  const int lane = threadIdx.x % REDUCE_LANES;
  const bool row_exists = mn_begin + reduced_row < operand.mn;
  const AbsMinMax* chunk_minmax = static_cast<const AbsMinMax*>(operand.minmax) +
                                  (slice_index * params.chunks + lane) * operand.mn + mn_begin +
                                  reduced_row;
  AbsMinMax minmax;
#pragma unroll 1
  for (uint32_t chunk = lane; chunk < params.chunks; chunk += REDUCE_LANES * CHUNKS_IN_FLIGHT) {
    AbsMinMax loaded[CHUNKS_IN_FLIGHT];
#pragma unroll
    for (int i = 0; i < CHUNKS_IN_FLIGHT; ++i) {
      if (row_exists && chunk + i * REDUCE_LANES < params.chunks) loaded[i] = *chunk_minmax;
      chunk_minmax += REDUCE_LANES * operand.mn;
    }
#pragma unroll
    for (int i = 0; i < CHUNKS_IN_FLIGHT; ++i) minmax.merge(loaded[i]);
  }
  minmax = minmax.warp_reduce(REDUCE_LANES);
  if (lane == 0) {
    const RowScale scale = row_scale_of(minmax);
    scales(0, reduced_row) = scale.pack();
    if (k_begin == 0 && row_exists) {
      store_row_scale(operand, slice_index * operand.mn + mn_begin + reduced_row, scale);
    }
  }
  __syncthreads();

  const Vector<int, VEC_SIZE> row_scales = load_vector<VEC_SIZE>(scales.at(0, row));
#pragma unroll
  for (int r = 0; r < VEC_SIZE; ++r) {
    Vector<float, HALF_VEC> elements;
#pragma unroll
    for (int i = 0; i < HALF_VEC; ++i) elements.lane[i] = vecs[i].lane[r];
    const RowScale scale = RowScale::unpack(row_scales.lane[r]);
    const HiLo<HALF_VEC> result(elements, scale);
    store_vector<HALF_VEC>(hi.at(row + r, vec), result.hi);
    store_vector<HALF_VEC>(lo.at(row + r, vec), result.lo);
  }
  __syncthreads();

  const int stored_vec = threadIdx.x % HALF_VECS;
  const int64_t k = k_begin + stored_vec * HALF_VEC;
#pragma unroll
  for (int i = 0; i < PASS2_TILE_MN; i += PASS2_THREADS / HALF_VECS) {
    const int r = i + static_cast<int>(threadIdx.x) / HALF_VECS;
    if (mn_begin + r >= operand.mn || k >= params.padded_k) continue;
    half* const dst = static_cast<half*>(operand.hi_lo) +
                      (slice_index * operand.mn + mn_begin + r) * 2 * params.padded_k +
                      hi_offset(k);
    store_global_vector<HALF_VEC>(dst, load_vector<HALF_VEC>(hi.at(r, stored_vec)));
    store_global_vector<HALF_VEC>(dst + K_BLOCK, load_vector<HALF_VEC>(lo.at(r, stored_vec)));
  }
  // Outliers are rare, so the row is read again rather than kept: all registers were taken.
  const int outlier_row = threadIdx.x;
  if (outlier_row >= PASS2_TILE_MN || mn_begin + outlier_row >= operand.mn) return;
  const RowScale scale = RowScale::unpack(scales(0, outlier_row));
  if (scale.status != ONE_OUTLIER) return;
  const float* const row_src = slice.src + (mn_begin + outlier_row) * mn_stride;
  for (int64_t i = k_begin; i < k_begin + PASS2_TILE_K && i < slice.length; ++i) {
    store_if_outlier(operand, slice_index * operand.mn + mn_begin + outlier_row, i,
                     row_src[i * operand.k_stride], scale);
  }
}

}  // namespace

void mn_major_pass2(const SplitOperand& operand, const Device& device, bool launch_with_pdl) {
  const int64_t tiles_mn = ceil_div(operand.mn, PASS2_TILE_MN),
                tiles_k = ceil_div(operand.k_slice_length, PASS2_TILE_K);
  const bool vectorized = can_vectorize_along_mn(operand);
  smem::launch(
      "split_mn_major_pass2",
      vectorized ? split_mn_major_pass2_kernel<true> : split_mn_major_pass2_kernel<false>,
      {tiles_mn * tiles_k * operand.total_k_slices(), {PASS2_THREADS}, 0, launch_with_pdl}, device,
      Pass2Params{
          .operand = operand,
          .padded_k = operand.padded_k(),
          .tiles_mn = static_cast<uint32_t>(tiles_mn),
          .tiles_k = static_cast<uint32_t>(tiles_k),
          .chunks =
              static_cast<uint32_t>(ceil_div(operand.k_slice_length, minmax_chunk_length(operand))),
      });
}

}  // namespace smem::gemm::fp16x3::split::inline SMEM_BUILD
