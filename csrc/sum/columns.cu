// columns: a thread owns neighbouring outputs and runs down their elements (sum/column_block.h).
//
// For outputs whose neighbours are neighbours in memory: a warp reads whole lines of memory, up to
// 16 bytes a thread.
#include "device/symbol.h"
#include "sum/column_block.h"
#include "sum/ladder.h"
#include "sum/layout.h"
#include "sum/result.h"

namespace smem::sum {
inline namespace SMEM_BUILD {

struct Columns {
  Problem problem;
  ColumnsShape shape;
};

/// The rows of VEC columns of x. NESTED: the elements of a column lie along several loops.
template <typename T, int VEC, bool NESTED>
struct RowsOfX {
  using Loaded = Vector<T, VEC>;

  const Problem& problem;
  const T* column;

  __device__ __forceinline__ Loaded load(int64_t i, Site site) const {
    return load_vector<VEC>(at(i), site);
  }
  __device__ __forceinline__ const Loaded& values(int64_t, const Loaded& loaded, Site) const {
    return loaded;
  }

 private:
  __device__ __forceinline__ const T* at(int64_t row) const {
    if constexpr (NESTED) return column + call_offsets_at(problem.reduced, row).of[0];
    return column + row * problem.reduced.stride[0][0];
  }
};

template <typename T, typename Op, int VEC, bool NESTED>
__global__ void __launch_bounds__(THREADS, BLOCKS_AT_ONCE)
    columns_kernel(const __grid_constant__ Columns columns) {
  using Acc = Accumulator<T>;
  using Rows = RowsOfX<T, VEC, NESTED>;
  __shared__ Tile<Acc, VEC, THREADS> nodes;
  const Problem& problem = columns.problem;
  const ColumnThread<VEC> thread(columns.shape);
  const bool exists = thread.output < problem.output_count;

  Leaf<T> run[VEC] = {};
  if (exists) {
    const int64_t offset = offsets_at(problem.outputs, thread.output).of[IN];
    thread.reduce(
        LeafGroup<T, Op, VEC, Rows>{problem, {problem, static_cast<const T*>(problem.in) + offset}},
        run);
  }
  Acc node[VEC] = {};
#pragma unroll
  for (int v = 0; v < VEC; ++v) node[v] = Acc(run[v]);
  thread.template join<Op>(node, nodes);
  if (thread.y > 0 || !exists) return;
#pragma unroll
  for (int v = 0; v < VEC; ++v) put_result(problem, thread.output + v, thread.chunk, node[v]);
}

namespace {

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
         device, Columns{problem, shape});
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
