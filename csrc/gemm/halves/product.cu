// Float32 products by three float16 ones on Hopper's tensor cores (Ootomo and Yokota, "Recovering
// single precision accuracy from Tensor Cores while surpassing the FP32 theoretical peak
// performance", IJHPCA 36, 2022; the order of the sums is our own).
//
//   x = (hi + lo / 2^12) 2^e      A B = (Ahi Bhi + (Ahi Blo + Alo Bhi) / 2^12) 2^(eA + eB)
//
// lo lo is below float32's last bit. The tensor cores cut off what they add, which biases a long
// chain, so only 32 products of hi hi follow each other there: the CUDA cores add these partial
// sums, rounding, while the tensor cores are at the two other products, whose chain may be as long
// as K because it is 2^-12 smaller. Sixteen partial sums, over 512 of K, make a block. Blocks are
// added in shared memory, and what each of those additions rounds off is caught by TwoSum (Knuth)
// and put where the small products are summed. So the error does not grow with K.
//
// Every element adds in this order, whatever M and N are.
#include <cuda_runtime.h>

#include <algorithm>

#include "device/wgmma.h"
#include "gemm/halves/product.h"
#include "gemm/hopper/epilogue.h"
#include "gemm/hopper/members.h"
#include "gemm/hopper/pipeline.h"
#include "gemm/hopper/schedule.h"
#include "gemm/hopper/tensor_map.h"
#include "gemm/split/split.h"

namespace smem::gemm::halves {
inline namespace SMEM_BUILD {
namespace {

using namespace hopper;

constexpr int CHAIN = split::PIECE;  ///< products of hi that follow each other; a stage along K
constexpr int CHAINS_A_BLOCK = 16;
constexpr int ROWS = 128, STAGES = 5;  ///< of a tile of out; in shared memory
constexpr int CONSUMERS = 2, CONSUMER_THREADS = CONSUMERS * WARPGROUP;
constexpr int THREADS = CONSUMER_THREADS + WARPGROUP;
constexpr float LO = 1.0f / (1 << split::LO_SHIFT);
static_assert(ROW_BYTES == 2 * CHAIN * ELEMENT_BYTES, "hi and lo of a chain fill a row");

/// What follows from the columns of a tile: fewer where out has too few tiles for all
/// multiprocessors.
template <int COLS_>
struct Shape {
  static constexpr int COLS = COLS_;
  static constexpr int SUMS = COLS / 2;  ///< a thread's, of the 64 rows of its warpgroup
  static constexpr int A_BYTES = ROWS * ROW_BYTES, STAGE_BYTES = A_BYTES + COLS * ROW_BYTES;
  static constexpr size_t SHARED = SWIZZLE_ATOM + STAGES * STAGE_BYTES +
                                   SUMS * CONSUMER_THREADS * sizeof(float) +
                                   2 * STAGES * sizeof(Barrier);
  static_assert(SHARED <= SHARED_BYTES, "stages and sums of blocks within shared memory");
};

struct Arguments {
  CUtensorMap a, b;
  Schedule schedule;
  Epilogue<float> epilogue;  ///< of the first member
  MemberStrides strides;
  const int32_t *a_exponents, *b_exponents;
  int64_t a_lines, b_lines;  ///< from a member's exponents to the next one's, 0 where all share
};

template <typename Shape>
struct Shared {
  unsigned char* stages;
  float* blocks;  ///< sum i of thread t at i * CONSUMER_THREADS + t
  Barrier *full, *empty;

  __device__ __forceinline__ Shared() {
    auto* begin = dynamic_shared<unsigned char>();
    stages = begin + (-shared_address(begin) & (SWIZZLE_ATOM - 1));
    blocks = reinterpret_cast<float*>(stages + STAGES * Shape::STAGE_BYTES);
    full = reinterpret_cast<Barrier*>(blocks + Shape::SUMS * CONSUMER_THREADS);
    empty = full + STAGES;
  }
  __device__ __forceinline__ unsigned char* a(int stage) const {
    return stages + stage * Shape::STAGE_BYTES;
  }
  __device__ __forceinline__ unsigned char* b(int stage) const { return a(stage) + Shape::A_BYTES; }
};

/// Reads of `sums` after this see what the products that were waited for have left there: of
/// registers the compiler does not know that the tensor cores write them later.
template <int SUMS>
__device__ __forceinline__ void settle(float (&sums)[SUMS]) {
#pragma unroll
  for (float& sum : sums) asm volatile("" : "+f"(sum)::"memory");
}

template <typename Shape>
struct Worker {
  static constexpr int COLS = Shape::COLS, SUMS = Shape::SUMS;

  const Arguments& args;
  Shared<Shape> shared;

  template <typename Visit>
  __device__ __forceinline__ void for_each_piece(const Visit& visit) const {
    for (uint32_t i = blockIdx.x; i < args.schedule.pieces; i += gridDim.x) {
      visit(piece_at(args.schedule, i));
    }
  }

  /// By one thread.
  __device__ __forceinline__ void load() const {
    Turn<STAGES> turn;
    for_each_piece([&](const Piece& piece) {
      const int a_member = args.a_lines ? piece.batch : 0,
                b_member = args.b_lines ? piece.batch : 0;
#pragma unroll 1
      for (int step = 0; step < piece.steps; ++step, turn.next()) {
        shared.empty[turn.stage].wait(turn.parity ^ 1);
        Barrier& full = shared.full[turn.stage];
        full.arrive_expecting(Shape::STAGE_BYTES);
        load_box(shared.a(turn.stage), args.a, {2 * CHAIN * step, piece.row * ROWS, a_member},
                 full);
        load_box(shared.b(turn.stage), args.b, {2 * CHAIN * step, piece.col * COLS, b_member},
                 full);
      }
    });
  }

  __device__ __forceinline__ void release(int stage) const {
    if (threadIdx.x % WARP == 0) shared.empty[stage].arrive();
  }

  /// By a warpgroup.
  __device__ __forceinline__ void compute() const {
    const int warpgroup = threadIdx.x / WARPGROUP;
    const uint32_t a0 =
        uniform(descriptor_at(shared_address(shared.a(0)) + warpgroup * PANEL_BYTES));
    const uint32_t b0 = uniform(descriptor_at(shared_address(shared.b(0))));
    constexpr uint32_t K16 = K16_STEP<Major::K>, LOW = descriptor_units(CHAIN * ELEMENT_BYTES);
    const auto multiply = [](float (&sums)[SUMS], uint32_t a, uint32_t b, bool adds) {
      multiply_tiles<half, Major::K, Major::K, COLS>(sums, tile_descriptor(a), tile_descriptor(b),
                                                     adds);
    };
    float* const blocks = shared.blocks + threadIdx.x;
    Turn<STAGES> turn;
    for_each_piece([&](const Piece& piece) {
      float chain[SUMS], small[SUMS], sums[SUMS];
      for (int first = 0; first < piece.steps; first += CHAINS_A_BLOCK) {
        const int end = min(first + CHAINS_A_BLOCK, piece.steps);
#pragma unroll
        for (float& sum : sums) sum = 0;
        int previous = -1;
#pragma unroll 1
        for (int step = first; step < end; ++step, turn.next()) {
          const uint32_t moved = uniform(turn.stage * descriptor_units(Shape::STAGE_BYTES));
          const uint32_t a = a0 + moved, b = b0 + moved;
          shared.full[turn.stage].wait(turn.parity);
          begin_products();
          multiply(chain, a, b, false);
          multiply(chain, a + K16, b + K16, true);
          end_product_group();
          multiply(small, a, b + LOW, step > 0);
          multiply(small, a + LOW, b, true);
          multiply(small, a + K16, b + LOW + K16, true);
          multiply(small, a + LOW + K16, b + K16, true);
          end_product_group();
          // The chain is complete, and so are the small products of the step before.
          wait_for_products<1>();
          if (previous >= 0) release(previous);
          previous = turn.stage;
          settle(chain);
#pragma unroll
          for (int i = 0; i < SUMS; ++i) sums[i] += chain[i];
        }
        wait_for_products<0>();
        release(previous);
        settle(small);
        if (first > 0) {
#pragma unroll
          for (int i = 0; i < SUMS; ++i) add_block(sums[i], small[i], blocks[i * CONSUMER_THREADS]);
        }
        if (end < piece.steps) {
#pragma unroll
          for (int i = 0; i < SUMS; ++i) blocks[i * CONSUMER_THREADS] = sums[i];
        }
      }
      store(sums, small, piece);
    });
  }

  /// sum becomes the sum of both, and what rounding takes from it goes to `small`.
  __device__ __forceinline__ static void add_block(float& sum, float& small, float before) {
    const float both = before + sum, part = both - before;
    const float error = (before - (both - part)) + (sum - part);
    small = fmaf(error, 1 / LO, small);
    sum = both;
  }

  /// Sum i of a thread is row 16 warp + lane / 4 of the tile, or the one eight below, and column
  /// 8 (i / 4) + 2 (lane % 4), or the next.
  __device__ __forceinline__ void store(float (&sums)[SUMS], const float (&small)[SUMS],
                                        const Piece& piece) const {
    const auto epilogue = epilogue_of_member(args.epilogue, args.strides, piece.batch);
    const int rows = static_cast<int>(epilogue.out.rows),
              cols = static_cast<int>(epilogue.out.cols);
    const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    const int row = piece.row * ROWS + warp * 16 + lane / 4, col = piece.col * COLS + lane % 4 * 2;
    const int32_t* const a_exponents = args.a_exponents + piece.batch * args.a_lines;
    const int32_t* const b_exponents = args.b_exponents + piece.batch * args.b_lines;
    const int upper = a_exponents[min(row, rows - 1)], lower = a_exponents[min(row + 8, rows - 1)];
#pragma unroll
    for (int i = 0; i < SUMS; ++i) {
      const int exponent = b_exponents[min(col + i / 4 * 8 + i % 2, cols - 1)];
      sums[i] = scaled(fmaf(small[i], LO, sums[i]), exponent + (i & 2 ? lower : upper));
    }
    if (is_plain(epilogue)) {
#pragma unroll
      for (int i = 0; i < SUMS; i += 2) {
        store_plain(epilogue, row + (i & 2 ? 8 : 0), col + i / 4 * 8, sums[i], sums[i + 1]);
      }
      return;
    }
    // Through shared memory into a loop, because 32 copies of the activations would be much code.
    float* const blocks = shared.blocks + threadIdx.x;
#pragma unroll
    for (int i = 0; i < SUMS; ++i) blocks[i * CONSUMER_THREADS] = sums[i];
#pragma unroll 1
    for (int i = 0; i < SUMS; i += 2) {
      const float pair[2] = {blocks[i * CONSUMER_THREADS], blocks[(i + 1) * CONSUMER_THREADS]};
      epilogue.store(row + (i & 2 ? 8 : 0), col + i / 4 * 8, pair);
    }
  }

  __device__ __forceinline__ static bool is_plain(const Epilogue<float>& epilogue) {
    return epilogue.alpha == 1 && !epilogue.c.data && !epilogue.pre.data &&
           (epilogue.activation == Activation::none || epilogue.activation == Activation::relu);
  }

  __device__ __forceinline__ static void store_plain(const Epilogue<float>& epilogue, int row,
                                                     int col, float first, float second) {
    const auto& out = epilogue.out;
    if (row >= out.rows || col >= out.cols) return;
    const bool both = col + 1 < out.cols;
    if (epilogue.bias) {
      first += epilogue.bias[col * epilogue.bias_stride];
      if (both) second += epilogue.bias[(col + 1) * epilogue.bias_stride];
    }
    if (epilogue.activation == Activation::relu) {
      first = activate(Activation::relu, first);
      second = activate(Activation::relu, second);
    }
    float* const to = &out(row, col);
    if (both && out.col_stride == 1 && is_aligned<2>(to)) {
      *reinterpret_cast<float2*>(to) = {first, second};
    } else {
      *to = first;
      if (both) to[out.col_stride] = second;
    }
  }

  /// x * 2^exponent in two steps, as 2^exponent itself may lie outside float32's range.
  __device__ __forceinline__ static float scaled(float x, int exponent) {
    const auto power = [](int e) { return __int_as_float((e + 127) << 23); };
    exponent = min(max(exponent, -252), 254);
    const int half = exponent >> 1;
    return x * power(half) * power(exponent - half);
  }
};

template <int COLS>
__global__ void __launch_bounds__(THREADS, 1)
    product_kernel(const __grid_constant__ Arguments args) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  const Worker<Shape<COLS>> worker{args};
  if (threadIdx.x == 0) {
    prefetch_map(args.a);
    prefetch_map(args.b);
    for (int i = 0; i < STAGES; ++i) {
      worker.shared.full[i].init(1);
      worker.shared.empty[i].init(CONSUMERS * 4);
    }
    publish_barriers();
  }
  __syncthreads();
  if (threadIdx.x >= CONSUMER_THREADS) {
    give_registers<24>();
    if (threadIdx.x / WARP == CONSUMER_THREADS / WARP && elect_one()) worker.load();
  } else {
    take_registers<240>();
    worker.compute();
  }
#else
  __trap();  // a build for several architectures holds this kernel for each
#endif
}

CUtensorMap map_of(const SplitOperand& operand, int lines) {
  return make_tensor_map({DType::f16, operand.pieces, operand.pitch, operand.lines, operand.members,
                          operand.pitch, operand.lines * operand.pitch},
                         2 * CHAIN, lines);
}

template <int COLS>
void launch_product(const Problem& problem, const SplitOperand& a, const SplitOperand& b,
                    const Device& device) {
  const auto count = [](int64_t size, int64_t tile) {
    return static_cast<uint32_t>(ceil_div(size, tile));
  };
  constexpr uint32_t STRIP = 8;  // 8 x 16 tiles at one time read few bytes more than 11 x 12 do
  const uint32_t steps = count(problem.K, CHAIN);
  const Arguments args{map_of(a, ROWS),
                       map_of(b, COLS),
                       Schedule(count(problem.M, ROWS), count(problem.N, COLS), 1,
                                static_cast<uint32_t>(members_of(problem)), STRIP, steps, steps),
                       epilogue_of<float>(problem),
                       member_strides(problem),
                       a.exponents,
                       b.exponents,
                       a.members > 1 ? a.lines : 0,
                       b.members > 1 ? b.lines : 0};
  const int64_t blocks = std::min<int64_t>(args.schedule.pieces, device.multiprocessors);
  launch("fp16x3", product_kernel<COLS>, {blocks, {THREADS}, Shape<COLS>::SHARED}, device, args);
}

/// The columns of a tile, by how long the busiest multiprocessor takes. A step of 32 along K takes
/// the tensor cores 768, 384 and 192 cycles, but narrow tiles wait for one instruction after the
/// other.
int cols_of(const Problem& problem, const Device& device) {
  struct Cost {
    int cols, cycles;
  };
  constexpr Cost COSTS[] = {{128, 768}, {64, 440}, {32, 300}};
  Cost best{};
  int64_t least = 0;
  for (const Cost& cost : COSTS) {
    const int64_t tiles =
        ceil_div(problem.M, ROWS) * ceil_div(problem.N, cost.cols) * members_of(problem);
    const int64_t time = ceil_div(tiles, device.multiprocessors) * cost.cycles;
    if (best.cols == 0 || time < least) {
      best = cost;
      least = time;
    }
  }
  return best.cols;
}

}  // namespace
}  // namespace SMEM_BUILD

void multiply(const Problem& problem, const SplitOperand& a, const SplitOperand& b,
              const Device& device) {
  switch (cols_of(problem, device)) {
    case 32:
      return launch_product<32>(problem, a, b, device);
    case 64:
      return launch_product<64>(problem, a, b, device);
    default:
      return launch_product<128>(problem, a, b, device);
  }
}

const void* product_function() { return reinterpret_cast<const void*>(product_kernel<128>); }

}  // namespace smem::gemm::halves
