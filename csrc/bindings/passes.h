// A reduction in several passes. Each launch stores one partial (reduce/reduction_tree.h) per split
// of an output, and the next launch reduces those.
#pragma once

#include "bindings/layout.h"
#include "bindings/tensors.h"
#include "reduce/reduce.h"

namespace smem::bindings {

/// One pass: the splits per output, the dtype of their partials, and the launch.
template <typename Launch>
struct Pass {
  int64_t splits;
  DType partial_dtype;
  Launch launch;
};
template <typename Launch>
Pass(int64_t, DType, Launch) -> Pass<Launch>;

inline ScalarType scalar_type_of_partial(DType dtype) {
  return dtype == DType::f64   ? ScalarType::Double
         : dtype == DType::f32 ? ScalarType::Float
                               : ScalarType::Long;
}

/// Solves `problem` by the passes that `pass_of(problem)` returns, until one has a single split.
template <typename PassOf>
void run_passes(const char* op, reduce::Problem problem, const Tensor& like,
                const PassOf& pass_of) {
  reduce::Problem original = problem;
  OptionalTensor source, partial;
  for (bool last = false; !last;) {
    const auto pass = pass_of(problem);
    problem.splits = pass.splits;
    last = problem.splits == 1;
    if (last) {
      problem.out = original.out;
      problem.out_dtype = original.out_dtype;
      problem.divisor = original.divisor;
      for (int d = 0; d < problem.outputs.rank; ++d) {
        problem.outputs.stride[reduce::OUT][d] = original.outputs.stride[reduce::OUT][d];
      }
    } else {
      Sizes sizes;
      sizes.push(problem.output_count * problem.splits);
      partial = empty(op, sizes, scalar_type_of_partial(pass.partial_dtype), like);
      trace_tensor("partial", *partial);
      problem.out = partial->mutable_data_ptr();
      problem.out_dtype = pass.partial_dtype;
      problem.divisor = 1;
      int64_t stride = problem.splits;
      for (int d = problem.outputs.rank - 1; d >= 0; --d) {
        problem.outputs.stride[reduce::OUT][d] = stride;
        stride *= problem.outputs.size[d];
      }
    }
    pass.launch(problem);

    source = partial;  // keeps the memory until the next launch is enqueued
    problem.in = problem.out;
    problem.in_dtype = problem.out_dtype;
    problem.count = problem.splits;
    problem.elements_per_partial = 1;
    problem.launch_with_pdl = true;
    problem.reduced = {};
    problem.reduced.rank = 1;
    problem.reduced.size[0] = problem.count;
    problem.reduced.stride[0][0] = 1;
    // Partials are contiguous, so dimensions of the outputs that x's strides kept apart can be
    // merged.
    Dims<reduce::TENSORS> outputs;
    for (int d = 0; d < problem.outputs.rank; ++d) {
      outputs.push_merged(
          {problem.outputs.size[d],
           {problem.outputs.stride[reduce::OUT][d], original.outputs.stride[reduce::OUT][d]}});
    }
    problem.outputs = original.outputs = outputs.loop();
  }
}

}  // namespace smem::bindings
