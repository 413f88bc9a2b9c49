// rows: warps run along the elements of an output.
//
// A warp reduces segments of 2048 elements (reduce/tile_reduce.h), 16 bytes a load where the elements are
// neighbours, wherever they begin; 1 to 8 warps share a row, and one word a warp goes through
// shared memory. A warp that has a row of its own waits for nobody. Rows longer than a block takes
// leave a node a chunk, and a second launch goes on from there.
//
// Rows of up to 256 elements are a kernel of their own: 4 to 32 lanes a row, four or eight rows a
// lane, so that as many loads are in flight as in a long row.
//
// So are rows that are a few vectors a lane (reduce/row_per_warp.h).
#pragma once

#include <algorithm>
#include <bit>

#include "device/pdl.h"
#include "reduce/row_per_warp.h"
#include "reduce/element_type.h"
#include "reduce/layout.h"
#include "reduce/store.h"
#include "reduce/tile_reduce.h"

namespace smem::reduce {
inline namespace SMEM_BUILD {

/// Segments a warp may take one after the other: of elements, and of nodes, where one launch less
/// is worth more than work for every SM.
constexpr int MAX_SEGMENTS = 8, MAX_NODE_SEGMENTS = 64;
/// Blocks that an SM runs at once, and those of rows of a warp each. What a second
/// launch costs, in the time of a segment, and how many nodes of a row cost another.
constexpr int ROW_BLOCKS_AT_ONCE = 3, LONE_ROW_BLOCKS = 4, SECOND_LAUNCH = 2, MANY_NODES = 4096;
/// Blocks of short rows an SM that keep it busy to the end.
constexpr int SHORT_ROW_BLOCKS = 16;

/// Levels of the tree above a warp's segments. Nodes are of the type that they come to.
template <typename T, typename Op>
constexpr int SEGMENT_LEVELS =
    std::bit_width(
        static_cast<unsigned>(std::is_same_v<T, Node<Op, T>> ? MAX_NODE_SEGMENTS : MAX_SEGMENTS)) -
    1;

/// The node above `segments` of them, a power of two, from segment `first` of an output on. Called
/// by a warp.
template <typename T, typename Op, Lie LIE>
__device__ __forceinline__ Node<Op, T> reduce_segments(const Problem& problem, int64_t output,
                                                       int64_t first, int segments) {
  Segment<T, Op, LIE> segment{
      problem, static_cast<const T*>(problem.in) + offsets_at(problem.outputs, output).of[IN]};
  const int length = segment.LENGTH * problem.chain;
  Counter<Op, Node<Op, T>, SEGMENT_LEVELS<T, Op>> counter;
  Node<Op, T> node{};
  for (int s = 0; s < segments; ++s) node = counter.push(s, segment.reduce((first + s) * length));
  return node;
}

struct Rows {
  Problem problem;
  int level;            ///< 2^level warps share a row
  int segments_a_warp;  ///< a power of two
};

/// LIE_ is a Lie: compilers agree on how an int is called in a kernel's name.
template <typename T, typename Op, int LIE_>
__global__ void __launch_bounds__(THREADS, Lie(LIE_) == Lie::nested ? 2 : ROW_BLOCKS_AT_ONCE)
    rows_kernel(const __grid_constant__ Rows rows) {
  using Acc = Node<Op, T>;
  __shared__ Tile<Acc, 1, WARPS> nodes;
  const Problem& problem = rows.problem;
  const int level = rows.level, warps_a_row = 1 << level;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  unsigned block = blockIdx.x, chunk = 0;
  if (problem.chunks > 1) {
    const auto chunks = static_cast<unsigned>(problem.chunks);
    chunk = block % chunks;
    block /= chunks;
  }
  const int64_t first_row = int64_t{block} * (WARPS >> level);

  launch_dependent_grids();
  wait_on_dependent_grids();
  Acc node = Op::template identity<Acc>();
  int64_t row = first_row + (warp >> level);
  if (row < problem.output_count) {
    const int64_t first_warp = int64_t{chunk} * warps_a_row + (warp & (warps_a_row - 1));
    node = reduce_segments<T, Op, Lie(LIE_)>(problem, row, first_warp * rows.segments_a_warp,
                                             rows.segments_a_warp);
  }
  bool stores = lane == 0;
  if (level > 0) {
    if (lane == 0) nodes(0, warp) = node;
    __syncthreads();
    if (warp > 0) return;
    node = lane < WARPS ? Acc(nodes(0, lane)) : Op::template identity<Acc>();
    node = node_above_lanes<Op>(node, 1, warps_a_row);
    row = first_row + (lane >> level);
    stores = lane < WARPS && (lane & (warps_a_row - 1)) == 0;
  }
  if (stores && row < problem.output_count)
    put_result(problem, row, chunk, Turn<T, Op>(problem).back(node));
}

struct LoneRows {
  Problem problem;
  int segments, rounds;
};

/// Rows of few segments, of whole vectors, a warp each, one after the other: the same with a third
/// of the instructions before the first load, and a block an SM more.
template <typename T, typename Op>
__global__ void __launch_bounds__(THREADS, LONE_ROW_BLOCKS)
    lone_rows_kernel(const __grid_constant__ LoneRows rows) {
  const Problem& problem = rows.problem;
  const int64_t first_row = int64_t{blockIdx.x} * WARPS * rows.rounds + threadIdx.x / 32;

  launch_dependent_grids();
  wait_on_dependent_grids();
  for (int round = 0; round < rows.rounds; ++round) {
    const int64_t row = first_row + round * WARPS;
    if (row >= problem.output_count) return;
    const auto node = reduce_segments<T, Op, Lie::aligned>(problem, row, 0, rows.segments);
    if (threadIdx.x % 32 == 0) put_result(problem, row, 0, Turn<T, Op>(problem).back(node));
  }
}

/// Rows of a lane that are combined together, and rounds that a block lives for: of rows of fewer
/// lanes than a warp, whose blocks end at once if there are not too few, and of others.
constexpr int ROWS_A_LANE = 4, MAX_ROUNDS = 3, MAX_WARP_ROUNDS = 8;

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
  const Turn<T, Op> turn(problem);

  launch_dependent_grids();
  wait_on_dependent_grids();
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
          if (exists) leaves.begin_with(loaded[g][r][j].elements(), turn);
          rows[r] = leaves.node();
        }
        nodes[j] = node_above_row<Op, T, LEVEL>(scatter_over_lanes<Op>(rows), lanes, ROWS_A_LANE);
      }
      const int64_t row = first_row + (g * ROWS_A_LANE + lane) * step;
      if (lane < ROWS_A_LANE && row < problem.output_count) {
        const Node<Op, T> identity = Op::template identity<Node<Op, T>>();
        put_result(problem, row, 0, turn.back(Op::combine(identity, node_above<Op>(nodes))));
      }
    }
  }
}

namespace {

/// One load of every lane for a row, or a few single elements. More nodes than these, which few
/// rows have, take 2 us less as a segment: code that is cold to a second launch counts.
constexpr int SHORT_COUNT = 256, SHORT_NODES = 64;

bool is_short(const Problem& problem) {
  const int most = problem.chain == 1 ? SHORT_NODES : SHORT_COUNT;
  return problem.count > 0 && problem.count <= most && problem.reduced.rank <= 1;
}

template <typename T>
Lie lie_of(const Problem& problem) {
  const OffsetCalculator<1>& loop = problem.reduced;
  if (rows_are_vectors(problem, VECTOR_WIDTH<T>)) return Lie::aligned;
  if (loop.rank == 1 && loop.stride[0][0] == 1) return Lie::shifted;
  return nested_rows_are_vectors(problem, VECTOR_WIDTH<T>) ? Lie::nested : Lie::anywhere;
}

struct Shape {
  int warps_a_row, segments_a_warp;
  int64_t chunks, blocks;
};

/// The shape that is done earliest, if blocks follow each other without a gap and the last ones are
/// on the average half done when the others end; some that do not fit at once take a turn of their
/// own. A row of five segments, say, goes to one warp where there are rows enough: eight warps
/// would leave three idle.
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
  const auto cost = [&](const Shape& shape) {
    const int at_once = shape.warps_a_row == 1 ? LONE_ROW_BLOCKS : ROW_BLOCKS_AT_ONCE;
    const double blocks = static_cast<double>(shape.blocks) / device.sm_count;
    const double waves = blocks / ROW_BLOCKS_AT_ONCE;
    const double turns = blocks > at_once ? std::max(2.0, waves) + 0.45 : std::max(1.0, waves);
    const double count = static_cast<double>(problem.count) / static_cast<double>(segment);
    const double nodes = std::min(1.0, static_cast<double>(shape.chunks) / MANY_NODES);
    return turns * std::min<double>(count, shape.segments_a_warp) +
           (shape.chunks > 1 ? SECOND_LAUNCH + nodes : 0);
  };
  const int most = problem.chain == 1 ? MAX_NODE_SEGMENTS : MAX_SEGMENTS;
  Shape best = cut(1);
  for (int segments_a_warp = 2; segments_a_warp <= most; segments_a_warp *= 2) {
    const Shape longer = cut(segments_a_warp);
    if (cost(longer) < cost(best)) best = longer;
  }
  return best;
}

struct RowsOf {
  static constexpr const char* NAME = "rows";

  /// Half a segment and less is so little work that a second row pays for a block's start.
  template <typename T, typename Op>
  static void launch_lone(const Problem& problem, const Device& device, const Shape& shape) {
    const int64_t enough = int64_t{SHORT_ROW_BLOCKS} * device.sm_count * WARPS;
    const bool is_half = 2 * problem.count <= int64_t{LANES} * span_of(sizeof(T)) * problem.chain;
    const int rounds = is_half && problem.output_count >= 2 * enough ? 2 : 1;
    launch(NAME, lone_rows_kernel<T, Op>,
           {ceil_div(problem.output_count, WARPS * rounds), {THREADS}, 0, problem.launch_with_pdl}, device,
           LoneRows{problem, shape.segments_a_warp, rounds});
  }

  template <typename T, typename Op, Lie LIE>
  static void launch_rows(const Problem& problem, const Device& device) {
    const Shape shape = shape_of(problem, device);
    if constexpr (LIE == Lie::aligned) {
      if (shape.warps_a_row == 1 && shape.chunks == 1)
        return launch_lone<T, Op>(problem, device, shape);
    }
    launch(NAME, rows_kernel<T, Op, int(LIE)>, {shape.blocks, {THREADS}, 0, problem.launch_with_pdl}, device,
           Rows{problem, std::countr_zero(static_cast<unsigned>(shape.warps_a_row)),
                shape.segments_a_warp});
  }

  template <typename T, typename Op, int VEC, int VECTORS>
  static void launch_short(const Problem& problem, const Device& device) {
    const int lanes = static_cast<int>(
        std::clamp<int64_t>(power_of_two_from(ceil_div(problem.count, VEC)), ROWS_A_LANE, 32));
    const int64_t rows_a_round =
        int64_t{WARPS} * std::max(ROWS_A_LANE, LOADS / VECTORS) * 32 / lanes;
    const int64_t enough = int64_t{SHORT_ROW_BLOCKS} * device.sm_count * rows_a_round;
    const int most = lanes < 32 ? MAX_ROUNDS : MAX_WARP_ROUNDS;
    const int64_t rounds = std::clamp<int64_t>(problem.output_count / enough, 1, most);
    launch(NAME, short_rows_kernel<T, Op, VEC, VECTORS>,
           {ceil_div(problem.output_count, rows_a_round * rounds), {THREADS}, 0, problem.launch_with_pdl},
           device, ShortRows{problem, lanes, static_cast<int>(rounds)});
  }

  template <typename T, typename Op>
  static void run_short(const Problem& problem, const Device& device) {
    constexpr int WIDTH = VECTOR_WIDTH<T>, MOST = std::max(1, SHORT_COUNT / (32 * WIDTH));
    const bool wide = problem.count % WIDTH == 0 && rows_are_vectors(problem, WIDTH);
    if (wide && problem.count <= 32 * WIDTH) return launch_short<T, Op, WIDTH, 1>(problem, device);
    if (wide) return launch_short<T, Op, WIDTH, MOST>(problem, device);
    return launch_short<T, Op, 1, SHORT_COUNT / 32>(problem, device);
  }

  /// Runs the kernel of up to `vectors` vectors a lane, if there is one.
  template <typename T, typename Op, int VECTORS>
  static bool launch_brief(const Problem& problem, const Device& device, int64_t vectors) {
    if constexpr (VECTORS > MOST_BRIEF<T>) {
      return false;
    } else {
      if (vectors > VECTORS) return launch_brief<T, Op, VECTORS + 1>(problem, device, vectors);
      launch(NAME, brief_rows_kernel<T, Op, VECTORS>,
             {ceil_div(problem.output_count, WARPS), {THREADS}, 0, problem.launch_with_pdl}, device,
             BriefRows{problem});
      return true;
    }
  }

  /// Whether rows are so short that a kernel of their own has taken them.
  template <typename T, typename Op>
  static bool run_brief(const Problem& problem, const Device& device, Lie lie) {
    constexpr int WIDTH = VECTOR_WIDTH<T>;
    if constexpr (MOST_BRIEF<T> > 0) {
      if (problem.count <= SHORT_COUNT || (lie != Lie::aligned && lie != Lie::shifted) ||
          problem.outputs.rank != 1 || problem.outputs.stride[IN][0] < WIDTH) {
        return false;
      }
      const int past = lie == Lie::shifted ? WIDTH - 1 : 0;  // of a row's first vector, at most
      const int64_t vectors = ceil_div(problem.count + past, 32 * WIDTH);
      const bool many = problem.output_count >= int64_t{MANY_ROWS} * device.sm_count;
      if (lie == Lie::aligned && (vectors > MOST_ALIGNED || !many)) return false;
      return launch_brief<T, Op, LEAST_BRIEF<T>>(problem, device, vectors);
    }
    return false;
  }

  template <typename T, typename Op>
  static void run(const Problem& problem, const Device& device) {
    if (is_short(problem)) return run_short<T, Op>(problem, device);
    const Lie lie = lie_of<T>(problem);
    if (run_brief<T, Op>(problem, device, lie)) return;
    switch (lie) {
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
};

}  // namespace

template <typename Op>
void launch_rows(const Problem& problem, const Device& device) {
  with_element_type(problem.in_dtype, [&](auto tag) {
    RowsOf::run<typename decltype(tag)::type, Op>(problem, device);
  });
}

}  // namespace SMEM_BUILD
}  // namespace smem::reduce
