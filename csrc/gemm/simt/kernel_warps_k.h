// The simt kernel for few columns, or few elements of out, and a long K: the warps of a block
// divide K.
//
// All warps compute the same tile, each over other accumulation intervals of K, so that an output
// which fills no GPU still has up to 16 warps per tile, and a warp's loads of a narrow product are
// whole cache lines of A. A warp has one interval of each superblock. Their accumulators meet in
// shared memory, where one thread per element of the tile adds them in the order of
// accumulation_order.h:
//
//   interval:      0   1  ...  15     16  17  ...  31     ...
//   warp:          0   1  ...  15      0   1  ...  15     ...
//                 [  superblock  ]   [  superblock   ]
//
// Each warp has a stage of its own and waits for no other warp within a superblock. It loads the
// elements of its next STEP of k into registers while it multiplies, and stores them to its stage
// afterwards.
//
// What may be changed: the rows of TILES with LayoutPair::by_warp, whose `depth` is STEP.
#pragma once

#include <bit>

#include "device/global_load.h"
#include "device/opaque.h"
#include "gemm/block_tile.h"
#include "gemm/simt/reduce_split_k.h"
#include "gemm/simt/thread_map.h"

namespace smem::gemm::simt::inline SMEM_BUILD {

/// Loads EXTENT rows of an operand X(mn, k) into a warp's stage(mn, k), STEP values of k at a time.
/// Neighbouring lanes load neighbours in memory: along k, or along mn.
template <int EXTENT, int STEP>
class WarpLoader {
  static constexpr int PASSES = EXTENT * STEP / 32, K_PASSES = STEP / 32, LANES_K = 32 / EXTENT;
  static_assert(STEP % 32 == 0 && 32 % EXTENT == 0, "the lanes are 1 x 32 or EXTENT x 32 / EXTENT");

 public:
  /// Rows begin four banks apart, so vectors along k of eight rows are in different banks.
  using Stage = Tile<float, EXTENT, STEP + 4>;

  __device__ __forceinline__ WarpLoader(const Matrix<const float>& X, int64_t mn0)
      : from_(X.at(mn0, 0)),
        row_stride_(X.row_stride),
        k_stride_(X.col_stride),
        K_(X.cols),
        rows_(static_cast<int>(lesser(X.rows - mn0, int64_t{EXTENT}))),
        k_fastest_(X.col_stride < X.row_stride) {}

  /// Starts to load the values of k to k + STEP into registers; beyond X they are zeros.
  __device__ __forceinline__ void load_to_registers(int64_t k) {
    const int lane = threadIdx.x % 32;
    if (k_fastest_) {
#pragma unroll
      for (int i = 0; i < K_PASSES; ++i) {
        const int64_t k_of_lane = k + lane + i * 32;
        const float* from = from_ + k_of_lane * k_stride_;
        opaque(from);  // or each row's address would have registers of its own
#pragma unroll
        for (int mn = 0; mn < EXTENT; ++mn, from += row_stride_) {
          load(registers_[mn * K_PASSES + i], from, mn < rows_ && k_of_lane < K_);
        }
      }
    } else {
      const int mn = lane % EXTENT;
      const int64_t k_of_lane = k + lane / EXTENT;
      const float* from = from_ + mn * row_stride_ + k_of_lane * k_stride_;
#pragma unroll
      for (int i = 0; i < PASSES; ++i, from += LANES_K * k_stride_) {
        load(registers_[i], from, mn < rows_ && k_of_lane + i * LANES_K < K_);
      }
    }
  }

  __device__ __forceinline__ void store_to_stage(Stage& stage) {
    const int lane = threadIdx.x % 32;
    if (k_fastest_) {
#pragma unroll
      for (int i = 0; i < PASSES; ++i) {
        *stage.at(i / K_PASSES, lane + i % K_PASSES * 32) = registers_[i];
      }
    } else {
#pragma unroll
      for (int i = 0; i < PASSES; ++i) {
        *stage.at(lane % EXTENT, lane / EXTENT + i * LANES_K) = registers_[i];
      }
    }
  }

 private:
  __device__ __forceinline__ static void load(float& value, const float* from, bool valid) {
    value = std::bit_cast<float>(global_load<4>(from, valid));
  }

  const float* from_;
  int64_t row_stride_, k_stride_, K_;
  int rows_;
  bool k_fastest_;
  float registers_[PASSES];
};

/// The shared memory of a block.
template <typename T, int TILE>
struct WarpsKStorage {
  static constexpr TileConfig CONFIG = TILES[TILE];
  static constexpr int ELEMENTS = CONFIG.rows() * CONFIG.cols(sizeof(T));
  using LoadA = WarpLoader<CONFIG.rows(), CONFIG.depth>;
  using LoadB = WarpLoader<CONFIG.cols(sizeof(T)), CONFIG.depth>;
  struct Stage {
    typename LoadA::Stage a;
    typename LoadB::Stage b;
  };

  Tile<T, INTERVALS_PER_SUPERBLOCK, ELEMENTS> interval_accum;
  Tile<T, 1, ELEMENTS> superblock_accum;
  Stage stages[CONFIG.warps_k];
};

/// Computes one tile over all of K and stores it to out, or its partials to the workspace: one per
/// superblock.
template <typename T, int TILE>
__global__ void __launch_bounds__(TILES[TILE].threads(),
                                  min_blocks_per_sm(TILE, LayoutPair::by_warp))
    simt_warps_k_kernel(const __grid_constant__ SimtParams params) {
  static_assert(std::is_same_v<T, float>, "a load has four bytes");
  using Acc = Accumulator<T>;
  using Storage = WarpsKStorage<T, TILE>;
  constexpr TileConfig CONFIG = Storage::CONFIG;
  constexpr int STEP = CONFIG.depth, COLS = CONFIG.cols(sizeof(T));
  constexpr int TM = CONFIG.thread_rows, LANES_M = CONFIG.lanes_m, LANES_N = 32 / LANES_M;
  static_assert(MIN_ACCUM_INTERVAL % STEP == 0, "an interval ends where a step ends");
  static_assert(CONFIG.warps_k == INTERVALS_PER_SUPERBLOCK, "a warp has one of them at a time");
  static_assert(CONFIG.thread_cols == 1 && COLS == LANES_N, "a lane computes one column");

  const Problem& problem = params.problem;
  const SplitK& split_k = params.split_k;
  const auto k_slice = static_cast<int64_t>(blockIdx.x % split_k.slices);
  const unsigned index = blockIdx.x / split_k.slices;
  const int64_t K = problem.K, interval = accum_interval(K),
                k_begin = k_slice * split_k.slice_length;
  const int64_t k_end = lesser(K, k_begin + split_k.slice_length);
  const int64_t superblock_length = INTERVALS_PER_SUPERBLOCK * interval;
  const BlockTile<T> block(problem, CONFIG.rows(), COLS, index);
  Storage& storage = *dynamic_shared<Storage>();
  const int thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
  const int row = lane / LANES_N, col = lane % LANES_N;
  auto& stage = storage.stages[warp];
  typename Storage::LoadA load_a(block.A, block.row0);
  typename Storage::LoadB load_b(block.B.transposed(), block.col0);
  const auto load_to_registers = [&](int64_t k) {
    load_a.load_to_registers(k);
    load_b.load_to_registers(k);
  };

  int64_t k = k_begin + warp * interval;
  load_to_registers(k < k_end ? k : K);
  for (int64_t superblock = k_begin; superblock < k_end; superblock += superblock_length) {
    const int64_t next = k + superblock_length;
    if (k < k_end) {
      Acc accum[TM] = {};
      const int64_t end = lesser(k + interval, k_end);
#pragma unroll 1
      while (k < end) {
        __syncwarp();
        load_a.store_to_stage(stage.a);
        load_b.store_to_stage(stage.b);
        __syncwarp();
        k += STEP;
        load_to_registers(k < end ? k : next < k_end ? next : K);
#pragma unroll
        for (int first = 0; first < STEP; first += VECTOR_WIDTH<T>) {
          Vector<T, VECTOR_WIDTH<T>> a[TM];
          const auto b = load_vector<VECTOR_WIDTH<T>>(stage.b.at(col, first));
#pragma unroll
          for (int i = 0; i < TM; ++i) {
            a[i] = load_vector<VECTOR_WIDTH<T>>(stage.a.at(row + i * LANES_M, first));
          }
#pragma unroll
          for (int v = 0; v < VECTOR_WIDTH<T>; ++v) {
#pragma unroll
            for (int i = 0; i < TM; ++i) {
              accum[i] = fma(to_accumulator(a[i].lane[v]), to_accumulator(b.lane[v]), accum[i]);
            }
          }
        }
      }
      k = next;
#pragma unroll
      for (int i = 0; i < TM; ++i) {
        storage.interval_accum(warp, (row + i * LANES_M) * COLS + col) =
            from_accumulator<T>(accum[i]);
      }
    }
    __syncthreads();
    for (int element = thread; element < Storage::ELEMENTS; element += blockDim.x) {
      Acc accum = 0;
#pragma unroll
      for (int i = 0; i < INTERVALS_PER_SUPERBLOCK; ++i) {
        if (superblock + i * interval >= K) break;
        accum += to_accumulator(T(storage.interval_accum(i, element)));
      }
      const int64_t tile_row = block.row0 + element / COLS, tile_col = block.col0 + element % COLS;
      if (split_k.unit != PartialUnit::none) {
        const auto partials = partials_at<T>(params, index, superblock / superblock_length);
        if (!partials.contains(tile_row, tile_col)) continue;
        partials(tile_row, tile_col) = from_accumulator<T>(accum);
      } else {
        T& total = *storage.superblock_accum.at(0, element);
        total = from_accumulator<T>(superblock > 0 ? to_accumulator(T(total)) + accum : accum);
      }
    }
    __syncthreads();
  }
  if (split_k.unit != PartialUnit::none) return;
  for (int element = thread; element < Storage::ELEMENTS; element += blockDim.x) {
    const T accum = K > 0 ? storage.superblock_accum(0, element) : T(0);
    block.epilogue.store(block.row0 + element / COLS, block.col0 + element % COLS,
                         to_accumulator(accum));
  }
}

}  // namespace smem::gemm::simt::inline SMEM_BUILD
