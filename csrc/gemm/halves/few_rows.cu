// The product where out has few rows, up to 64: reading B is most of the work, and splitting it
// into memory first would be another two times. So each element of B is read once, split by warps
// of its block (splitter.h) and multiplied by others, which add in product.cu's order: a row has
// the bits that it has among many.
//
// Operands are swapped: 16 columns of B are the rows of mma's A, and rows of A, split by the launch
// before, the columns of its B.
#include <algorithm>
#include <type_traits>

#include "device/mma.h"
#include "device/programmatic.h"
#include "gemm/halves/boxes.h"
#include "gemm/halves/few_rows.h"
#include "gemm/halves/lines.h"
#include "gemm/halves/order.h"
#include "gemm/halves/splitter.h"
#include "gemm/hopper/epilogue.h"
#include "gemm/hopper/members.h"
#include "gemm/hopper/pipeline.h"

namespace smem::gemm::halves {
inline namespace SMEM_BUILD {
namespace {

using hopper::MemberStrides;

constexpr int TILE_ROWS = 8;            ///< of A, the columns of an instruction
constexpr int64_t SYSTEM_BYTES = 1024;  ///< of a block's shared memory
static_assert(PIECES % TURN == 0, "a stage ends where a group's turn does");

struct Arguments {
  CUtensorMap a_map;
  split::Split b;
  Lines a_lines, b_lines;
  Epilogue<float> epilogue;  ///< of the first member
  MemberStrides strides;
  unsigned tiles;  ///< of columns, of a member
  int rows, stages, steps;
};

/// COLUMN_GROUPS of 16 columns; ROW_WARPS warps a group multiply, each with ROW_TILES times 8 rows
/// of A.
template <typename Lie_, int COLUMN_GROUPS_, int ROW_WARPS_, int ROW_TILES_, int STAGES_, int LOADS>
struct Shape {
  using Lie = Lie_;
  static constexpr int STAGES = STAGES_;  ///< of split columns and of A's rows
  using Turn = hopper::Turn<STAGES>;
  static constexpr int COLUMN_GROUPS = COLUMN_GROUPS_, ROW_WARPS = ROW_WARPS_,
                       ROW_TILES = ROW_TILES_;
  using Columns = Splitter<Lie, COLUMN_GROUPS, LOADS>;
  static constexpr int ROWS = ROW_WARPS * ROW_TILES * TILE_ROWS, COLS = COLUMN_GROUPS * COLUMNS;
  static constexpr int SPLITTING = Columns::THREADS, MULTIPLYING = COLUMN_GROUPS * ROW_WARPS * WARP;
  static constexpr int THREADS = SPLITTING + MULTIPLYING + WARP;
  static constexpr int A_PIECE_BYTES = ROWS * PIECE_BYTES, A_BYTES = PIECES * A_PIECE_BYTES;
  static constexpr int B_BYTES = COLS * COLUMN_BYTES;
  static constexpr int RAW_BYTES = Columns::RAW_BYTES;
  static constexpr size_t SHARED =
      hopper::SWIZZLE_ATOM + RAW_BYTES +
      STAGES * (A_BYTES + B_BYTES + COLS * sizeof(float) + 2 * sizeof(Barrier));
  /// Blocks a multiprocessor, by its shared memory.
  static constexpr int BLOCKS_AT_ONCE = hopper::SHARED_BYTES / (SHARED + SYSTEM_BYTES);
  static_assert(ROWS + COLS <= THREADS, "a thread for each line");
  static_assert(SHARED <= hopper::SHARED_BYTES, "stages within a multiprocessor's shared memory");
};

template <typename Shape>
struct Shared {
  unsigned char* stages;
  Run* raw;
  float* scales;
  Barrier *full, *empty;

  __device__ __forceinline__ Shared() {
    auto* const begin = dynamic_shared<unsigned char>();
    stages = begin + (-shared_address(begin) & (hopper::SWIZZLE_ATOM - 1));
    raw = reinterpret_cast<Run*>(b(Shape::STAGES));
    scales = reinterpret_cast<float*>(b(Shape::STAGES) + Shape::RAW_BYTES);
    full = reinterpret_cast<Barrier*>(factors(Shape::STAGES));
    empty = full + Shape::STAGES;
  }
  __device__ __forceinline__ unsigned char* a(int stage) const {
    return stages + stage * Shape::A_BYTES;
  }
  __device__ __forceinline__ unsigned char* b(int stage) const {
    return a(Shape::STAGES) + stage * Shape::B_BYTES;
  }
  __device__ __forceinline__ float* factors(int stage) const {
    return scales + stage * Shape::COLS;
  }
};

/// By one thread: the halves of A's rows, a piece a box.
template <typename Shape>
__device__ __forceinline__ void load_rows(const Arguments& args, const Shared<Shape>& shared,
                                          int member, typename Shape::Turn& turn) {
  const int of_a = args.a_lines.next_member_lines ? member : 0;
  for (int stage = 0; stage < args.stages; ++stage, turn.next()) {
    Barrier& full = shared.full[turn.stage];
    shared.empty[turn.stage].wait(turn.parity ^ 1);
    full.arrive_expecting(PIECES * args.rows * PIECE_BYTES);
#pragma unroll
    for (int p = 0; p < PIECES; ++p) {
      const int first_half = 2 * (stage * STAGE_K + p * split::PIECE);
      load_box(shared.a(turn.stage) + p * Shape::A_PIECE_BYTES, args.a_map, {first_half, 0, of_a},
               full);
    }
  }
}

/// By the warps that split: all columns of a tile. Returns whether they need not be split again.
template <typename Shape>
__device__ __forceinline__ bool split_columns(typename Shape::Columns& columns, bool again,
                                              int stages, const Shared<Shape>& shared,
                                              typename Shape::Turn& turn) {
  const auto split_all = [&](auto known) {
    columns.rewind();
    for (int stage = 0; stage < stages; ++stage, turn.next()) {
      columns.template split_stage<decltype(known)::value>(
          stage, shared.b(turn.stage), shared.factors(turn.stage), shared.empty[turn.stage],
          turn.parity ^ 1);
      shared.full[turn.stage].arrive();
    }
  };
  if (again) {
    columns.measure();
    split_all(std::true_type{});
    return true;
  }
  split_all(std::false_type{});
  return columns.finish();
}

/// What a warp that multiplies adds up: of 16 columns and 8 ROW_TILES rows. Sum i of a lane is
/// column lane / 4, or the one 8 further, and row 2 (lane % 4), or the next.
template <typename Shape>
struct Products {
  using Sums = float[Shape::ROW_TILES][4];

  Sums small = {}, sums = {}, totals = {};

  /// Multiplies and adds all of K.
  __device__ __forceinline__ void add_all(const Arguments& args, const Shared<Shape>& shared,
                                          int group, int first_row, int first_col,
                                          typename Shape::Turn& turn) {
    const int lane = threadIdx.x % WARP;
    const uint32_t b_place = (group * COLUMNS + lane % 16) * COLUMN_BYTES + lane / 16 * 16;
    // The copy engine's swizzle: the 16-byte part of a row is XORed with the row.
    const uint32_t a_place = (first_row + lane % 8) * PIECE_BYTES + ((lane / 8) ^ (lane % 8)) * 16;
    for (int stage = 0; stage < args.stages; ++stage, turn.next()) {
      shared.full[turn.stage].wait(turn.parity);
      const float* const factors = shared.factors(turn.stage) + group * COLUMNS + lane / 4;
      scale(factors[0], factors[8]);
      const uint32_t b = shared_address(shared.b(turn.stage)) + b_place;
      const uint32_t a = shared_address(shared.a(turn.stage)) + a_place;
#pragma unroll
      for (int p = 0; p < PIECES; ++p) {
        const int step = stage * PIECES + p;
        if (step >= args.steps) break;
        add_piece(a + p * Shape::A_PIECE_BYTES, b + p * PIECE_BYTES);
        if ((p + 1) % TURN == 0 || step + 1 == args.steps) {
          add_to_totals(step / TURN % GROUPS, first_col + lane / 4);
        }
      }
      shared.empty[turn.stage].arrive();
    }
  }

  __device__ __forceinline__ float value(int tile, int i) const {
    return value_of(totals[tile][i], sums[tile][i], small[tile][i]);
  }

 private:
  __device__ __forceinline__ void scale(float upper, float lower) {
#pragma unroll
    for (int t = 0; t < Shape::ROW_TILES; ++t) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float factor = i & 2 ? lower : upper;
        small[t][i] *= factor;
        sums[t][i] *= factor;
        totals[t][i] *= factor;
      }
    }
  }

  /// `col`: of the lane's first sums.
  __device__ __forceinline__ void add_to_totals(int group, int col) {
#pragma unroll
    for (int t = 0; t < Shape::ROW_TILES; ++t) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (group_of(col + (i & 2) * 4) == group) add_to_total(totals[t][i], sums[t][i]);
      }
    }
  }

  /// The addresses are the lane's, for ldmatrix.
  __device__ __forceinline__ void add_piece(uint32_t a, uint32_t b) {
    constexpr uint32_t K16 = 32, LOW = PIECE_BYTES / 2;
    unsigned b_hi[2][4], b_lo[2][4];
#pragma unroll
    for (int k16 = 0; k16 < 2; ++k16) {
      load_matrices<false>(b_hi[k16], b + k16 * K16);
      load_matrices<false>(b_lo[k16], b + k16 * K16 + LOW);
    }
#pragma unroll
    for (int t = 0; t < Shape::ROW_TILES; ++t) {
      unsigned a_hi[4], a_lo[4];
      load_matrices<false>(a_hi, a + t * TILE_ROWS * PIECE_BYTES);
      load_matrices<false>(a_lo, (a ^ LOW) + t * TILE_ROWS * PIECE_BYTES);
      float chain[4] = {};
#pragma unroll
      for (int k16 = 0; k16 < 2; ++k16) {
        multiply_add<half>(chain, b_hi[k16], a_hi[2 * k16], a_hi[2 * k16 + 1]);
        multiply_add<half>(small[t], b_lo[k16], a_hi[2 * k16], a_hi[2 * k16 + 1]);
        multiply_add<half>(small[t], b_hi[k16], a_lo[2 * k16], a_lo[2 * k16 + 1]);
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) sums[t][i] += chain[i];
    }
  }
};

/// Sums to out, but for EXACT lines.
template <typename Shape>
__device__ __forceinline__ void write(const Products<Shape>& products, const Arguments& args,
                                      int64_t member, int first_row, int64_t first_col) {
  const Lines a = lines_of(args.a_lines, member), b = lines_of(args.b_lines, member);
  const auto epilogue = hopper::epilogue_of_member(args.epilogue, args.strides, member);
  const int lane = threadIdx.x % WARP;
  float values[Shape::ROW_TILES * 4];
#pragma unroll
  for (int i = 0; i < Shape::ROW_TILES * 4; ++i) values[i] = products.value(i / 4, i % 4);
  // A loop, because so many copies of the activations would be much code.
#pragma unroll 1
  for (int i = 0; i < Shape::ROW_TILES * 4; ++i) {
    const int row = first_row + i / 4 * TILE_ROWS + lane % 4 * 2 + i % 2;
    const int64_t col = first_col + lane / 4 + (i & 2) * 4;
    if (row >= epilogue.out.rows || col >= epilogue.out.cols) continue;
    if (a.mark[row] == EXACT || b.mark[col] == EXACT) continue;
    const float sum = scaled(values[i], b.exponent[col] + a.exponent[row]);
    epilogue.store(row, col, mended(a, row, b, col, sum));
  }
}

/// EXACT lines as SIMT kernels do it, an element a thread. By all threads of the block.
template <typename Shape>
__device__ __forceinline__ void compute_exact_lines(const Arguments& args, int64_t member,
                                                    int64_t first_col) {
  const Lines a = lines_of(args.a_lines, member), b = lines_of(args.b_lines, member);
  const auto epilogue = hopper::epilogue_of_member(args.epilogue, args.strides, member);
  const int cols = static_cast<int>(min(int64_t{Shape::COLS}, epilogue.out.cols - first_col));
  const int thread = static_cast<int>(threadIdx.x), col = thread - args.rows;
  const bool is_marked =
      thread < args.rows ? a.mark[thread] == EXACT : col < cols && b.mark[first_col + col] == EXACT;
  if (!__syncthreads_or(is_marked)) return;
  for (int i = thread; i < args.rows * cols; i += Shape::THREADS) {
    const int row = i / cols;
    const int64_t col = first_col + i % cols;
    if (a.mark[row] != EXACT && b.mark[col] != EXACT) continue;
    Walk<const float> along_a{a.from + row * a.line_stride, a.stride};
    Walk<const float> along_b{b.from + col * b.line_stride, b.stride};
    ChunkedSums<Accumulator<float>> sum;
    for_each_step<1>(args.b.length, sum, [&](int64_t) {
      const float of_a = along_a.next(), of_b = along_b.next();
      sum.add_product(to_accumulator(of_a), to_accumulator(of_b));
    });
    epilogue.store(row, col, sum.value());
  }
}

template <typename Shape>
__global__ void __launch_bounds__(Shape::THREADS, Shape::BLOCKS_AT_ONCE)
    few_rows_kernel(const __grid_constant__ Arguments args) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  const Shared<Shape> shared;
  if (threadIdx.x == 0) {
    for (int i = 0; i < Shape::STAGES; ++i) {
      shared.full[i].init(Shape::SPLITTING + 1);
      shared.empty[i].init(Shape::MULTIPLYING);
    }
    publish_barriers();
  }
  let_next_begin();
  __syncthreads();

  const int warp = threadIdx.x / WARP, multiplier = warp - Shape::SPLITTING / WARP;
  const bool splits = multiplier < 0, loads = multiplier == Shape::MULTIPLYING / WARP;
  const int64_t member = blockIdx.x / args.tiles;
  const int64_t first_col = int64_t{blockIdx.x % args.tiles} * Shape::COLS;
  const int group = multiplier % Shape::COLUMN_GROUPS;
  const int first_row = multiplier / Shape::COLUMN_GROUPS * Shape::ROW_TILES * TILE_ROWS;
  typename Shape::Columns columns(args.b, member, first_col, args.stages, shared.raw);
  Products<Shape> products;
  typename Shape::Turn turn;
  if (!splits) wait_for_previous();
  bool again = false;
  do {
    bool holds = true;
    // Who does not multiply sets them last, so that they take no registers until then.
    if (splits) {
      holds = split_columns<Shape>(columns, again, args.stages, shared, turn);
      products = {};
    } else if (loads) {
      if (elect_one()) load_rows<Shape>(args, shared, static_cast<int>(member), turn);
      __syncwarp();
      products = {};
    } else {
      products = {};
      products.add_all(args, shared, group, first_row,
                       static_cast<int>(first_col) + group * COLUMNS, turn);
    }
    again = __syncthreads_or(!holds);
  } while (again);
  if (splits) wait_for_previous();
  if (!splits && !loads) write(products, args, member, first_row, first_col + group * COLUMNS);
  compute_exact_lines<Shape>(args, member, first_col);
#else
  __trap();  // a build for several architectures holds this kernel for each
#endif
}

template <typename Shape>
void launch_few_rows(const Problem& problem, const split::Split& a, const split::Split& b,
                     const Device& device) {
  const int64_t tiles = ceil_div(problem.N, Shape::COLS);
  const int rows = static_cast<int>(problem.M);
  const Arguments args{box_map(a, rows),
                       b,
                       Lines(a),
                       Lines(b),
                       hopper::epilogue_of<float>(problem),
                       hopper::member_strides(problem),
                       static_cast<unsigned>(tiles),
                       rows,
                       static_cast<int>(ceil_div(problem.K, STAGE_K)),
                       static_cast<int>(ceil_div(problem.K, split::PIECE))};
  // No more blocks a multiprocessor than it takes to have all run at once: where there was room for
  // three, some had three and others one.
  const int64_t blocks = tiles * members_of(problem);
  const int64_t blocks_at_once = ceil_div(blocks, device.multiprocessors);
  const int64_t room = int64_t{hopper::SHARED_BYTES} / blocks_at_once - SYSTEM_BYTES;
  const size_t shared = std::max<int64_t>(Shape::SHARED, room);
  launch("fp16x3 few rows", few_rows_kernel<Shape>, {blocks, {Shape::THREADS}, shared, true},
         device, args);
}

template <typename Lie>
void multiply_few(const Problem& problem, const split::Split& a, const split::Split& b,
                  const Device& device) {
  if (problem.M <= 8) return launch_few_rows<Shape<Lie, 1, 1, 1, 2, 3>>(problem, a, b, device);
  if (problem.M <= 16) return launch_few_rows<Shape<Lie, 1, 2, 1, 2, 3>>(problem, a, b, device);
  // One group of columns, so that three blocks fit, but where that leaves two warps to split.
  if constexpr (std::is_same_v<Lie, AlongK>) {
    if (problem.M <= 32) return launch_few_rows<Shape<Lie, 1, 4, 1, 2, 3>>(problem, a, b, device);
    launch_few_rows<Shape<Lie, 1, 4, 2, 2, 3>>(problem, a, b, device);
  } else {
    if (problem.M <= 32) return launch_few_rows<Shape<Lie, 2, 2, 2, 2, 2>>(problem, a, b, device);
    launch_few_rows<Shape<Lie, 2, 4, 2, 2, 3>>(problem, a, b, device);
  }
}

bool lies_along_k(const split::Split& b) {
  return split::runs_are_wide(b, b.stride, b.length, b.line_stride);
}

bool lies_across_k(const split::Split& b) {
  return split::runs_are_wide(b, b.line_stride, b.lines, b.stride);
}

}  // namespace
}  // namespace SMEM_BUILD

bool has_few_rows(const Problem& problem, const split::Split& b) {
  constexpr int64_t MOST_ROWS = 64;
  // Where members share B, each would split it.
  return problem.M <= MOST_ROWS && b.parts == 1 && (b.members > 1 || members_of(problem) == 1) &&
         (lies_along_k(b) || lies_across_k(b));
}

void multiply_few_rows(const Problem& problem, const split::Split& a, const split::Split& b,
                       const Device& device) {
  if (lies_along_k(b)) return multiply_few<AlongK>(problem, a, b, device);
  multiply_few<AcrossK>(problem, a, b, device);
}

}  // namespace smem::gemm::halves
