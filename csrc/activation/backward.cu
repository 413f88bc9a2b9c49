// A thread runs down the columns of dz (sum/column_block.h), which it makes, stores and sums: dy
// and z are read once, dz is written once and never read again.
#include "activation/backward.h"
#include "activation/gradient.h"
#include "device/symbol.h"
#include "sum/column_block.h"
#include "sum/result.h"

namespace smem::activation {
inline namespace SMEM_BUILD {

using sum::ColumnsShape;

struct Argument {
  Problem problem;
  ColumnsShape shape;
};

/// The rows of VEC columns of dz, each stored as it is made.
template <typename T, int VEC>
struct RowsOfGradient {
  using Run = Vector<T, VEC>;
  struct Loaded {
    Run dy, z;
  };

  Matrix<const T> dy, z;
  Matrix<T> dz;
  int64_t col;
  gemm::Activation activation;

  __device__ __forceinline__ Loaded load(int64_t row, Site site) const {
    return {load_vector<VEC>(dy.at(row, col, site), site),
            load_vector<VEC>(z.at(row, col, site), site)};
  }
  __device__ __forceinline__ Run values(int64_t row, const Loaded& loaded, Site site) const {
    Run run = {};
#pragma unroll
    for (int v = 0; v < VEC; ++v) {
      run.lane[v] = from_accumulator<T>(gradient(activation, to_accumulator(loaded.dy.lane[v]),
                                                 to_accumulator(loaded.z.lane[v])));
    }
    store_global_vector<VEC>(dz.at(row, col, site), run, site);
    return run;
  }
};

template <typename T, int VEC>
__global__ void __launch_bounds__(sum::THREADS, sum::BLOCKS_AT_ONCE)
    backward_kernel(const __grid_constant__ Argument argument) {
  using Acc = Accumulator<T>;
  using Rows = RowsOfGradient<T, VEC>;
  __shared__ Tile<Acc, VEC, sum::THREADS> nodes;
  const Problem& problem = argument.problem;
  const sum::Problem& sums = problem.sums;
  const sum::ColumnThread<VEC> thread(argument.shape);
  const bool exists = thread.output < sums.output_count;

  Acc node[VEC] = {};
  if (exists) {
    const int64_t rows = sums.count, cols = sums.output_count;
    const auto view = [&](const gemm::Operand& operand) {
      return Matrix<const T>{static_cast<const T*>(operand.data), rows, cols, operand.row_stride,
                             operand.col_stride};
    };
    const Matrix<T> dz{static_cast<T*>(problem.dz), rows, cols, cols, 1};
    thread.reduce(
        sum::LeafGroup<T, sum::Sum, VEC, Rows>{
            sums, {view(problem.grad), view(problem.z), dz, thread.output, problem.activation}},
        node);
  }
  thread.template join<sum::Sum>(node, nodes);
  if (thread.y > 0 || !exists) return;
#pragma unroll
  for (int v = 0; v < VEC; ++v) sum::put_result(sums, thread.output + v, thread.chunk, node[v]);
}

namespace {

/// Whether every row can be accessed by `width` elements at a time.
bool rows_are_wide(const Problem& problem, int width) {
  const auto bytes = static_cast<int64_t>(size_of(problem.sums.in_dtype)) * width;
  const auto is_wide = [&](const gemm::Operand& operand) {
    return operand.col_stride == 1 && operand.row_stride % width == 0 &&
           reinterpret_cast<intptr_t>(operand.data) % bytes == 0;
  };
  return problem.sums.output_count % width == 0 && is_wide(problem.grad) && is_wide(problem.z) &&
         reinterpret_cast<intptr_t>(problem.dz) % bytes == 0;
}

/// Calls f(type tag, width as an integral_constant) for the instance that the problem takes.
template <typename F>
auto with_instance(const Problem& problem, const F& f) {
  return with_float_type(problem.sums.in_dtype, [&](auto tag) {
    constexpr int WIDTH = sum::COLUMN_WIDTH<typename decltype(tag)::type>;
    if (rows_are_wide(problem, WIDTH)) return f(tag, std::integral_constant<int, WIDTH>{});
    return f(tag, std::integral_constant<int, 1>{});
  });
}

int64_t chunks_of(const Problem& problem, const Device& device) {
  return with_instance(problem, [&](auto, auto width) {
    return sum::columns_shape(problem.sums, device, width).chunks;
  });
}

void launch_backward(const Problem& problem, const Device& device) {
  with_instance(problem, [&](auto tag, auto width) {
    using T = typename decltype(tag)::type;
    const ColumnsShape shape = sum::columns_shape(problem.sums, device, width);
    launch("activation_backward", backward_kernel<T, decltype(width)::value>,
           {shape.tiles * shape.chunks, {sum::THREADS}}, device, Argument{problem, shape});
  });
}

}  // namespace
}  // namespace SMEM_BUILD

#if defined(__CUDACC__)
const Backward device_backward{&chunks_of, &launch_backward};
#elif defined(SMEM_TRACED)
const Backward traced_backward{&chunks_of, &launch_backward};
#else
const Backward host_backward{&chunks_of, &launch_backward};
#endif

}  // namespace smem::activation
