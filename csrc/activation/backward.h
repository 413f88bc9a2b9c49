// The gradient through an activation and the bias before it, in one pass over memory:
//
//   dz = dy * activation'(z)        dy, z, dz: rows x cols
//   bias_gradient = the sums of dz's columns, in the order of reduce/reduction_tree.h
#pragma once

#include "gemm/gemm.h"
#include "reduce/reduce.h"

namespace smem::activation {

struct Problem {
  /// The reduction of dz's columns: `bias_sum.count` rows and `bias_sum.output_count` columns, all
  /// of one dtype. Its `in` is not read.
  reduce::Problem bias_sum;
  gemm::Operand grad;  ///< dy
  gemm::Operand z;
  void* dz;  ///< contiguous
  gemm::Activation activation;
};

/// The kernel of one of the two builds. If it has several splits, a kernel of reduce/ reduces
/// their partials.
struct Backward {
  int64_t (*splits)(const Problem&, const Device&);
  void (*launch)(const Problem&, const Device&);
};

/// There is none for the device in a build without CUDA.
extern const Backward device_backward, host_backward;
const Backward& backward(Build build);

}  // namespace smem::activation
