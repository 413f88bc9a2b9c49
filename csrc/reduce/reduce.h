// The reduction problem, and the table of kernels that solve it.
//
//   out[o] = in[o, 0] + in[o, 1] + ...     for every output o; the second index runs over the
//                                          reduced dimensions, in their logical order
//
// or the mean, the maximum or the minimum of those.
#pragma once

#include <bit>
#include <cstdint>

#include "device/dtype.h"
#include "device/launch.h"
#include "device/offset_calculator.h"

namespace smem::reduce {

enum Tensor : int { IN, OUT, TENSORS };

/// A mean is a sum with a divisor.
enum class Operator : int { sum, max, min };

/// One pass: split j of output o is reduced into out[o's place + j].
struct Problem {
  Operator op;
  DType in_dtype, out_dtype;
  const void* in;
  void* out;
  int64_t divisor = 1;       ///< of a floating-point sum
  int64_t first_output = 0;  ///< of this launch; the ladder's grids hold a block a split
  int64_t output_count;      ///< outputs.count()
  int64_t count;             ///< elements of an output
  int64_t splits;            ///< into which an output's elements are cut, at least 1
  int elements_per_partial;  ///< elements of a thread_partial (reduce/reduction_tree.h)
  bool launch_with_pdl =
      false;  ///< in is what the launch before thread_partials, and that may still run
  OffsetCalculator<TENSORS> outputs;  ///< steps of in and out over the outputs
  OffsetCalculator<1> reduced;        ///< steps of in over the elements of an output
};

/// A row of the kernel table.
struct Kernel {
  const char* name;
  const char* summary;
  const char* requires_;
  bool any_operator;  ///< or sums only
  int64_t (*splits)(const Problem&, const Device&);
  void (*launch)(const Problem&, const Device&);
  const void* (*function)(DType in_dtype);  ///< the one that most problems run
  const char* (*symbol)(DType in_dtype);    ///< symbol_of that function (device/symbol.h)
};

struct KernelTable {
  const Kernel* const* kernels;
  int count;
};

/// The tables of the three builds hold the same rows: the ladder, then rows and columns. Without
/// CUDA there is none for the device.
KernelTable device_kernels();
KernelTable host_kernels();
KernelTable traced_kernels();
KernelTable kernels(Build build);

/// The type in which a dtype is summed.
constexpr DType accumulator_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return DType::f64;
    case DType::f32:
    case DType::f16:
    case DType::bf16:
      return DType::f32;
    default:
      return DType::i64;
  }
}

/// The dtype of what a pass thread_partials for the next one. `rows` and `columns` go on in float64
/// (reduce/reduction_tree.h).
constexpr DType partial_dtype_of(const Kernel& kernel, const Problem& problem) {
  const DType dtype = accumulator_of(problem.in_dtype);
  const bool widens = kernel.any_operator && problem.op == Operator::sum && dtype == DType::f32;
  return widens ? DType::f64 : dtype;
}

constexpr int64_t power_of_two_from(int64_t least) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(least)));
}

}  // namespace smem::reduce
