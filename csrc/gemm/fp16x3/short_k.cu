// out = A B for a short K, up to 128, and few rows, up to 64. A warp holds 16 columns of B in
// registers for all of K, split into hi and lo, and multiplies them by all rows of A, which its
// block has split into shared memory. So B is read once, its scales are known before it is split,
// and there is one launch. With a longer K registers do not suffice: skinny_m_kernel.h takes B in
// stages then, and must guess the scales of its columns.
//
//   all warps    16 columns of B: load to registers
//                rows of A: load -> shared memory; split in place; barrier
//   each warp    16 columns of B: split in registers
//                per 16 rows of A: hi and lo from shared memory, mma.sync, epilogue
//                the next 16 columns: load to registers
//
// Where out has few columns, several warps take the same ones and a part of the rows each.
//
// The order of the additions is promotion.h's, so a row of out has the same bits as from the other
// kernels.
//
// What may be changed: WARPS and the blocks per SM. The bits do not depend on them.
#include <algorithm>

#include "device/device.h"
#include "device/mma.h"
#include "device/prefetch_params.h"
#include "device/target.h"
#include "gemm/batch.h"
#include "gemm/epilogue_params.h"
#include "gemm/fp16x3/fallback_element.h"
#include "gemm/fp16x3/lane_output.h"
#include "gemm/fp16x3/linear_combination.h"
#include "gemm/fp16x3/promotion.h"
#include "gemm/fp16x3/register_split.h"
#include "gemm/fp16x3/short_k.h"
#include "gemm/fp16x3/split_problem.h"

namespace smem::gemm::fp16x3::inline SMEM_BUILD {
namespace {

using split::SplitOperand;

constexpr int WARPS = 8, THREADS = 32 * WARPS, BLOCKS_PER_SM = 2;
constexpr int MMA_ROWS = 8;   ///< rows of A per instruction, its n
constexpr int MAX_ROWS = 64;  ///< M
constexpr int ROW_TILES = 2;  ///< that a warp multiplies at once
constexpr int CHUNKS_PER_K_BLOCK = split::K_BLOCK / CHUNK_K;

struct ShortKParams {
  SplitOperand a, b;
  SplitMetadata a_metadata, b_metadata;
  Epilogue<float> epilogue;  ///< of the first matrix of the batch
  BatchStrides strides;
  unsigned blocks_per_matrix;
  unsigned row_parts;  ///< warps that share 16 columns
};

/// The results of a split per row, in shared memory.
template <int ROWS>
struct RowResults {
  int64_t outlier_k[ROWS];
  int32_t exponent[ROWS];
  float outlier[ROWS];
  uint8_t status[ROWS];

  /// An operand or its metadata with these results.
  template <typename T>
  __device__ __forceinline__ T bind(T to) {
    to.exponent = exponent;
    to.status = status;
    to.outlier_k = outlier_k;
    to.outlier = outlier;
    return to;
  }
};

/// The shared memory of a block: of 4 elements of a row hi and lo, 16 bytes. Rows begin 64 bytes
/// apart modulo 128, so that the two rows that 8 lanes read are in different banks.
template <int CHUNKS>
struct ShortKStorage {
  static constexpr int VECS = CHUNKS * LANES_K, PITCH = VECS + 4;
  static_assert(32 % VECS == 0, "a lane for each");

  RowResults<MAX_ROWS> a;
  RowResults<SPLIT_ROWS> b[WARPS];
  alignas(16) Vector<unsigned, 4> rows[MAX_ROWS * PITCH];
};

/// Loads A's rows into shared memory, splits them there, and returns whether hi and lo represent
/// them. A warp has 32 / VECS rows at a time.
template <int CHUNKS>
__device__ __forceinline__ bool split_rows(const SplitOperand& a, const float* src,
                                           ShortKStorage<CHUNKS>& storage) {
  using Storage = ShortKStorage<CHUNKS>;
  constexpr int VECS = Storage::VECS, ROW_STEP = THREADS / VECS;
  const int thread = static_cast<int>(threadIdx.x), vec = thread % VECS;
  const auto rows = static_cast<int>(a.mn);
  const auto padded_rows = static_cast<int>(round_up(rows, SPLIT_ROWS));
  const int k = vec * LANE_K, k_left = static_cast<int>(a.k) - k;
  const bool wide = a.k_stride == 1 && a.mn_stride % LANE_K == 0 && is_aligned<LANE_K>(src);
  static_assert(SPLIT_ROWS % ROW_STEP == 0, "warps have rows, or none has");
#pragma unroll 4
  for (int row = thread / VECS; row < padded_rows; row += ROW_STEP) {
    const auto elements = load_vector<LANE_K>(src + row * a.mn_stride + k * a.k_stride, a.k_stride,
                                              row < rows ? k_left : 0, wide);
    storage.rows[row * Storage::PITCH + vec] = std::bit_cast<Vector<unsigned, 4>>(elements);
  }
  bool are_representable = true;
#pragma unroll 1
  for (int row = thread / VECS; row < padded_rows; row += ROW_STEP) {
    auto* const place = storage.rows + row * Storage::PITCH + vec;
    const auto elements = std::bit_cast<split::FloatVec>(*place);
    Extremes extremes;
#pragma unroll
    for (const float element : elements.lane) extremes.include(element);
    extremes.warp_reduce(VECS);
    RowScale scale = extremes.scale();
    if (__any_sync(~0u, scale.status == split::ONE_OUTLIER)) {
      split::AbsMinMax minmax;
      for (const float element : elements.lane) minmax.include(element);
      scale = split::row_scale_of(minmax.warp_reduce(VECS));
    }
    are_representable &= scale.status == split::REPRESENTABLE;
    if (vec == 0) split::store_row_scale(a, row, scale);
    if (scale.status == split::ONE_OUTLIER) {
#pragma unroll
      for (int i = 0; i < LANE_K; ++i) {
        split::store_if_outlier(a, row, k + i, elements.lane[i], scale);
      }
    }
    const split::HiLo<LANE_K> result(elements, scale);
    const auto hi = std::bit_cast<std::array<unsigned, 2>>(result.hi);
    const auto lo = std::bit_cast<std::array<unsigned, 2>>(result.lo);
    *place = {hi[0], hi[1], lo[0], lo[1]};
  }
  return !__syncthreads_or(!are_representable);
}

/// The accumulators of 16 columns and ROW_TILES times 8 rows: element i is in the lane's column
/// i / 2 and row i % 2 of the two it has of each, from 2 (lane / 4) and 2 (lane % 4) on.
struct Accumulators {
  using Accum = float[ROW_TILES][4];
  Accum cross_accum = {}, accum = {}, totals = {};

  /// `col` is the lane's first column.
  template <int CHUNKS>
  __device__ __forceinline__ void multiply(const RegisterSplit<CHUNKS>& cols,
                                           const ShortKStorage<CHUNKS>& storage, int first_row,
                                           int col, int k_blocks) {
    constexpr int PITCH = ShortKStorage<CHUNKS>::PITCH;
    static_assert(CHUNKS / CHUNKS_PER_K_BLOCK <= PROMOTION_GROUPS * PROMOTION_INTERVAL,
                  "no element is promoted twice");
    const int lane = threadIdx.x % 32;
    const auto* const vecs = storage.rows + (first_row + lane / LANES_K) * PITCH + lane % LANES_K;
#pragma unroll
    for (int k_block = 0; k_block < CHUNKS / CHUNKS_PER_K_BLOCK; ++k_block) {
      if (k_block >= k_blocks) break;
      Accum k_block_accum = {};
#pragma unroll
      for (int i = 0; i < CHUNKS_PER_K_BLOCK; ++i) {
        const int chunk = k_block * CHUNKS_PER_K_BLOCK + i;
#pragma unroll
        for (int t = 0; t < ROW_TILES; ++t) {
          const auto row = vecs[t * MMA_ROWS * PITCH + chunk * LANES_K];
          mma_sync<half>(k_block_accum[t], cols.hi(chunk), row.lane[0], row.lane[1]);
          mma_sync<half>(cross_accum[t], cols.lo(chunk), row.lane[0], row.lane[1]);
          mma_sync<half>(cross_accum[t], cols.hi(chunk), row.lane[2], row.lane[3]);
        }
      }
#pragma unroll
      for (int t = 0; t < ROW_TILES; ++t) {
#pragma unroll
        for (int i = 0; i < 4; ++i) accum[t][i] += k_block_accum[t][i];
      }
      if ((k_block + 1) % PROMOTION_INTERVAL == 0) promote_group(k_block / PROMOTION_INTERVAL, col);
    }
    if (k_blocks % PROMOTION_INTERVAL != 0) promote_group(k_blocks / PROMOTION_INTERVAL, col);
  }

  __device__ __forceinline__ void promote_group(int group, int col) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (promotion_group(col + i / 2) != group) continue;
#pragma unroll
      for (int t = 0; t < ROW_TILES; ++t) promote_first(totals[t][i], accum[t][i]);
    }
  }

  __device__ __forceinline__ float value(int t, int i) const {
    return combine(totals[t][i], accum[t][i], cross_accum[t][i]);
  }
};

/// Stores a lane's elements of ROW_TILES row tiles from row `row` on, whatever the epilogue, with
/// outliers and FALLBACK. Columns are counted from out's column col0 on. A loop, because a copy of
/// the activations for each element would be most of the kernel.
template <int CHUNKS>
__device__ __forceinline__ void store_any(const ShortKParams& params,
                                          ShortKStorage<CHUNKS>& storage,
                                          const Epilogue<float>& epilogue, unsigned batch,
                                          int64_t col0, int row, int col,
                                          const Vector<float, 4> (&values)[ROW_TILES]) {
  SplitMetadata a = storage.a.bind(params.a_metadata);
  SplitMetadata b = storage.b[threadIdx.x / 32].bind(params.b_metadata);
  a.src += batch * a.batch_src_stride;
  b.src += batch * b.batch_src_stride + col0 * b.mn_stride;
  float elements[ROW_TILES * 4];
#pragma unroll
  for (int i = 0; i < ROW_TILES * 4; ++i) elements[i] = values[i / 4].lane[i % 4];
#pragma unroll 1
  for (int i = 0; i < ROW_TILES * 4; ++i) {
    const int r = row + i / 4 * MMA_ROWS + i % 2, c = col + i / 2 % 2;
    if (!epilogue.out.contains(r, col0 + c)) continue;
    const bool falls_back = a.status[r] == FALLBACK || b.status[c] == FALLBACK;
    epilogue.store(r, col0 + c,
                   falls_back
                       ? fallback_element</*ROLLED=*/true>(a, r, b, c, static_cast<int>(params.a.k))
                       : add_outlier_products(a, r, b, c, elements[i]));
  }
}

/// The epilogue of a lane's 2 columns that adds a bias at most before the activation, where there
/// is no outlier nor FALLBACK.
struct BiasEpilogue {
  const Epilogue<float>& epilogue;
  int64_t col;
  int cols;   ///< that exist
  bool wide;  ///< they are a vector
  float bias[LANE_ROWS];

  __device__ __forceinline__ BiasEpilogue(const Epilogue<float>& epilogue, int64_t col,
                                          bool rows_are_wide)
      : epilogue(epilogue),
        col(col),
        cols(static_cast<int>(min(epilogue.out.cols - col, int64_t{LANE_ROWS}))),
        wide(rows_are_wide && cols == LANE_ROWS) {
#pragma unroll
    for (int j = 0; j < LANE_ROWS; ++j) {
      bias[j] = epilogue.bias && j < cols ? epilogue.bias[(col + j) * epilogue.bias_stride] : 0;
    }
  }

  /// Stores 2 rows. `has_relu_at_most`: that is the activation, and there is no `pre`.
  __device__ __forceinline__ void store(int row, Vector<float, 4> values,
                                        bool has_relu_at_most) const {
    const Matrix<float>& out = epilogue.out;
    const LaneOutput output{out.at(row, col),
                            out.row_stride,
                            out.col_stride,
                            static_cast<int>(out.rows) - row,
                            cols,
                            wide};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (epilogue.bias) values.lane[i] += bias[i / 2];
    }
    if (!has_relu_at_most) {
      float* const pre = epilogue.pre.data ? epilogue.pre.at(row, col) : nullptr;
      return store_activated(output, pre, values, epilogue.activation);
    }
    if (epilogue.activation == Activation::relu) {
#pragma unroll
      for (float& value : values.lane) value = activate(Activation::relu, value);
    }
    output.store(values);
  }
};

/// A block's columns.
template <int CHUNKS, RowLoad LOAD_B>
__device__ __forceinline__ void run(const ShortKParams& params) {
  prefetch_param(params);
  auto& storage = *dynamic_shared<ShortKStorage<CHUNKS>>();
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const unsigned batch = blockIdx.x / params.blocks_per_matrix;
  const float* const a_src = params.a.src + batch * params.a.batch_stride;
  const float* const b_src = params.b.src + batch * params.b.batch_stride;
  // A warp's work: 16 columns, and the rows of a part.
  const auto works = static_cast<unsigned>(ceil_div(params.b.mn, SPLIT_ROWS)) * params.row_parts;
  const auto col0_of = [&](unsigned work) { return int64_t{work / params.row_parts} * SPLIT_ROWS; };
  unsigned work = (blockIdx.x - batch * params.blocks_per_matrix) * WARPS + warp;
  RowElements<CHUNKS> elements;
  elements.template load<LOAD_B>(params.b, b_src, col0_of(work));
  const bool are_rows_representable = split_rows(storage.a.bind(params.a), a_src, storage);

  RowResults<SPLIT_ROWS>& results = storage.b[warp];
  const auto epilogue = epilogue_at_batch(params.epilogue, params.strides, batch);
  const bool adds_bias = only_adds_bias(epilogue), wide = rows_are_vectors<2>(epilogue.out);
  const bool has_relu_at_most = is_bias_relu(epilogue);
  const auto rows = static_cast<int>(params.a.mn), length = static_cast<int>(params.a.k);
  const int col = lane / LANES_K * LANE_ROWS, k_blocks = ceil_div(length, split::K_BLOCK);
  for (; work < works; work += params.blocks_per_matrix * WARPS) {
    const int64_t col0 = col0_of(work);
    RegisterSplit<CHUNKS> cols;
    cols.split(elements, results.bind(params.b), b_src, col0, 0);
    __syncwarp();
    const bool are_representable = are_rows_representable && cols.are_representable();
    const BiasEpilogue common(epilogue, col0 + col, wide);
    constexpr int ROWS = ROW_TILES * MMA_ROWS;
#pragma unroll 1
    for (int first = static_cast<int>(work % params.row_parts) * ROWS; first < rows;
         first += static_cast<int>(params.row_parts) * ROWS) {
      Accumulators accums;
      accums.multiply(cols, storage, first, static_cast<int>(col0) + col, k_blocks);
      const int row = first + lane % LANES_K * 2;
      Vector<float, 4> values[ROW_TILES];
#pragma unroll
      for (int t = 0; t < ROW_TILES; ++t) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          values[t].lane[i] =
              scale_by_exponent(accums.value(t, i), storage.a.exponent[row + t * MMA_ROWS + i % 2] +
                                                        results.exponent[col + i / 2]);
        }
      }
      if (!are_representable || !adds_bias) {
        store_any(params, storage, epilogue, batch, col0, row, col, values);
        continue;
      }
#pragma unroll
      for (int t = 0; t < ROW_TILES; ++t) {
        common.store(row + t * MMA_ROWS, values[t], has_relu_at_most);
      }
    }
    __syncwarp();
    elements.template load<LOAD_B>(params.b, b_src,
                                   col0_of(work + params.blocks_per_matrix * WARPS));
  }
}

template <int CHUNKS, RowLoad LOAD_B>
__global__ void __launch_bounds__(launch_bound(TARGET_HAS_SM90A, THREADS), BLOCKS_PER_SM)
    short_k_kernel(const __grid_constant__ ShortKParams params) {
  if constexpr (TARGET_HAS_SM90A) run<CHUNKS, LOAD_B>(params);
}

template <int CHUNKS, RowLoad LOAD_B>
void launch_kernel_of(const Problem& problem, const Device& device) {
  const SplitOperand a = operand_of(problem, A), b = operand_of(problem, B);
  const int64_t matrices = inner_batch_count(problem), tiles = ceil_div(problem.N, SPLIT_ROWS);
  const int64_t resident_blocks = int64_t{BLOCKS_PER_SM} * device.sm_count;
  // As many warps as the GPU has room for, as long as each has rows.
  int64_t row_parts = 1;
  while (row_parts * ROW_TILES * MMA_ROWS < problem.M &&
         2 * row_parts * tiles * matrices <= resident_blocks * WARPS) {
    row_parts *= 2;
  }
  const int64_t blocks_per_matrix =
      std::min(ceil_div(tiles * row_parts, WARPS), ceil_div(resident_blocks, matrices));
  launch("fp16x3 short K", short_k_kernel<CHUNKS, LOAD_B>,
         {matrices * blocks_per_matrix, {THREADS}, sizeof(ShortKStorage<CHUNKS>)}, device,
         ShortKParams{
             .a = a,
             .b = b,
             .a_metadata = SplitMetadata(a),
             .b_metadata = SplitMetadata(b),
             .epilogue = epilogue_of<float>(problem),
             .strides = batch_strides(problem),
             .blocks_per_matrix = static_cast<unsigned>(blocks_per_matrix),
             .row_parts = static_cast<unsigned>(row_parts),
         });
}

template <int CHUNKS>
void launch_chunks(const Problem& problem, const Device& device) {
  const SplitOperand b = operand_of(problem, B);
  if (split::can_vectorize_along_k(b)) {
    launch_kernel_of<CHUNKS, RowLoad::ALONG_K>(problem, device);
  } else if (split::can_vectorize_along_mn(b)) {
    launch_kernel_of<CHUNKS, RowLoad::ALONG_MN>(problem, device);
  } else {
    launch_kernel_of<CHUNKS, RowLoad::ELEMENTS>(problem, device);
  }
}

}  // namespace

// On an H200, 1,000 problems of up to 64 rows: K up to 64 takes 0.4 to 0.8 of the time of the other
// kernels, K above 64 0.6 to 0.9 with a B of 2^19 elements and more, and below up to 1.3.
bool is_fastest_by_short_k(const Problem& problem) {
  constexpr int64_t LARGE_B = 1 << 19;
  return problem.M <= MAX_ROWS && problem.K <= 8 * CHUNK_K &&
         (problem.K <= 4 * CHUNK_K ||
          problem.N * problem.K * inner_batch_count(problem) >= LARGE_B);
}

void launch_short_k(const Problem& problem, const Device& device) {
  if (problem.K <= 4 * CHUNK_K) return launch_chunks<4>(problem, device);
  launch_chunks<8>(problem, device);
}

}  // namespace smem::gemm::fp16x3::inline SMEM_BUILD
