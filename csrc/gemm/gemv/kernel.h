// out = A b: a matrix whose rows are contiguous, times a vector.
//
// Reading A is nearly all of the work, so it is read once, as it lies in memory, and multiplied by
// FMAs. A tile of tensor cores would compute eight columns for one, after its stages of shared
// memory have filled.
//
// Order of additions. K is divided into slices, and a slice into vectors of 16 bytes, which are
// dealt out to the lanes of a few warps in turn:
//
//   vector of the slice:    0   1  ...  31    32  33  ...  63    64  ...    for two warps
//   lane:                   0   1  ...  31     0   1  ...  31     0  ...
//   warp:                 [       0       ]  [       1       ]  [ 0  ...
//
// Each lane has one accumulator per row. The lanes' are combined in a tree, pairs of neighbours
// first, then the warps' sums in the same way; at last the slices' sums are added in their order.
// The numbers of lanes, warps and slices are functions of K (params.h).
//
// Work of a block: 4 rows per group of lanes and warps that divide K: from 4 rows, of a long K, to
// 256. Reads: A once, and b once per block, mostly from L1 and L2. Writes: out once, or a partial
// per slice, if there are too few rows to fill the GPU.
//
// What may be changed: MIN_BLOCKS_PER_SM. ROWS and KDivision decide the work of a block; KDivision
// also decides the bits.
#pragma once

#include <bit>

#include "device/global_load.h"
#include "device/pdl.h"
#include "device/vector.h"
#include "gemm/block_tile.h"
#include "gemm/gemv/params.h"

namespace smem::gemm::gemv::inline SMEM_BUILD {

constexpr int ROWS = 4;  ///< per lane
/// 64 registers, which hold two vectors of each row. Three blocks lose 2% (float32 5%), and five,
/// with one vector of each row, 10%.
constexpr int MIN_BLOCKS_PER_SM = 4;

/// A lane's rows of A, and b.
template <typename T>
struct Operands {
  const T* rows[ROWS];
  const T* b;
};

/// Loads a vector of 2-byte elements that begins anywhere: by words, and the first and last element
/// by themselves if they begin within a word.
template <int V, typename T>
__device__ __forceinline__ Loaded<T, V> load_by_shifts(const T* from) {
  constexpr int WORDS = V * sizeof(T) / sizeof(uint32_t);
  const bool is_odd = reinterpret_cast<uintptr_t>(from) % sizeof(uint32_t) != 0;
  const T* const begin = is_odd ? from + 1 : from;
  uint32_t words[WORDS + 1];  // the first one is used if the vector is odd
  words[0] = global_load<2>(from, is_odd) << 16;
#pragma unroll
  for (int i = 1; i < WORDS; ++i) words[i] = global_load<4>(begin + 2 * (i - 1), true);
  words[WORDS] = global_load<4>(begin + V - 2, !is_odd) | global_load<2>(from + V - 1, is_odd);
  Loaded<T, V> loaded;
#pragma unroll
  for (int i = 0; i < WORDS; ++i) {
    loaded.words.lane[i] = is_odd ? __funnelshift_r(words[i], words[i + 1], 16) : words[i + 1];
  }
  return loaded;
}

/// Loads a vector that begins at a multiple of ALIGNMENT bytes.
template <int V, int ALIGNMENT, typename T>
__device__ __forceinline__ Loaded<T, V> load_row(const T* from) {
  if constexpr (ALIGNMENT == 16) {
    return load_words<V>(from);
  } else if constexpr (ALIGNMENT == 4) {
    constexpr int PER_WORD = sizeof(uint32_t) / sizeof(T);
    Loaded<T, V> loaded;
#pragma unroll
    for (int i = 0; i < V / PER_WORD; ++i) {
      loaded.words.lane[i] = load_words<PER_WORD>(from + i * PER_WORD).words.lane[0];
    }
    return loaded;
  } else {
    return load_by_shifts<V>(from);
  }
}

/// Loads the first `num_valid` of V elements of global memory; the others are zeros and are not
/// read.
template <int V, typename T>
__device__ __forceinline__ Vector<T, V> load_elements(const T* from, int64_t num_valid) {
  using Word = std::conditional_t<sizeof(T) == 2, uint16_t, uint32_t>;
  Vector<T, V> elements;
#pragma unroll
  for (int i = 0; i < V; ++i) {
    elements.lane[i] =
        std::bit_cast<T>(static_cast<Word>(global_load<sizeof(T)>(from + i, i < num_valid)));
  }
  return elements;
}

/// V values of k of a lane's rows and of b.
template <typename T>
struct Fragments {
  static constexpr int V = VECTOR_WIDTH<T>;
  Loaded<T, V> rows[ROWS], b;

  /// Rows begin at multiples of ALIGNMENT bytes, and b at one of 16.
  template <int ALIGNMENT>
  __device__ __forceinline__ static Fragments load(const Operands<T>& operands, int64_t k) {
    Fragments loaded;
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
      loaded.rows[r] = load_row<V, ALIGNMENT>(operands.rows[r] + k);
    }
    loaded.b = load_words<V>(operands.b + k);
    return loaded;
  }

  __device__ __forceinline__ void multiply(Accumulator<T> (&accum)[ROWS]) const {
    const Vector<T, V> b_elements = b.elements();
#pragma unroll
    for (int r = 0; r < ROWS; ++r) multiply_row(accum[r], rows[r].elements(), b_elements);
  }

  __device__ __forceinline__ static void multiply_row(Accumulator<T>& accum,
                                                      const Vector<T, V>& row,
                                                      const Vector<T, V>& b) {
#pragma unroll
    for (int i = 0; i < V; ++i) {
      accum = fma(to_accumulator(row.lane[i]), to_accumulator(b.lane[i]), accum);
    }
  }
};

/// Adds to `accum` what a lane has of its rows: vectors from k on, in steps of `step`.
template <typename T, int ALIGNMENT>
__device__ __forceinline__ void accumulate(Accumulator<T> (&accum)[ROWS],
                                           const Operands<T>& operands, int64_t k, int64_t end,
                                           int64_t step) {
  constexpr int V = VECTOR_WIDTH<T>;
  const int64_t whole_end = end - V;
#pragma unroll 1
  for (; k + step <= whole_end; k += 2 * step) {  // two loads of each row in flight
    const auto first = Fragments<T>::template load<ALIGNMENT>(operands, k);
    const auto second = Fragments<T>::template load<ALIGNMENT>(operands, k + step);
    first.multiply(accum);
    second.multiply(accum);
  }
  if (k <= whole_end) {
    Fragments<T>::template load<ALIGNMENT>(operands, k).multiply(accum);
    k += step;
  }
  if (k >= end) return;
  // b may be in shared memory, which load_elements does not read.
  const Vector<T, V> b = load_vector<V>(operands.b + k, 1, end - k, /*wide=*/false);
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    Fragments<T>::multiply_row(accum[r], load_elements<V>(operands.rows[r] + k, end - k), b);
  }
}

/// Copies elements `begin` to `end` of b to shared memory.
template <typename T>
__device__ __forceinline__ void stage(T* to, const Matrix<const T>& b, int64_t begin, int64_t end) {
  constexpr int LOADS_IN_FLIGHT = 8;
  const int threads = blockDim.x;
  for (int64_t k = begin + threadIdx.x; k < end; k += LOADS_IN_FLIGHT * threads) {
    T elements[LOADS_IN_FLIGHT];
#pragma unroll
    for (int i = 0; i < LOADS_IN_FLIGHT; ++i) {
      elements[i] = b(lesser(k + i * threads, end - 1), 0);
    }
#pragma unroll
    for (int i = 0; i < LOADS_IN_FLIGHT; ++i) {
      if (k + i * threads < end) to[k + i * threads - begin] = elements[i];
    }
  }
}

/// Adds the accumulators of `lanes` neighbouring lanes in a tree, neighbours first. In the first
/// two steps a lane sends half of its sums and keeps the others. Afterwards sums[0] is that of row
/// row_of_lane().
template <typename Acc>
__device__ __forceinline__ void reduce_lanes(Acc (&sums)[ROWS], int lanes) {
  constexpr unsigned ALL_LANES = 0xffffffffu;
  static_assert(ROWS == 4, "two steps leave one sum per lane");
#pragma unroll
  for (int offset = 1, count = ROWS / 2; count > 0; offset *= 2, count /= 2) {
    const bool upper = (threadIdx.x & offset) != 0;
#pragma unroll
    for (int i = 0; i < count; ++i) {
      const Acc kept = upper ? sums[i + count] : sums[i];
      const Acc sent = upper ? sums[i] : sums[i + count];
      sums[i] = kept + __shfl_xor_sync(ALL_LANES, sent, offset);
    }
  }
  for (int offset = ROWS; offset < lanes; offset *= 2) {
    sums[0] += __shfl_xor_sync(ALL_LANES, sums[0], offset);
  }
}
__device__ __forceinline__ int row_of_lane(int lane) { return lane % 2 * 2 + lane / 2 % 2; }

/// Adds the warps' sums in a tree, neighbours first; those of other warps count as zero.
template <typename Acc>
__device__ __forceinline__ Acc reduce_warps(Acc (&sums)[MAX_WARPS]) {
#pragma unroll
  for (int stride = 1; stride < MAX_WARPS; stride *= 2) {
#pragma unroll
    for (int w = 0; w < MAX_WARPS; w += 2 * stride) sums[w] += sums[w + stride];
  }
  return sums[0];
}

/// Computes a tile of rows, over all of K or over one slice.
template <typename T, int ALIGNMENT>
__global__ void __launch_bounds__(32 * MAX_WARPS, MIN_BLOCKS_PER_SM)
    gemv_kernel(const __grid_constant__ GemvParams params) {
  using Acc = Accumulator<T>;
  constexpr int V = VECTOR_WIDTH<T>;
  __shared__ Tile<Acc, 2 * MAX_WARPS, ROWS> warp_sums;  // two buffers: one barrier per slice
  T* const staged_b = dynamic_shared<T>();

  const Problem& problem = params.problem;
  const KDivision& division = params.division;
  const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
  const int lane_k = lane % division.lanes, warp_k = warp % division.warps;
  const int groups_per_warp = 32 / division.lanes;
  const int rows_per_block =
      static_cast<int>(blockDim.x) / 32 / division.warps * groups_per_warp * ROWS;
  const unsigned tile = params.splits_k ? blockIdx.x / division.slices : blockIdx.x;
  const unsigned matrix = tile / params.row_tiles;
  const BlockTile<T> block(problem, int64_t{tile % params.row_tiles} * rows_per_block, int64_t{0},
                           matrix);
  const int64_t first_row =
      block.row0 +
      (warp / division.warps * groups_per_warp + lane / division.lanes) * int64_t{ROWS};
  Operands<T> operands;
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {  // rows beyond the last repeat it
    operands.rows[r] = block.A.at(lesser(first_row + r, problem.M - 1), 0);
  }
  wait_on_dependent_grids();
  const int64_t first_slice = params.splits_k ? blockIdx.x % division.slices : 0;
  const int64_t last_slice = params.splits_k ? first_slice : division.slices - 1;
  Acc total = 0;
#pragma unroll 1
  for (int64_t slice = first_slice; slice <= last_slice; ++slice) {
    const int64_t begin = slice * division.slice_length;
    const int64_t end = lesser(problem.K, begin + division.slice_length);
    operands.b = block.B.data;
    if (params.stages_b) {
      if (slice > first_slice) __syncthreads();
      stage<T>(staged_b, block.B, begin, end);
      __syncthreads();
      operands.b = staged_b - begin;
    }
    Acc sums[ROWS] = {};
    accumulate<T, ALIGNMENT>(sums, operands, begin + (warp_k * division.lanes + lane_k) * V, end,
                             int64_t{division.warps} * division.lanes * V);
    reduce_lanes(sums, division.lanes);
    if (division.warps == 1) {
      total = sums[0];
      continue;
    }
    const int buffer = static_cast<int>(slice % 2) * MAX_WARPS;
    if (lane < ROWS) warp_sums(buffer + warp, row_of_lane(lane)) = sums[0];
    __syncthreads();
    if (thread >= rows_per_block) continue;
    const int first_warp = buffer + thread / ROWS * division.warps;
    Acc of_warps[MAX_WARPS];
#pragma unroll
    for (int w = 0; w < MAX_WARPS; ++w) {
      of_warps[w] = w < division.warps ? Acc(warp_sums(first_warp + w, thread % ROWS)) : Acc(0);
    }
    total = slice == first_slice ? reduce_warps(of_warps) : total + reduce_warps(of_warps);
  }
  const bool in_lanes = division.warps == 1;  // the sums are in the lanes, or in the first threads
  if (in_lanes ? lane_k >= ROWS : thread >= rows_per_block) return;
  const int64_t row = in_lanes ? first_row + row_of_lane(lane) : block.row0 + thread;
  if (!params.splits_k) {
    block.epilogue.store(row, 0, total);
  } else if (row < problem.M) {
    const int64_t of_slice = int64_t{matrix} * division.slices + first_slice;
    params.partials[(of_slice * problem.M + row) * params.partial_pitch] =
        from_accumulator<float>(total);
  }
}

}  // namespace smem::gemm::gemv::inline SMEM_BUILD
