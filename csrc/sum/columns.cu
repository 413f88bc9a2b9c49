// columns: a thread owns neighbouring outputs and runs down their elements.
//
// For outputs whose neighbours are neighbours in memory: a warp reads whole lines of memory, up to
// 16 bytes a thread. A thread takes 8 neighbouring leaves at a time (sum/order.h), 8 loads in
// flight with no sum waiting for another; where outputs are few, threads above each other share
// them, each a run of leaves of its own, and shuffles and shared memory join the runs.
#include <algorithm>

#include "device/symbol.h"
#include "device/vector.h"
#include "sum/dispatch.h"
#include "sum/ladder.h"
#include "sum/layout.h"
#include "sum/result.h"

namespace smem::sum {
inline namespace SMEM_BUILD {

/// Elements a load, at most: with 8 leaves of each, a thread holds 32 sums.
constexpr int MAX_COLUMN_WIDTH = 4;
template <typename T>
constexpr int COLUMN_WIDTH = std::min(MAX_COLUMN_WIDTH, VECTOR_WIDTH<T>);

constexpr int GROUP = 8;         ///< leaves that a thread takes at a time
constexpr int GROUP_LEVELS = 3;  ///< up to 2^3 groups one after the other
constexpr int MAX_LEAVES = GROUP << GROUP_LEVELS;
/// Of a thread; by Little's law 26 to 40 KB a multiprocessor hide an H200's latency, and there are
/// 512 threads of up to 128 registers.
constexpr int BYTES_IN_FLIGHT = 128, MAX_BATCH = 4, BLOCKS_AT_ONCE = 2;
constexpr int WIDEST = 32;        ///< threads side by side, if others can be above each other
constexpr int COLUMN_BLOCKS = 8;  ///< blocks a multiprocessor, for which work is divided

struct Columns {
  Problem problem;
  int threads_across, leaves_a_thread;  ///< powers of two
  int64_t tiles;                        ///< blocks across
};

/// The elements of a GROUP of neighbouring leaves of VEC columns. NESTED: the elements of a column
/// lie along several loops.
template <typename T, typename Op, int VEC, bool NESTED>
struct LeafGroup {
  /// Rounds, of an element a leaf, whose loads are under way together.
  static constexpr int BATCH =
      std::clamp(BYTES_IN_FLIGHT / (GROUP * VEC * static_cast<int>(sizeof(T))), 1, MAX_BATCH);

  const Problem& problem;
  const T* column;

  __device__ __forceinline__ void reduce(int64_t leaf, Leaf<T> (&nodes)[VEC],
                                         Site site = Site::here()) const {
    Leaf<T> leaves[VEC][GROUP];
#pragma unroll
    for (int v = 0; v < VEC; ++v) {
#pragma unroll
      for (int g = 0; g < GROUP; ++g) leaves[v][g] = Op::template identity<Leaf<T>>();
    }
    const int64_t first = leaf / LANES * LANES * problem.chain + leaf % LANES;
    const int64_t left = problem.count - first;
    const int chain = left <= 0 ? 0 : problem.chain;
    // Rounds that all leaves have an element in.
    const int whole =
        left < GROUP ? 0 : static_cast<int>(std::min<int64_t>(chain, (left - GROUP) / LANES + 1));
    int round = 0;
    for (; round + BATCH <= whole; round += BATCH) add<BATCH, true>(leaves, first, round, site);
    for (; round < chain; ++round) add<1, false>(leaves, first, round, site);
#pragma unroll
    for (int v = 0; v < VEC; ++v) nodes[v] = node_above<Op>(leaves[v]);
  }

 private:
  template <int ROUNDS, bool WHOLE>
  __device__ __forceinline__ void add(Leaf<T> (&leaves)[VEC][GROUP], int64_t first, int round,
                                      Site site) const {
    Vector<T, VEC> loaded[ROUNDS][GROUP] = {};
    const int64_t row = first + round * LANES;
#pragma unroll
    for (int r = 0; r < ROUNDS; ++r) {
#pragma unroll
      for (int g = 0; g < GROUP; ++g) {
        const int64_t i = row + r * LANES + g;
        if (WHOLE || i < problem.count) loaded[r][g] = load_vector<VEC>(at(i), site);
      }
    }
#pragma unroll
    for (int r = 0; r < ROUNDS; ++r) {
#pragma unroll
      for (int g = 0; g < GROUP; ++g) {
        if (WHOLE || row + g < problem.count) {
#pragma unroll
          for (int v = 0; v < VEC; ++v) {
            leaves[v][g] = Op::combine(leaves[v][g], to_leaf(loaded[r][g].lane[v]));
          }
        }
      }
    }
  }

  __device__ __forceinline__ const T* at(int64_t row) const {
    if constexpr (NESTED) return column + call_offsets_at(problem.reduced, row).of[0];
    return column + row * problem.reduced.stride[0][0];
  }
};

template <typename T, typename Op, int VEC, bool NESTED>
__global__ void __launch_bounds__(THREADS, BLOCKS_AT_ONCE)
    columns_kernel(const __grid_constant__ Columns columns) {
  using Acc = Accumulator<T>;
  __shared__ Tile<Acc, VEC, THREADS> nodes;
  const Problem& problem = columns.problem;
  const int thread = threadIdx.x, across = columns.threads_across, above = THREADS / across;
  const int x = thread % across, y = thread / across;
  const int64_t tile = blockIdx.x % columns.tiles, chunk = blockIdx.x / columns.tiles;
  const int64_t output = (tile * across + x) * VEC;
  const bool exists = output < problem.output_count;

  Leaf<T> run[VEC] = {};
  if (exists) {
    const LeafGroup<T, Op, VEC, NESTED> group{
        problem, static_cast<const T*>(problem.in) + offsets_at(problem.outputs, output).of[IN]};
    const int64_t first = (chunk * above + y) * columns.leaves_a_thread;
    Counter<Op, Leaf<T>, GROUP_LEVELS> counters[VEC];
    for (int g = 0; g < columns.leaves_a_thread / GROUP; ++g) {
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
    if (threads_apart < 32) {
#pragma unroll
      for (int v = 0; v < VEC; ++v) {
        node[v] = Op::combine(node[v], __shfl_down_sync(ALL_LANES, node[v], threads_apart));
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
        node[v] = Op::combine(node[v], Acc(nodes(v, thread + threads_apart)));
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
  return with_element_type(problem.in_dtype, [&](auto tag) {
    constexpr int WIDTH = COLUMN_WIDTH<typename decltype(tag)::type>;
    return columns_are_vectors(problem, WIDTH) ? WIDTH : 1;
  });
}

template <typename T, typename Op, int VEC, bool NESTED = false>
void launch_columns(const Problem& problem, const Device& device) {
  const ColumnsShape shape = columns_shape(problem, device, VEC);
  launch("columns", columns_kernel<T, Op, VEC, NESTED>, {shape.tiles * shape.chunks, {THREADS}},
         device, Columns{problem, shape.threads_across, shape.leaves_a_thread, shape.tiles});
}

void run_columns(const Problem& problem, const Device& device) {
  with_operator(problem.op, [&](auto op) {
    with_element_type(problem.in_dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      if (column_width(problem) > 1) {
        launch_columns<T, decltype(op), COLUMN_WIDTH<T>>(problem, device);
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
        return reinterpret_cast<const void*>(columns_kernel<T, Sum, COLUMN_WIDTH<T>, false>);
      });
    },
    [](DType in_dtype) -> std::string_view {
      return with_element_type(in_dtype, [](auto tag) {
        using T = typename decltype(tag)::type;
        return symbol_of<columns_kernel<T, Sum, COLUMN_WIDTH<T>, false>>();
      });
    }};

}  // namespace SMEM_BUILD
}  // namespace smem::sum
