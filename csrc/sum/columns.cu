// columns: a thread owns neighbouring outputs and runs down their elements.
//
// For outputs whose neighbours are neighbours in memory: a warp reads whole lines of memory, up to
// 16 bytes a thread. A thread takes 8 neighbouring leaves at a time (sum/order.h), 8 loads and more
// in flight with no sum waiting for another; where outputs are few, threads above each other share
// them, each a run of leaves of its own, and shuffles and shared memory join the runs.
#include <algorithm>

#include "device/symbol.h"
#include "sum/byte_group.h"
#include "sum/dispatch.h"
#include "sum/ladder.h"
#include "sum/layout.h"
#include "sum/leaf_group.h"
#include "sum/result.h"

namespace smem::sum {
inline namespace SMEM_BUILD {

/// Elements a load: with 8 leaves of 4 elements, a thread holds 32 sums. Bytes are summed by words.
template <typename T, typename Op>
constexpr bool BY_BYTES = sizeof(T) == 1 && std::is_same_v<Op, Sum>;
template <typename T, typename Op>
constexpr int COLUMN_WIDTH = BY_BYTES<T, Op> ? 16 : std::min(4, VECTOR_WIDTH<T>);

constexpr int GROUP_LEVELS = 2;  ///< up to 2^2 groups one after the other
constexpr int MAX_LEAVES = GROUP << GROUP_LEVELS;
static_assert(MAX_LEAVES == 1 << NARROW_LEVELS, "a thread ends where sums widen");
constexpr int COLUMN_BLOCKS_AT_ONCE = 2;
constexpr int WIDEST = 32;        ///< threads side by side, if others can be above each other
constexpr int COLUMN_BLOCKS = 8;  ///< blocks a multiprocessor, for which work is divided

struct Columns {
  Problem problem;
  int threads_across, leaves_a_thread;  ///< powers of two
  unsigned tiles;                       ///< blocks across
};

/// Two nodes' parent. A narrow one is rounded as a float32 addition would have done: twice its bits
/// and two more make rounding twice harmless.
template <typename Op, typename T>
__device__ __forceinline__ Node<Op, T> combine(Node<Op, T> a, Node<Op, T> b, bool narrow) {
  const Node<Op, T> parent = Op::combine(a, b);
  return narrow ? Node<Op, T>(static_cast<Accumulator<T>>(parent)) : parent;
}

template <typename T, typename Op, int VEC, bool NESTED>
__global__ void __launch_bounds__(THREADS, COLUMN_BLOCKS_AT_ONCE)
    columns_kernel(const __grid_constant__ Columns columns) {
  using Acc = Node<Op, T>;
  __shared__ Tile<Acc, VEC, THREADS> nodes;
  const Problem& problem = columns.problem;
  const int thread = threadIdx.x, across = columns.threads_across, above = THREADS / across;
  const int x = thread % across, y = thread / across;
  const unsigned tile = blockIdx.x % columns.tiles;
  const int64_t chunk = blockIdx.x / columns.tiles;
  const int64_t output = (int64_t{tile} * across + x) * VEC;
  const bool exists = output < problem.output_count;

  Leaf<T> run[VEC] = {};
  if (exists) {
    using Group = std::conditional_t<BY_BYTES<T, Op> && VEC == 16, ByteGroup<T>,
                                     LeafGroup<T, Op, VEC, NESTED>>;
    const Group group{
        problem, static_cast<const T*>(problem.in) + offsets_at(problem.outputs, output).of[IN]};
    const int64_t first = (chunk * above + y) * columns.leaves_a_thread;
    Counter<Op, Leaf<T>, GROUP_LEVELS> counters[VEC];
    constexpr int BATCH = Group::BATCH;
    const int groups = columns.leaves_a_thread / GROUP;
    int g = 0;
    if constexpr (BATCH > 1) {
      for (; problem.count <= LANES && g + BATCH <= groups; g += BATCH) {
        Leaf<T> batch[BATCH][VEC];
        group.reduce_single(first + g * GROUP, batch);
#pragma unroll
        for (int b = 0; b < BATCH; ++b) {
#pragma unroll
          for (int v = 0; v < VEC; ++v) run[v] = counters[v].push(g + b, batch[b][v]);
        }
      }
    }
    for (; g < groups; ++g) {
      group.reduce(first + g * GROUP, run);
#pragma unroll
      for (int v = 0; v < VEC; ++v) run[v] = counters[v].push(g, run[v]);
    }
  }
  Acc node[VEC] = {};
#pragma unroll
  for (int v = 0; v < VEC; ++v) node[v] = Acc(run[v]);
  for (int apart = 1; apart < above; apart *= 2) {
    const int threads_apart = apart * across;
    const bool narrow = 2 * apart * columns.leaves_a_thread <= 1 << NARROW_LEVELS;
    if (threads_apart < 32) {
#pragma unroll
      for (int v = 0; v < VEC; ++v) {
        node[v] =
            combine<Op, T>(node[v], __shfl_down_sync(ALL_LANES, node[v], threads_apart), narrow);
      }
      continue;
    }
    if (y % apart == 0) {
#pragma unroll
      for (int v = 0; v < VEC; ++v) nodes(v, thread) = node[v];
    }
    // One barrier a level: what is read now, no later level writes.
    __syncthreads();
    if (y % (2 * apart) == 0) {
#pragma unroll
      for (int v = 0; v < VEC; ++v) {
        node[v] = combine<Op, T>(node[v], Acc(nodes(v, thread + threads_apart)), narrow);
      }
    }
  }
  if (y > 0 || !exists) return;
#pragma unroll
  for (int v = 0; v < VEC; ++v) put_result(problem, output + v, chunk, node[v]);
}

namespace {

struct ColumnsShape {
  int threads_across, leaves_a_thread;
  int64_t tiles, chunks;
};

ColumnsShape columns_shape(const Problem& problem, const Device& device, int width) {
  const int64_t segment = int64_t{LANES} * problem.chain;
  const int64_t leaves = std::max<int64_t>(
      1, problem.count / segment * LANES + std::min<int64_t>(LANES, problem.count % segment));
  const int64_t threads = ceil_div(problem.output_count, width);
  const int64_t wanted = int64_t{COLUMN_BLOCKS} * THREADS * device.multiprocessors;
  int64_t mine = std::clamp<int64_t>(power_of_two_from(leaves), GROUP, MAX_LEAVES);
  for (; mine > GROUP && threads * ceil_div(leaves, mine) < wanted; mine /= 2) {
  }
  const int64_t across =
      std::max(std::min<int64_t>(WIDEST, power_of_two_from(threads)),
               THREADS / std::min<int64_t>(THREADS, power_of_two_from(ceil_div(leaves, mine))));
  return {static_cast<int>(across), static_cast<int>(mine), ceil_div(threads, across),
          ceil_div(leaves, mine * (THREADS / across))};
}

/// The widest access that the problem allows.
int column_width(const Problem& problem) {
  int width = 1;
  with_operator(problem.op, [&](auto op) {
    with_element_type(problem.in_dtype, [&](auto tag) {
      constexpr int WIDTH = COLUMN_WIDTH<typename decltype(tag)::type, decltype(op)>;
      if (columns_are_vectors(problem, WIDTH)) width = WIDTH;
    });
  });
  return width;
}

template <typename T, typename Op, int VEC, bool NESTED = false>
void launch_columns(const Problem& problem, const Device& device) {
  const ColumnsShape shape = columns_shape(problem, device, VEC);
  launch("columns", columns_kernel<T, Op, VEC, NESTED>, {shape.tiles * shape.chunks, {THREADS}},
         device,
         Columns{problem, shape.threads_across, shape.leaves_a_thread,
                 static_cast<unsigned>(shape.tiles)});
}

void run_columns(const Problem& problem, const Device& device) {
  with_operator(problem.op, [&](auto op) {
    with_element_type(problem.in_dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      if (column_width(problem) > 1) {
        launch_columns<T, decltype(op), COLUMN_WIDTH<T, decltype(op)>>(problem, device);
      } else if (problem.reduced.rank <= 1) {
        launch_columns<T, decltype(op), 1>(problem, device);
      } else {
        launch_columns<T, decltype(op), 1, true>(problem, device);
      }
    });
  });
}

}  // namespace

const Kernel columns{
    "columns",
    "threads down neighbouring outputs, up to 16 bytes a load",
    "any shape, any strides",
    true,
    [](const Problem& problem, const Device& device) {
      return columns_shape(problem, device, column_width(problem)).chunks;
    },
    &run_columns,
    [](DType in_dtype) -> const void* {
      return with_element_type(in_dtype, [](auto tag) {
        using T = typename decltype(tag)::type;
        return reinterpret_cast<const void*>(columns_kernel<T, Sum, COLUMN_WIDTH<T, Sum>, false>);
      });
    },
    [](DType in_dtype) -> std::string_view {
      return with_element_type(in_dtype, [](auto tag) {
        using T = typename decltype(tag)::type;
        return symbol_of<columns_kernel<T, Sum, COLUMN_WIDTH<T, Sum>, false>>();
      });
    }};

}  // namespace SMEM_BUILD
}  // namespace smem::sum
