// The gradient through an activation and the bias before it, in one pass over memory:
//
//   dz = dy * activation'(z)        dy, z, dz: rows x cols
//   bias_gradient = the sums of dz's columns, in the order of reduce/reduction_tree.h
#pragma once

#include "gemm/gemm.h"
#include "reduce/reduce.h"

namespace smem::activation {

struct Problem {
  /// The sums: of `bias_sum.count` rows in `sums.output_count` columns; all of one dtype. Its `in`
  /// is not read.
  reduce::Problem bias_sum;
  gemm::Operand grad;  ///< dy
  gemm::Operand z;
  void* dz;  ///< contiguous
  gemm::Activation activation;
};

/// The kernel of one of the three builds; a further launch of a kernel of sum/ takes its partials
/// on.
struct Backward {
  int64_t (*splits)(const Problem&, const Device&);
  void (*launch)(const Problem&, const Device&);
};

/// Without CUDA there is none for the device.
extern const Backward device_backward, host_backward, traced_backward;
const Backward& backward(Build build);

}  // namespace smem::activation
