// The backward pass of an activation and of the bias before it, in one kernel.
//
//   dz[r, c]   = dy[r, c] * activation'(z[r, c])        stored as it is computed
//   bias_gradient[c] = sum over r of dz[r, c]
//
// A thread goes down VEC neighbouring columns of dz, with the thread map of column reductions
// (reduce/column_thread_map.h): dy and z are read once, dz is written once and never read. If a
// column is divided over several blocks, a later launch of a reduction kernel combines their
// partials.
//
// The order of additions is that of reduce/reduction_tree.h, so bias_gradient has the bits of
// dz.sum(0). The vector width and the launch bounds may be tuned.
#include "activation/backward.h"
#include "activation/gradient.h"
#include "device/symbol.h"
#include "reduce/column_thread_map.h"
#include "reduce/store.h"

namespace smem::activation {
inline namespace SMEM_BUILD {

using reduce::ColumnThreadMap;

struct BackwardParams {
  Problem problem;
  ColumnThreadMap map;
};

/// Computes and stores the rows of VEC columns of dz, for ColumnTile. The activation is a template
/// parameter, so that the computations of neighbouring elements can overlap.
template <typename T, int VEC, gemm::Activation ACTIVATION>
struct GradientRows {
  using Elements = Vector<T, VEC>;
  struct Loaded {
    smem::Loaded<T, VEC> dy, z;
  };

  const T *dy, *z;  ///< the first row's VEC elements
  int64_t dy_stride, z_stride, dz_stride;
  T* dz;

  __device__ __forceinline__ GradientRows from(int64_t row) const {
    return {dy + row * dy_stride, z + row * z_stride, dy_stride, z_stride, dz_stride,
            dz + row * dz_stride};
  }
  __device__ __forceinline__ Loaded load(int row) const {
    return {load_words<VEC>(dy + row * dy_stride), load_words<VEC>(z + row * z_stride)};
  }
  __device__ __forceinline__ Elements values(const Loaded& loaded) const {
    const Elements dy = loaded.dy.elements(), z = loaded.z.elements();
    Elements elements = {};
#pragma unroll
    for (int v = 0; v < VEC; ++v) {
      elements.lane[v] = from_accumulator<T>(gradient<sizeof(T) == 2>(
          ACTIVATION, to_accumulator(dy.lane[v]), to_accumulator(z.lane[v])));
    }
    return elements;
  }
  __device__ __forceinline__ void store(int row, const Elements& elements) const {
    store_global_vector<VEC>(dz + row * dz_stride, elements);
  }
};

template <typename T, int VEC, gemm::Activation ACTIVATION>
__global__ void __launch_bounds__(reduce::THREADS, reduce::COLUMNS_MIN_BLOCKS_PER_SM)
    backward_kernel(const __grid_constant__ BackwardParams params) {
  using Acc = reduce::Partial<reduce::Sum, T>;
  using Rows = GradientRows<T, VEC, ACTIVATION>;
  __shared__ Tile<Acc, VEC, reduce::THREADS> partials;
  const Problem& problem = params.problem;
  const reduce::Problem& bias_sum = problem.bias_sum;
  const reduce::ColumnThread<VEC> thread(params.map);
  const bool exists = thread.output < bias_sum.output_count;

  reduce::ThreadPartial<T> thread_partial[VEC] = {};
  if (exists) {
    const auto column = [&](const gemm::Operand& operand) {
      return static_cast<const T*>(operand.data) + thread.output * operand.col_stride;
    };
    const Rows rows{column(problem.grad),    column(problem.z),
                    problem.grad.row_stride, problem.z.row_stride,
                    bias_sum.output_count,   static_cast<T*>(problem.dz) + thread.output};
    reduce::ColumnTile<T, reduce::Sum, VEC, Rows>{bias_sum, rows}.reduce(
        thread.first_partial(), thread.partials_per_thread, thread_partial);
  }
  Acc partial[VEC] = {};
#pragma unroll
  for (int v = 0; v < VEC; ++v) partial[v] = Acc(thread_partial[v]);
  thread.template join<T, reduce::Sum>(partial, partials);
  if (thread.y > 0 || !exists) return;
  // The outputs are one loop. store_result would bring the code for several.
#pragma unroll
  for (int v = 0; v < VEC; ++v) {
    const int64_t index = (thread.output + v) * bias_sum.outputs.stride[reduce::OUT][0];
    reduce::store_result_at(bias_sum, index + thread.split, partial[v]);
  }
}

namespace {

/// Returns whether all rows can be accessed by aligned vectors of `width` elements.
bool rows_are_wide(const Problem& problem, int width) {
  const auto bytes = static_cast<int64_t>(size_of(problem.bias_sum.in_dtype)) * width;
  const auto is_wide = [&](const gemm::Operand& operand) {
    return operand.col_stride == 1 && operand.row_stride % width == 0 &&
           reinterpret_cast<intptr_t>(operand.data) % bytes == 0;
  };
  return problem.bias_sum.output_count % width == 0 && is_wide(problem.grad) &&
         is_wide(problem.z) && reinterpret_cast<intptr_t>(problem.dz) % bytes == 0;
}

template <gemm::Activation ACTIVATION>
using ActivationTag = std::integral_constant<gemm::Activation, ACTIVATION>;

/// Calls f with the activation as an integral_constant.
template <typename F>
void with_activation(gemm::Activation activation, const F& f) {
  using gemm::Activation;
  switch (activation) {
    case Activation::relu:
      return f(ActivationTag<Activation::relu>());
    case Activation::gelu:
      return f(ActivationTag<Activation::gelu>());
    case Activation::gelu_tanh:
      return f(ActivationTag<Activation::gelu_tanh>());
    case Activation::silu:
      return f(ActivationTag<Activation::silu>());
    default:
      return f(ActivationTag<Activation::none>());
  }
}

/// Calls f with the type tag and the vector width, as an integral_constant, of the problem's
/// instance.
template <typename F>
auto with_instance(const Problem& problem, const F& f) {
  return with_float_type(problem.bias_sum.in_dtype, [&](auto tag) {
    constexpr int WIDTH = reduce::COLUMN_VEC<typename decltype(tag)::type>;
    if (rows_are_wide(problem, WIDTH)) return f(tag, std::integral_constant<int, WIDTH>{});
    return f(tag, std::integral_constant<int, 1>{});
  });
}

int64_t splits_of(const Problem& problem, const Device& device) {
  return with_instance(problem, [&](auto, auto width) {
    return reduce::column_thread_map(problem.bias_sum, device, width).splits;
  });
}

void launch_backward(const Problem& problem, const Device& device) {
  with_instance(problem, [&](auto tag, auto width) {
    using T = typename decltype(tag)::type;
    const ColumnThreadMap map = reduce::column_thread_map(problem.bias_sum, device, width);
    with_activation(problem.activation, [&](auto activation) {
      launch("activation_backward",
             backward_kernel<T, decltype(width)::value, decltype(activation)::value>,
             {.blocks = map.blocks(), .threads = {reduce::THREADS}}, device,
             BackwardParams{problem, map});
    });
  });
}

}  // namespace
}  // namespace SMEM_BUILD

#if defined(__CUDACC__)
const Backward device_backward{&splits_of, &launch_backward};
#else
const Backward host_backward{&splits_of, &launch_backward};
#endif

}  // namespace smem::activation
