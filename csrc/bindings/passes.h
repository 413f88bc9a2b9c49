// A reduction in several launches: each thread_partials a partial (reduce/reduction_tree.h) of
// every split, which the next goes on from.
#pragma once

#include "bindings/layout.h"
#include "bindings/tensors.h"
#include "reduce/reduce.h"

namespace smem::bindings {

/// Into how many splits a launch cuts every output, the dtype of their partials, and the launch of
/// the problem so cut.
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

/// Solves `problem` by the passes that `pass_of(problem)` gives, until a single split is left.
template <typename PassOf>
void run_passes(const char* op, reduce::Problem problem, const Tensor& like,
                const PassOf& pass_of) {
  reduce::Problem whole = problem;
  OptionalTensor source, partial;
  for (bool last = false; !last;) {
    const auto pass = pass_of(problem);
    problem.splits = pass.splits;
    last = problem.splits == 1;
    if (last) {
      problem.out = whole.out;
      problem.out_dtype = whole.out_dtype;
      problem.divisor = whole.divisor;
      for (int d = 0; d < problem.outputs.rank; ++d) {
        problem.outputs.stride[reduce::OUT][d] = whole.outputs.stride[reduce::OUT][d];
      }
    } else {
      Sizes sizes;
      sizes.push(problem.output_count * problem.splits);
      partial = empty(op, sizes, scalar_type_of_partial(pass.partial_dtype), like);
      trace_tensor("partial", *partial);
      problem.out = partial->mutable_data_ptr();
      problem.out_dtype = pass.partial_dtype;
      problem.divisor = 1;
      int64_t step = problem.splits;
      for (int d = problem.outputs.rank - 1; d >= 0; --d) {
        problem.outputs.stride[reduce::OUT][d] = step;
        step *= problem.outputs.size[d];
      }
    }
    pass.launch(problem);

    source = partial;  // lives until the next launch has been enqueued
    problem.in = problem.out;
    problem.in_dtype = problem.out_dtype;
    problem.count = problem.splits;
    problem.elements_per_partial = 1;
    problem.launch_with_pdl = true;
    problem.reduced = {};
    problem.reduced.rank = 1;
    problem.reduced.size[0] = problem.count;
    problem.reduced.stride[0][0] = 1;
    // Nodes lie side by side: what kept two dimensions of the outputs apart in x is over.
    Dims<reduce::TENSORS> outputs;
    for (int d = 0; d < problem.outputs.rank; ++d) {
      outputs.push_merged(
          {problem.outputs.size[d],
           {problem.outputs.stride[reduce::OUT][d], whole.outputs.stride[reduce::OUT][d]}});
    }
    problem.outputs = whole.outputs = outputs.loop();
  }
}

}  // namespace smem::bindings
