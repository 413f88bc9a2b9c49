// rows: warps run along the elements of an output.
//
// A warp reduces segments of 2048 elements (sum/segment.h), 16 bytes a load where the elements are
// neighbours; 1 to 8 warps share a row, and one word a warp goes through shared memory. Rows longer
// than a block takes leave a node a chunk, and a second launch goes on from there.
//
// Rows of up to 256 elements are a kernel of their own: 4 to 32 lanes a row, four rows a lane, so
// that as many loads are in flight as in a long row.
#include <algorithm>

#include "device/symbol.h"
#include "sum/dispatch.h"
#include "sum/ladder.h"
#include "sum/layout.h"
#include "sum/result.h"
#include "sum/segment.h"

namespace smem::sum {
inline namespace SMEM_BUILD {

/// Blocks a multiprocessor that keep it busy to the end: long rows are cut until there are as many.
constexpr int ROW_BLOCKS = 16;
/// Segments a warp may take one after the other: of elements, and of nodes, where one launch less
/// is worth more than work for every multiprocessor.
constexpr int MAX_SEGMENTS = 8, MAX_NODE_SEGMENTS = 64, SEGMENT_LEVELS = 6;

struct Rows {
  Problem problem;
  int warps_a_row, segments_a_warp;  ///< powers of two
};

template <typename T, typename Op, int VEC, bool NESTED>
__global__ void __launch_bounds__(THREADS) rows_kernel(const __grid_constant__ Rows rows) {
  using Acc = Accumulator<T>;
  __shared__ Tile<Acc, 1, WARPS> nodes;
  const Problem& problem = rows.problem;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int rows_a_block = WARPS / rows.warps_a_row;
  const unsigned chunks = static_cast<unsigned>(problem.chunks), chunk = blockIdx.x % chunks;
  const int64_t first_row = int64_t{blockIdx.x / chunks} * rows_a_block;

  Acc node = Op::template identity<Acc>();
  const int64_t row = first_row + warp / rows.warps_a_row;
  if (row < problem.output_count) {
    const Segment<T, Op, VEC, NESTED> segment{
        problem, static_cast<const T*>(problem.in) + offsets_at(problem.outputs, row).of[IN]};
    const int64_t first_segment =
        (int64_t{chunk} * rows.warps_a_row + warp % rows.warps_a_row) * rows.segments_a_warp;
    Counter<Op, Acc, SEGMENT_LEVELS> counter;
    for (int s = 0; s < rows.segments_a_warp; ++s) {
      node = counter.push(s, segment.reduce(first_segment + s));
    }
  }
  if (lane == 0) nodes(0, warp) = node;
  __syncthreads();
  if (warp > 0) return;
  node = lane < WARPS ? Acc(nodes(0, lane)) : Op::template identity<Acc>();
  node = node_above_lanes<Op>(node, rows.warps_a_row);
  const int64_t stored_row = first_row + lane / rows.warps_a_row;
  if (lane < WARPS && lane % rows.warps_a_row == 0 && stored_row < problem.output_count) {
    put_result(problem, stored_row, chunk, node);
  }
}

/// Four rows a lane are under way together; a block lives for several such rounds.
constexpr int ROWS_A_LANE = 4, MAX_ROUNDS = 8;

struct ShortRows {
  Problem problem;
  int lanes_a_row;  ///< a power of two from ROWS_A_LANE
  int rounds;       ///< of ROWS_A_LANE rows a lane
};

template <typename T, typename Op, int VEC>
__global__ void __launch_bounds__(THREADS)
    short_rows_kernel(const __grid_constant__ ShortRows short_rows) {
  using Acc = Accumulator<T>;
  constexpr int VECTORS = Segment<T, Op, VEC>::VECTORS;
  const Problem& problem = short_rows.problem;
  const int lanes = short_rows.lanes_a_row, lane = threadIdx.x % lanes, step = 32 / lanes;
  const int64_t warp = int64_t{blockIdx.x} * WARPS + threadIdx.x / 32;
  const T* const in = static_cast<const T*>(problem.in);

  for (int round = 0; round < short_rows.rounds; ++round) {
    const int64_t first_row =
        (warp * short_rows.rounds + round) * ROWS_A_LANE * step + threadIdx.x % 32 / lanes;
    Vector<T, VEC> loaded[ROWS_A_LANE][VECTORS] = {};
#pragma unroll
    for (int r = 0; r < ROWS_A_LANE; ++r) {
      const int64_t row = first_row + r * step;
      if (row < problem.output_count) {
        const T* const begin = in + offsets_at(problem.outputs, row).of[IN];
#pragma unroll
        for (int j = 0; j < VECTORS; ++j) {
          const int i = (j * lanes + lane) * VEC;
          if (i < problem.count) loaded[r][j] = load_vector<VEC>(begin + i);
        }
      }
    }

    Acc mine = Op::template identity<Acc>();
#pragma unroll
    for (int r = 0; r < ROWS_A_LANE; ++r) {
      Acc nodes[VECTORS] = {};
#pragma unroll
      for (int j = 0; j < VECTORS; ++j) {
        const bool exists = (j * lanes + lane) * VEC < problem.count;
        Leaf<T> leaves[VEC];
#pragma unroll
        for (int v = 0; v < VEC; ++v) {
          leaves[v] = Op::template identity<Leaf<T>>();
          if (exists) leaves[v] = Op::combine(leaves[v], to_leaf(loaded[r][j].lane[v]));
        }
        nodes[j] = node_above_lanes<Op, Acc>(node_above<Op>(leaves), lanes);
      }
      const Acc node = node_above<Op>(nodes);
      if (lane == r) mine = node;
    }
    // Lane r of a row's lanes holds row r of its four: one store for all of a warp's rows.
    const int64_t row = first_row + lane * step;
    if (lane < ROWS_A_LANE && row < problem.output_count) put_result(problem, row, 0, mine);
  }
}

namespace {

/// Reads the whole row by vectors, and no more than one round of them.
template <typename T>
bool is_short(const Problem& problem) {
  constexpr int WIDTH = VECTOR_WIDTH<T>;
  return problem.count > 0 && problem.count <= Segment<T, Sum, WIDTH>::ROUND &&
         problem.count % WIDTH == 0 && rows_are_vectors(problem, WIDTH);
}

struct Shape {
  int warps_a_row, segments_a_warp;
  int64_t chunks, blocks;
};

Shape shape_of(const Problem& problem, const Device& device) {
  const int64_t segments = std::max<int64_t>(1, ceil_div(problem.count, LANES * problem.chain));
  const auto cut = [&](int segments_a_warp) {
    const int64_t warps = ceil_div(segments, segments_a_warp);
    const auto warps_a_row = static_cast<int>(std::min<int64_t>(WARPS, power_of_two_from(warps)));
    const int64_t chunks = ceil_div(warps, warps_a_row);
    return Shape{warps_a_row, segments_a_warp, chunks,
                 chunks * ceil_div(problem.output_count, WARPS / warps_a_row)};
  };
  const bool of_nodes = problem.chain == 1;
  const int most = of_nodes ? MAX_NODE_SEGMENTS : MAX_SEGMENTS;
  const int64_t least_blocks = of_nodes ? 1 : int64_t{ROW_BLOCKS} * device.multiprocessors;
  Shape shape = cut(1);
  for (int segments = 2; segments <= most && shape.chunks > 1; segments *= 2) {
    const Shape longer = cut(segments);
    // A second launch costs more than a quarter of the blocks does.
    if (longer.blocks < (longer.chunks == 1 ? least_blocks / 4 : least_blocks)) continue;
    shape = longer;
  }
  return shape;
}

struct RowsOf {
  static constexpr const char* NAME = "rows";

  template <typename T, typename Op, int VEC, bool NESTED = false>
  static void launch_rows(const Problem& problem, const Device& device) {
    const Shape shape = shape_of(problem, device);
    launch(NAME, rows_kernel<T, Op, VEC, NESTED>, {shape.blocks, {THREADS}}, device,
           Rows{problem, shape.warps_a_row, shape.segments_a_warp});
  }

  template <typename T, typename Op>
  static void launch_short(const Problem& problem, const Device& device) {
    constexpr int WIDTH = VECTOR_WIDTH<T>;
    const int lanes = static_cast<int>(
        std::clamp<int64_t>(power_of_two_from(problem.count / WIDTH), ROWS_A_LANE, 32));
    const int64_t rows_a_round = int64_t{WARPS} * ROWS_A_LANE * 32 / lanes;
    const int64_t enough = int64_t{ROW_BLOCKS} * device.multiprocessors * rows_a_round;
    const int64_t rounds = std::clamp<int64_t>(problem.output_count / enough, 1, MAX_ROUNDS);
    launch(NAME, short_rows_kernel<T, Op, WIDTH>,
           {ceil_div(problem.output_count, rows_a_round * rounds), {THREADS}}, device,
           ShortRows{problem, lanes, static_cast<int>(rounds)});
  }

  static void run(const Problem& problem, const Device& device) {
    with_operator(problem.op, [&](auto op) {
      with_element_type(problem.in_dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        using Op = decltype(op);
        if (is_short<T>(problem)) {
          launch_short<T, Op>(problem, device);
        } else if (rows_are_vectors(problem, VECTOR_WIDTH<T>)) {
          launch_rows<T, Op, VECTOR_WIDTH<T>>(problem, device);
        } else if (problem.reduced.rank <= 1) {
          launch_rows<T, Op, 1>(problem, device);
        } else {
          launch_rows<T, Op, 1, true>(problem, device);
        }
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
        return reinterpret_cast<const void*>(rows_kernel<T, Sum, VECTOR_WIDTH<T>, false>);
      });
    },
    [](DType in_dtype) -> std::string_view {
      return with_element_type(in_dtype, [](auto tag) {
        using T = typename decltype(tag)::type;
        return symbol_of<rows_kernel<T, Sum, VECTOR_WIDTH<T>, false>>();
      });
    }};

}  // namespace SMEM_BUILD
}  // namespace smem::sum
