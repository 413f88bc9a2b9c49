// The simt kernel for few elements of out and a long K: the warps of a block divide K.
//
// All warps compute the same tile, each over other accumulation intervals of K, so that an output
// which fills no GPU still has up to 16 warps per tile, and one launch. A warp has one interval of
// each superblock. Their sums meet in shared memory, where one thread per element of the tile adds
// them in the order of accumulation_order.h:
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
#include "gemm/block_tile.h"
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
        last_mn_(static_cast<int>(lesser(X.rows - mn0, int64_t{EXTENT})) - 1),
        k_fastest_(X.col_stride < X.row_stride) {}

  /// Starts to load the values of k to k + STEP into registers; beyond X they are zeros.
  __device__ __forceinline__ void load_to_registers(int64_t k) {
    for_each_pass([&](int mn, int step, float& value) {
      // Rows beyond X load its last row; they affect no element that is stored.
      const float* const from = from_ + lesser(mn, last_mn_) * row_stride_ + (k + step) * k_stride_;
      value = std::bit_cast<float>(global_load<4>(from, k + step < K_));
    });
  }

  __device__ __forceinline__ void store_to_stage(Stage& stage) {
    for_each_pass([&](int mn, int step, float value) { *stage.at(mn, step) = value; });
  }

 private:
  /// Calls visit(mn, step, value) for the elements of the calling lane.
  template <typename Visit>
  __device__ __forceinline__ void for_each_pass(const Visit& visit) {
    const int lane = threadIdx.x % 32;
    if (k_fastest_) {
#pragma unroll
      for (int i = 0; i < PASSES; ++i) {
        visit(i / K_PASSES, lane + i % K_PASSES * 32, registers_[i]);
      }
    } else {
#pragma unroll
      for (int i = 0; i < PASSES; ++i) {
        visit(lane % EXTENT, lane / EXTENT + i * LANES_K, registers_[i]);
      }
    }
  }

  const float* from_;
  int64_t row_stride_, k_stride_, K_;
  int last_mn_;
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
  Stage stages[CONFIG.warps_k];
};

/// Computes one tile over all of K and stores it to out.
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
  static_assert(Storage::ELEMENTS <= 64, "one thread of two warps adds an element's intervals");

  const Problem& problem = params.problem;
  const int64_t K = problem.K, interval = accum_interval(K);
  const BlockTile<T> block(problem, CONFIG.rows(), COLS);
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

  int64_t k = warp * interval;
  load_to_registers(k);
  Acc superblock_accum = 0;
  for (int64_t superblock = 0; superblock < K; superblock += INTERVALS_PER_SUPERBLOCK * interval) {
    if (k < K) {
      Acc accum[TM] = {};
      const int64_t end = k + interval, next = k + INTERVALS_PER_SUPERBLOCK * interval;
#pragma unroll 1
      while (k < end) {
        __syncwarp();
        load_a.store_to_stage(stage.a);
        load_b.store_to_stage(stage.b);
        __syncwarp();
        k += STEP;
        load_to_registers(k < end ? k : next);
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
    if (thread < Storage::ELEMENTS) {
      Acc accum = 0;
#pragma unroll
      for (int i = 0; i < INTERVALS_PER_SUPERBLOCK; ++i) {
        if (superblock + i * interval >= K) break;
        accum += to_accumulator(T(storage.interval_accum(i, thread)));
      }
      superblock_accum = superblock > 0 ? superblock_accum + accum : accum;
    }
    __syncthreads();
  }
  if (thread < Storage::ELEMENTS) {
    block.epilogue.store(block.row0 + thread / COLS, block.col0 + thread % COLS, superblock_accum);
  }
}

}  // namespace smem::gemm::simt::inline SMEM_BUILD
