// Float32 products by three float16 ones on Hopper's tensor cores (Ootomo and Yokota, "Recovering
// single precision accuracy from Tensor Cores while surpassing the FP32 theoretical peak
// performance", IJHPCA 36, 2022; the order of the sums is our own).
//
//   x = (hi + lo / 2^12) 2^e      A B = (Ahi Bhi + (Ahi Blo + Alo Bhi) / 2^12) 2^(eA + eB)
//
// lo lo is below float32's last bit. The tensor cores cut off what they add, which biases a long
// chain, so only 32 products of hi hi follow each other there: the CUDA cores add these chains,
// rounding, while the tensor cores are at the two other products, whose chain may be as long as K
// because it is 2^-12 smaller. Sixteen chains, over 512 of K, are then added to a total in shared
// memory, and what rounding takes from that goes into the next sixteen. So the loss by these
// additions does not grow with K; docs/accuracy.md bounds the error.
//
// Where out has too few tiles, K is cut into chunks (split_k.h): each is computed so, as if it were
// all, and its sums go to memory.
//
// Lines that halves cannot carry are computed at last, by fmas (fp32_fallback.h).
//
// Every element adds in this order (promotion.h), whatever M and N are.
#include <cuda_runtime.h>

#include <algorithm>

#include "device/pdl.h"
#include "device/target.h"
#include "device/wgmma.h"
#include "gemm/fp16x3/tensor_map.h"
#include "gemm/fp16x3/fp32_fallback.h"
#include "gemm/fp16x3/promotion.h"
#include "gemm/fp16x3/gemm.h"
#include "gemm/fp16x3/epilogue.h"
#include "gemm/sm90/batch.h"
#include "gemm/sm90/pipeline.h"
#include "gemm/sm90/tile_scheduler.h"
#include "gemm/fp16x3/split.h"

namespace smem::gemm::fp16x3 {
inline namespace SMEM_BUILD {
namespace {

using namespace sm90;

constexpr int STEP = split::PIECE;     ///< a stage along K, and a chain of products of hi
constexpr int ROWS = 128, STAGES = 5;  ///< of a tile of out; in shared memory
constexpr int CONSUMERS = 2, CONSUMER_THREADS = CONSUMERS * WARPGROUP;
constexpr int THREADS = CONSUMER_THREADS + WARPGROUP;
static_assert(ROW_BYTES == 2 * STEP * ELEMENT_BYTES, "hi and lo of a step fill a row");

/// What follows from the columns of a tile: fewer where out has too few tiles for all
/// SMs.
template <int COLS_>
struct Shape {
  static constexpr int COLS = COLS_;
  static constexpr int SUMS = COLS / 2;  ///< a thread's, of the 64 rows of its warpgroup
  static constexpr int A_BYTES = ROWS * ROW_BYTES, STAGE_BYTES = A_BYTES + COLS * ROW_BYTES;
  static constexpr size_t SHARED = SWIZZLE_ATOM + STAGES * STAGE_BYTES +
                                   SUMS * CONSUMER_THREADS * sizeof(float) +
                                   2 * STAGES * sizeof(Barrier);
  static_assert(SHARED <= SHARED_BYTES, "stages and totals within shared memory");
  static_assert(SUMS % (2 * GROUPS) == 0, "a tile holds all groups of columns, equally often");
};

struct Arguments {
  Problem problem;
  CUtensorMap a_map, b_map;
  TileScheduler scheduler;
  Epilogue<float> epilogue;  ///< of the first member
  BatchStrides strides;
  Lines a, b;
  int64_t part_length;  ///< of K
  int rows;             ///< of A that a tile needs: fewer than it has where M is
  float* partials;      ///< where K is cut: the chunks' sums, row after row, matrix after matrix
};

template <typename Shape>
struct Shared {
  unsigned char* stages;
  float* totals;  ///< of sum i of thread t at i * CONSUMER_THREADS + t
  Barrier *full, *empty;

  __device__ __forceinline__ Shared() {
    auto* begin = dynamic_shared<unsigned char>();
    stages = begin + (-shared_address(begin) & (SWIZZLE_ATOM - 1));
    totals = reinterpret_cast<float*>(stages + STAGES * Shape::STAGE_BYTES);
    full = reinterpret_cast<Barrier*>(totals + Shape::SUMS * CONSUMER_THREADS);
    empty = full + STAGES;
  }
  __device__ __forceinline__ unsigned char* a(int stage) const {
    return stages + stage * Shape::STAGE_BYTES;
  }
  __device__ __forceinline__ unsigned char* b(int stage) const { return a(stage) + Shape::A_BYTES; }
};

template <typename Shape>
struct Worker {
  static constexpr int COLS = Shape::COLS, SUMS = Shape::SUMS;

  const Arguments& args;
  Shared<Shape> shared;

  template <typename Visit>
  __device__ __forceinline__ void for_each_piece(const Visit& visit) const {
    for (uint32_t i = blockIdx.x; i < args.scheduler.work_tiles; i += gridDim.x) {
      visit(work_tile_at(args.scheduler, i));
    }
  }

  /// By one thread.
  __device__ __forceinline__ void load() const {
    // What stands in shared memory instead of other rows meets no row that is kept.
    const uint32_t bytes = (args.rows + COLS) * ROW_BYTES;
    PipelineState<STAGES> turn;
    for_each_piece([&](const WorkTileInfo& piece) {
      const int first_part = piece.batch * static_cast<int>(args.scheduler.split_k_slices);
      const int a_part = piece.k_slice + (args.a.next_member_lines ? first_part : 0);
      const int b_part = piece.k_slice + (args.b.next_member_lines ? first_part : 0);
#pragma unroll 1
      for (int step = 0; step < piece.k_tiles; ++step, turn.next()) {
        shared.empty[turn.stage].wait(turn.parity ^ 1);
        Barrier& full = shared.full[turn.stage];
        full.arrive_and_expect_tx(bytes);
        tma_load(shared.a(turn.stage), args.a_map, {2 * STEP * step, piece.row * ROWS, a_part},
                 full);
        tma_load(shared.b(turn.stage), args.b_map, {2 * STEP * step, piece.col * COLS, b_part},
                 full);
      }
    });
  }

  __device__ __forceinline__ void release(int stage) const {
    if (threadIdx.x % WARP == 0) shared.empty[stage].arrive();
  }

  /// By a warpgroup. Returns whether it has met lines that are EXACT.
  __device__ __forceinline__ bool multiply() const {
    bool has_exact = false;
    const int warpgroup = threadIdx.x / WARPGROUP;
    const uint32_t a0 =
        warp_uniform(descriptor_at(shared_address(shared.a(0)) + warpgroup * PANEL_BYTES));
    const uint32_t b0 = warp_uniform(descriptor_at(shared_address(shared.b(0))));
    constexpr uint32_t K16 = K16_STEP<Major::K>, LOW = descriptor_units(STEP * ELEMENT_BYTES);
    const auto multiply = [](float (&sums)[SUMS], uint32_t a, uint32_t b, bool adds) {
      wgmma<half, Major::K, Major::K, COLS>(sums, tile_descriptor(a), tile_descriptor(b),
                                                     adds);
    };
    PipelineState<STAGES> turn;
    for_each_piece([&](const WorkTileInfo& piece) {
      float chain[SUMS], small[SUMS], sums[SUMS] = {};
      int previous = -1;
      for (int first = 0; first < piece.k_tiles; first += TURN * GROUPS) {
#pragma unroll
        for (int group = 0; group < GROUPS; ++group) {
          const int begin = first + group * TURN;
          if (begin >= piece.k_tiles) break;
          const int end = min(begin + TURN, piece.k_tiles);
#pragma unroll 1
          for (int step = begin; step < end; ++step) {
            const uint32_t moved = warp_uniform(turn.stage * descriptor_units(Shape::STAGE_BYTES));
            const uint32_t a = a0 + moved, b = b0 + moved;
            shared.full[turn.stage].wait(turn.parity);
            warpgroup_arrive();
            multiply(chain, a, b, false);
            multiply(chain, a + K16, b + K16, true);
            warpgroup_commit_batch();
            multiply(small, a, b + LOW, step > 0);
            multiply(small, a + LOW, b, true);
            multiply(small, a + K16, b + K16 + LOW, true);
            multiply(small, a + K16 + LOW, b + K16, true);
            warpgroup_commit_batch();
            // The chain is complete, and so are the small products of the step before.
            warpgroup_wait<1>();
            if (previous >= 0) release(previous);
            previous = turn.stage;
            turn.next();
            warpgroup_fence_operand(chain);
#pragma unroll
            for (int i = 0; i < SUMS; ++i) sums[i] += chain[i];
          }
          add_to_totals(sums, group, first > 0);
        }
      }
      warpgroup_wait<0>();
      release(previous);
      warpgroup_fence_operand(small);
      const float* const totals = shared.totals + threadIdx.x;
#pragma unroll
      for (int i = 0; i < SUMS; ++i) {
        const float total = group_of_sum(i) * TURN < piece.k_tiles ? totals[i * CONSUMER_THREADS] : 0;
        sums[i] = value_of(total, sums[i], small[i]);
      }
      const int row = piece.row * ROWS + threadIdx.x / WARP * 16, col = piece.col * COLS;
      const Lines a = lines_of(args.a, piece.batch, piece.k_slice);
      const Lines b = lines_of(args.b, piece.batch, piece.k_slice);
      const auto epilogue = epilogue_at_batch(args.epilogue, args.strides, piece.batch);
      const unsigned marks = marks_of<COLS>(a, row, static_cast<int>(epilogue.out.rows), b, col,
                                            static_cast<int>(epilogue.out.cols));
      has_exact |= (marks & EXACT) != 0;
      if (args.partials) return store_partials(sums, piece, row, col);
      Writer<COLS, CONSUMER_THREADS>{epilogue, a, b, shared.totals + threadIdx.x}.write(
          sums, row, col, (marks & MENDED) != 0);
    });
    return has_exact;
  }

  /// By all threads that multiply, after all they have multiplied.
  __device__ __forceinline__ void compute_exactly() const {
    for_each_piece([&](const WorkTileInfo& piece) {
      const int64_t first = piece.k_slice * args.part_length, left = args.problem.K - first;
      const Part part{static_cast<unsigned>(piece.batch),
                      lines_of(args.a, piece.batch, piece.k_slice),
                      lines_of(args.b, piece.batch, piece.k_slice),
                      first,
                      min(left, args.part_length),
                      partials_of(piece)};
      compute_exact_lines(args.problem, part, int64_t{piece.row} * ROWS, int64_t{piece.col} * COLS,
                          COLS, shared.stages);
    });
  }

  /// Null where K is not cut.
  __device__ __forceinline__ float* partials_of(const WorkTileInfo& piece) const {
    const int64_t chunk = int64_t{piece.batch} * args.scheduler.split_k_slices + piece.k_slice;
    const auto& out = args.epilogue.out;
    return args.partials ? args.partials + chunk * out.rows * out.cols : nullptr;
  }

  /// Of a warp's 16 rows, as Writer has them.
  __device__ __forceinline__ void store_partials(const float (&sums)[SUMS], const WorkTileInfo& piece,
                                                 int first_row, int first_col) const {
    const int64_t rows = args.epilogue.out.rows, cols = args.epilogue.out.cols;
    const int lane = threadIdx.x % WARP, row = first_row + lane / 4, col = first_col + lane % 4 * 2;
    float* const to = partials_of(piece) + row * cols + col;
    const bool in_pairs = cols % 2 == 0;
#pragma unroll
    for (int i = 0; i < SUMS; i += 2) {
      if (row + (i & 2 ? 8 : 0) >= rows || col + i / 4 * 8 >= cols) continue;
      float* const pair = to + (i & 2 ? 8 * cols : 0) + i / 4 * 8;
      if (in_pairs) {
        *reinterpret_cast<float2*>(pair) = {sums[i], sums[i + 1]};
      } else {
        pair[0] = sums[i];
        if (col + i / 4 * 8 + 1 < cols) pair[1] = sums[i + 1];
      }
    }
  }

  /// Sum i of a thread is column 8 (i / 4) + 2 (lane % 4) + i % 2 of the tile.
  __device__ __forceinline__ static constexpr int group_of_sum(int i) {
    return group_of(i / 4 * 8 + i % 2);
  }

  __device__ __forceinline__ void add_to_totals(float (&sums)[SUMS], int group,
                                                bool has_totals) const {
    float* const totals = shared.totals + threadIdx.x;
#pragma unroll
    for (int i = 0; i < SUMS; ++i) {
      if (group_of_sum(i) != group) continue;
      float total = has_totals ? totals[i * CONSUMER_THREADS] : 0;
      add_to_total(total, sums[i]);
      totals[i * CONSUMER_THREADS] = total;
    }
  }
};

template <int COLS>
__global__ void __launch_bounds__(launch_bound(TARGET_HAS_SM90A, THREADS), 1)
    product_kernel(const __grid_constant__ Arguments args) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  const Worker<Shape<COLS>> worker{args};
  if (threadIdx.x == 0) {
    prefetch_tensor_map(args.a_map);
    prefetch_tensor_map(args.b_map);
    for (int i = 0; i < STAGES; ++i) {
      worker.shared.full[i].init(1);
      worker.shared.empty[i].init(CONSUMERS * 4);
    }
    fence_barrier_init();
  }
  launch_dependent_grids();
  wait_on_dependent_grids();
  __syncthreads();
  if (threadIdx.x >= CONSUMER_THREADS) {
    warpgroup_reg_dealloc<24>();
    if (threadIdx.x / WARP == CONSUMER_THREADS / WARP && elect_one()) worker.load();
  } else {
    warpgroup_reg_alloc<240>();
    const bool has_exact = worker.multiply();
    // Among those who multiply: the other threads have ended or have nothing left to do but that.
    if (__syncthreads_or(has_exact)) worker.compute_exactly();
  }
#endif
}

template <int COLS>
void launch_product(const Problem& problem, const Split& a, const Split& b, float* partials,
                    const Device& device) {
  const auto count = [](int64_t size, int64_t tile) {
    return static_cast<uint32_t>(ceil_div(size, tile));
  };
  constexpr uint32_t STRIP = 8;  // 8 x 16 tiles at one time read few bytes more than 11 x 12 do
  const int rows = static_cast<int>(std::min<int64_t>(problem.M, ROWS));
  const Arguments args{
      problem,
      box_map(a, rows),
      box_map(b, COLS),
      TileScheduler(count(problem.M, ROWS), count(problem.N, COLS), static_cast<uint32_t>(a.parts),
               static_cast<uint32_t>(inner_batch_count(problem)), STRIP, count(problem.K, STEP),
               count(a.part_length, STEP)),
      epilogue_of<float>(problem),
      batch_strides(problem),
      Lines(a),
      Lines(b),
      a.part_length,
      rows,
      a.parts > 1 ? partials : nullptr};
  const int64_t blocks = std::min<int64_t>(args.scheduler.work_tiles, device.sm_count);
  launch("fp16x3", product_kernel<COLS>, {blocks, {THREADS}, Shape<COLS>::SHARED, true}, device,
         args);
}

/// The columns of a tile, by how long the busiest SM takes. A step of 32 along K takes
/// the tensor cores 768, 384 and 192 cycles, but narrow tiles wait for one instruction after the
/// other.
int cols_of(const Problem& problem, int64_t chunks, const Device& device) {
  struct Cost {
    int cols, cycles;
  };
  constexpr Cost COSTS[] = {{128, 768}, {64, 440}, {32, 300}};
  Cost best{};
  int64_t least = 0;
  for (const Cost& cost : COSTS) {
    const int64_t pieces =
        ceil_div(problem.M, ROWS) * ceil_div(problem.N, cost.cols) * inner_batch_count(problem) * chunks;
    const int64_t time = ceil_div(pieces, device.sm_count) * cost.cycles;
    if (best.cols == 0 || time < least) {
      best = cost;
      least = time;
    }
  }
  return best.cols;
}

}  // namespace
}  // namespace SMEM_BUILD

void multiply(const Problem& problem, const split::Split& a, const split::Split& b, float* partials,
              const Device& device) {
  switch (cols_of(problem, a.parts, device)) {
    case 32:
      return launch_product<32>(problem, a, b, partials, device);
    case 64:
      return launch_product<64>(problem, a, b, partials, device);
    default:
      return launch_product<128>(problem, a, b, partials, device);
  }
}

const void* product_function() { return reinterpret_cast<const void*>(product_kernel<128>); }

}  // namespace smem::gemm::fp16x3
