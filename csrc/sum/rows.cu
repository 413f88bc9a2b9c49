// rows: warps run along the elements of an output.
//
// A warp reduces segments of 2048 elements (sum/segment.h), 16 bytes a load where the elements are
// neighbours, wherever they begin; 1 to 8 warps share a row, and one word a warp goes through
// shared memory. Rows longer than a block takes leave a node a chunk, and a second launch goes on
// from there.
//
// Rows of less than a segment, of 1 or 2 bytes an element, have a kernel of their own, a warp a
// row. So have rows of up to 256 elements: 4 to 32 lanes a row, four or eight rows a lane, so that
// as many loads are in flight as in a long row.
#include <algorithm>

#include "device/programmatic.h"
#include "device/symbol.h"
#include "sum/dispatch.h"
#include "sum/ladder.h"
#include "sum/layout.h"
#include "sum/result.h"
#include "sum/segment.h"

namespace smem::sum {
inline namespace SMEM_BUILD {

/// Segments a warp may take one after the other: of elements, and of nodes, where one launch less
/// is worth more than work for every multiprocessor.
constexpr int MAX_SEGMENTS = 8, MAX_NODE_SEGMENTS = 64, SEGMENT_LEVELS = 6;
/// Blocks that a multiprocessor runs at once. What a block's start and a second launch cost, in the
/// time of half a segment.
constexpr int ROW_BLOCKS_AT_ONCE = 3, BLOCK_START = 1, SECOND_LAUNCH = 4;
/// Blocks of rows of less than a segment that a multiprocessor runs at once.
constexpr int LONE_ROW_BLOCKS = 4;
/// Blocks of short rows a multiprocessor that keep it busy to the end.
constexpr int SHORT_ROW_BLOCKS = 16;

struct Rows {
  Problem problem;
  int warps_a_row, segments_a_warp;  ///< powers of two
};

/// LIE_ is a Lie: compilers agree on how an int is called in a kernel's name.
template <typename T, typename Op, int LIE_>
__global__ void __launch_bounds__(THREADS, Lie(LIE_) == Lie::nested ? 2 : ROW_BLOCKS_AT_ONCE)
    rows_kernel(const __grid_constant__ Rows rows) {
  constexpr Lie LIE{LIE_};
  using Acc = Node<Op, T>;
  __shared__ Tile<Acc, 1, WARPS> nodes;
  const Problem& problem = rows.problem;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int rows_a_block = WARPS / rows.warps_a_row;
  const unsigned chunks = static_cast<unsigned>(problem.chunks), chunk = blockIdx.x % chunks;
  const int64_t first_row = int64_t{blockIdx.x / chunks} * rows_a_block;

  let_next_begin();
  wait_for_previous();
  Acc node = Op::template identity<Acc>();
  const int64_t row = first_row + warp / rows.warps_a_row;
  if (row < problem.output_count) {
    Segment<T, Op, LIE> segment{
        problem, static_cast<const T*>(problem.in) + offsets_at(problem.outputs, row).of[IN]};
    const int64_t first_segment =
        (int64_t{chunk} * rows.warps_a_row + warp % rows.warps_a_row) * rows.segments_a_warp;
    Counter<Op, Acc, SEGMENT_LEVELS> counter;
    for (int s = 0; s < rows.segments_a_warp; ++s) {
      const bool exists = (first_segment + s) * segment.LENGTH * problem.chain < problem.count;
      node = counter.push(
          s, exists ? segment.reduce(first_segment + s) : Op::template identity<Acc>());
    }
  }
  if (lane == 0) nodes(0, warp) = node;
  __syncthreads();
  if (warp > 0) return;
  node = lane < WARPS ? Acc(nodes(0, lane)) : Op::template identity<Acc>();
  node = node_above_lanes<Op>(node, 1, rows.warps_a_row);
  const int64_t stored_row = first_row + lane / rows.warps_a_row;
  if (lane < WARPS && lane % rows.warps_a_row == 0 && stored_row < problem.output_count) {
    put_result(problem, stored_row, chunk, node);
  }
}

struct LoneRows {
  Problem problem;
  int rounds;
};

/// Rows of less than a segment, in vectors, of elements of 1 or 2 bytes: each warp has rows of its
/// own, one after the other, and nobody waits for another.
template <typename T, typename Op>
__global__ void __launch_bounds__(THREADS, LONE_ROW_BLOCKS)
    lone_rows_kernel(const __grid_constant__ LoneRows rows) {
  const Problem& problem = rows.problem;
  const int64_t first_row = int64_t{blockIdx.x} * WARPS * rows.rounds + threadIdx.x / 32;

  let_next_begin();
  wait_for_previous();
  for (int round = 0; round < rows.rounds; ++round) {
    const int64_t row = first_row + round * WARPS;
    if (row >= problem.output_count) return;
    Segment<T, Op, Lie::aligned> segment{
        problem, static_cast<const T*>(problem.in) + offsets_at(problem.outputs, row).of[IN]};
    const Node<Op, T> node = segment.template reduce<false>(0);
    if (threadIdx.x % 32 == 0) put_result(problem, row, 0, node);
  }
}

/// Rows of a lane that are combined together, and rounds that a block lives for.
constexpr int ROWS_A_LANE = 4, MAX_ROUNDS = 8;

struct ShortRows {
  Problem problem;
  int lanes_a_row;  ///< a power of two from ROWS_A_LANE
  int rounds;
};

/// VEC: elements a load. VECTORS: loads of a lane and a row.
template <typename T, typename Op, int VEC, int VECTORS>
__global__ void __launch_bounds__(THREADS, 3)
    short_rows_kernel(const __grid_constant__ ShortRows short_rows) {
  constexpr int LEVEL = std::bit_width(unsigned{VEC}) - 1;
  constexpr int GROUPS = std::max(1, LOADS / (ROWS_A_LANE * VECTORS));
  const Problem& problem = short_rows.problem;
  const int lanes = short_rows.lanes_a_row, lane = threadIdx.x % lanes, step = 32 / lanes;
  const int64_t warp = int64_t{blockIdx.x} * WARPS + threadIdx.x / 32;
  const int64_t apart = VEC > 1 ? 1 : problem.reduced.stride[0][0];
  const bool flat = problem.outputs.rank <= 1;

  let_next_begin();
  wait_for_previous();
  for (int round = 0; round < short_rows.rounds; ++round) {
    const int64_t first_row =
        (warp * short_rows.rounds + round) * GROUPS * ROWS_A_LANE * step + threadIdx.x % 32 / lanes;
    Loaded<T, VEC> loaded[GROUPS][ROWS_A_LANE][VECTORS];
#pragma unroll
    for (int r = 0; r < GROUPS * ROWS_A_LANE; ++r) {
      const int64_t row = first_row + r * step;
      if (row < problem.output_count) {
        const T* const begin = static_cast<const T*>(problem.in) +
                               (flat ? row * problem.outputs.stride[IN][0]
                                     : call_offsets_at(problem.outputs, row).of[IN]);
#pragma unroll
        for (int j = 0; j < VECTORS; ++j) {
          const int i = (j * lanes + lane) * VEC;
          if (i < problem.count) {
            loaded[r / ROWS_A_LANE][r % ROWS_A_LANE][j] = load_words<VEC>(begin + i * apart);
          }
        }
      }
    }
#pragma unroll
    for (int g = 0; g < GROUPS; ++g) {
      Node<Op, T> nodes[VECTORS] = {};
#pragma unroll
      for (int j = 0; j < VECTORS; ++j) {
        const bool exists = (j * lanes + lane) * VEC < problem.count;
        Leaf<T> rows[ROWS_A_LANE];
#pragma unroll
        for (int r = 0; r < ROWS_A_LANE; ++r) {
          Leaves<T, Op, VEC> leaves;
          if (exists) leaves.begin_with(loaded[g][r][j].elements());
          rows[r] = leaves.node();
        }
        nodes[j] = node_above_row<Op, T, LEVEL>(scatter_over_lanes<Op>(rows), lanes, ROWS_A_LANE);
      }
      const int64_t row = first_row + (g * ROWS_A_LANE + lane) * step;
      if (lane < ROWS_A_LANE && row < problem.output_count) {
        const Node<Op, T> identity = Op::template identity<Node<Op, T>>();
        put_result(problem, row, 0, Op::combine(identity, node_above<Op>(nodes)));
      }
    }
  }
}

namespace {

/// One load of every lane for a row, or a few single elements.
constexpr int SHORT_COUNT = 256;

bool is_short(const Problem& problem) {
  return problem.count > 0 && problem.count <= SHORT_COUNT && problem.reduced.rank <= 1;
}

template <typename T>
Lie lie_of(const Problem& problem) {
  const Loop<1>& loop = problem.reduced;
  if (rows_are_vectors(problem, VECTOR_WIDTH<T>)) return Lie::aligned;
  if (loop.rank == 1 && loop.stride[0][0] == 1) return Lie::shifted;
  return nested_rows_are_vectors(problem, VECTOR_WIDTH<T>) ? Lie::nested : Lie::anywhere;
}

struct Shape {
  int warps_a_row, segments_a_warp;
  int64_t chunks, blocks;
};

/// The shape whose busiest multiprocessor has the fewest segments to do one after the other. A row
/// of five segments, say, goes to one warp where there are rows enough: eight warps would leave
/// three idle.
Shape shape_of(const Problem& problem, const Device& device) {
  const int64_t segment = int64_t{LANES} * span_of(size_of(problem.in_dtype)) * problem.chain;
  const int64_t segments = std::max<int64_t>(1, ceil_div(problem.count, segment));
  const auto cut = [&](int segments_a_warp) {
    const int64_t warps = ceil_div(segments, segments_a_warp);
    const auto warps_a_row = static_cast<int>(std::min<int64_t>(WARPS, power_of_two_from(warps)));
    const int64_t chunks = ceil_div(warps, warps_a_row);
    return Shape{warps_a_row, segments_a_warp, chunks,
                 chunks * ceil_div(problem.output_count, WARPS / warps_a_row)};
  };
  const int64_t at_once = int64_t{ROW_BLOCKS_AT_ONCE} * device.multiprocessors;
  const auto cost = [&](const Shape& shape) {
    const int64_t depth = std::min<int64_t>(segments, shape.segments_a_warp);
    return ceil_div(shape.blocks, at_once) * (2 * depth + BLOCK_START) +
           (shape.chunks > 1 ? SECOND_LAUNCH : 0);
  };
  const int most = problem.chain == 1 ? MAX_NODE_SEGMENTS : MAX_SEGMENTS;
  Shape best = cut(1);
  for (int segments_a_warp = 2; segments_a_warp <= most; segments_a_warp *= 2) {
    const Shape longer = cut(segments_a_warp);
    if (cost(longer) < cost(best)) best = longer;
  }
  return best;
}

/// Whether each row is less than a segment, in whole vectors.
template <typename T>
bool are_lone(const Problem& problem) {
  return problem.count > 0 && problem.count < int64_t{LANES} * span_of(sizeof(T)) * problem.chain &&
         lie_of<T>(problem) == Lie::aligned;
}

struct RowsOf {
  static constexpr const char* NAME = "rows";

  template <typename T, typename Op, Lie LIE>
  static void launch_rows(const Problem& problem, const Device& device) {
    const Shape shape = shape_of(problem, device);
    launch(NAME, rows_kernel<T, Op, int(LIE)>, {shape.blocks, {THREADS}, 0, problem.early}, device,
           Rows{problem, shape.warps_a_row, shape.segments_a_warp});
  }

  template <typename T, typename Op, int VEC, int VECTORS>
  static void launch_short(const Problem& problem, const Device& device) {
    const int lanes = static_cast<int>(
        std::clamp<int64_t>(power_of_two_from(ceil_div(problem.count, VEC)), ROWS_A_LANE, 32));
    const int64_t rows_a_round =
        int64_t{WARPS} * std::max(ROWS_A_LANE, LOADS / VECTORS) * 32 / lanes;
    const int64_t enough = int64_t{SHORT_ROW_BLOCKS} * device.multiprocessors * rows_a_round;
    const int64_t rounds = std::clamp<int64_t>(problem.output_count / enough, 1, MAX_ROUNDS);
    launch(NAME, short_rows_kernel<T, Op, VEC, VECTORS>,
           {ceil_div(problem.output_count, rows_a_round * rounds), {THREADS}, 0, problem.early},
           device, ShortRows{problem, lanes, static_cast<int>(rounds)});
  }

  template <typename T, typename Op>
  static void run_lone(const Problem& problem, const Device& device) {
    const int64_t enough = int64_t{SHORT_ROW_BLOCKS} * device.multiprocessors * WARPS;
    const int64_t rounds = std::clamp<int64_t>(problem.output_count / enough, 1, MAX_ROUNDS);
    launch(NAME, lone_rows_kernel<T, Op>,
           {ceil_div(problem.output_count, WARPS * rounds), {THREADS}, 0, problem.early}, device,
           LoneRows{problem, static_cast<int>(rounds)});
  }

  template <typename T, typename Op>
  static void run_short(const Problem& problem, const Device& device) {
    constexpr int WIDTH = VECTOR_WIDTH<T>, MOST = std::max(1, SHORT_COUNT / (32 * WIDTH));
    const bool wide = problem.count % WIDTH == 0 && rows_are_vectors(problem, WIDTH);
    if (wide && problem.count <= 32 * WIDTH) return launch_short<T, Op, WIDTH, 1>(problem, device);
    if (wide) return launch_short<T, Op, WIDTH, MOST>(problem, device);
    return launch_short<T, Op, 1, SHORT_COUNT / 32>(problem, device);
  }

  template <typename T, typename Op>
  static void run(const Problem& problem, const Device& device) {
    if (is_short(problem)) return run_short<T, Op>(problem, device);
    if constexpr (Segment<T, Op, Lie::aligned>::ENDS_AT_ONCE) {
      if (are_lone<T>(problem)) return run_lone<T, Op>(problem, device);
    }
    switch (lie_of<T>(problem)) {
      case Lie::aligned:
        return launch_rows<T, Op, Lie::aligned>(problem, device);
      case Lie::shifted:
        return launch_rows<T, Op, Lie::shifted>(problem, device);
      case Lie::nested:
        return launch_rows<T, Op, Lie::nested>(problem, device);
      default:
        return launch_rows<T, Op, Lie::anywhere>(problem, device);
    }
  }

  static void run(const Problem& problem, const Device& device) {
    with_operator(problem.op, [&](auto op) {
      with_element_type(problem.in_dtype, [&](auto tag) {
        run<typename decltype(tag)::type, decltype(op)>(problem, device);
      });
    });
  }
};

}  // namespace

const Kernel rows{
    "rows",
    "warps along an output's elements, 16 bytes a load",
    "any shape, any strides",
    true,
    [](const Problem& problem, const Device& device) { return shape_of(problem, device).chunks; },
    &RowsOf::run,
    [](DType in_dtype) -> const void* {
      return with_element_type(in_dtype, [](auto tag) {
        using T = typename decltype(tag)::type;
        return reinterpret_cast<const void*>(rows_kernel<T, Sum, int(Lie::aligned)>);
      });
    },
    [](DType in_dtype) -> std::string_view {
      return with_element_type(in_dtype, [](auto tag) {
        using T = typename decltype(tag)::type;
        return symbol_of<rows_kernel<T, Sum, int(Lie::aligned)>>();
      });
    }};

}  // namespace SMEM_BUILD
}  // namespace smem::sum
