// The reduction problem, and the table of kernels that solve it.
//
//   out[o] = op(in[o, 0], in[o, 1], ..., in[o, count - 1])        for every output o
//
// op is sum, max or min; a mean is a sum with a divisor. The second index numbers the elements of
// the reduced dimensions in the order of their addresses.
//
// A reduction runs in one or more passes. A pass divides the elements of every output over `splits`
// blocks; each block stores one partial, and the next pass reduces those (bindings/passes.h).
#pragma once

#include <bit>
#include <cstdint>

#include "device/dtype.h"
#include "device/kernel_table.h"
#include "device/launch.h"
#include "device/offset_calculator.h"

namespace smem::reduce {

enum Tensor : int { IN, OUT, TENSORS };

/// A mean is a sum with a divisor.
enum class Operator : int { sum, max, min };

/// One pass: split s of output o is reduced into element s of out at the offset of output o.
struct Problem {
  Operator op;
  DType in_dtype, out_dtype;
  const void* in;
  void* out;
  int64_t divisor = 1;       ///< a floating-point sum is divided by it
  int64_t first_output = 0;  ///< the first output of this launch, for the ladder's kernels
  int64_t output_count;      ///< outputs.count()
  int64_t count;             ///< elements per output
  int64_t splits;            ///< blocks that share the elements of one output, at least 1
  int elements_per_partial;  ///< ELEMENTS_PER_PARTIAL, or 1 in a later pass
  bool launch_with_pdl =
      false;  ///< `in` is written by the launch before this one, which may still be running
  OffsetCalculator<TENSORS> outputs;  ///< strides of in and out along the dimensions of the outputs
  OffsetCalculator<1> reduced;        ///< strides of in along the reduced dimensions
};

/// One row of the kernel table.
struct Kernel {
  const char* name;
  const char* summary;
  const char* requires_;
  bool any_operator;  ///< false: sums only
  int64_t (*splits)(const Problem&, const Device&);
  void (*launch)(const Problem&, const Device&);
  const void* (*function)(DType in_dtype);  ///< the instance that most problems run
  const char* (*symbol)(DType in_dtype);    ///< symbol_of that instance (device/symbol.h)
};

using KernelTable = smem::KernelTable<Kernel>;

/// The tables of the two builds hold the same rows: the ladder's kernels, then rows and columns.
/// There is no table for the device in a build without CUDA.
KernelTable device_kernels();
KernelTable host_kernels();
KernelTable kernels(Build build);

/// The dtype in which elements of a dtype are accumulated.
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

/// The dtype of the partials that a pass stores for the next one. `rows` and `columns` store those
/// of float32 sums in float64 (reduce/reduction_tree.h).
constexpr DType partial_dtype_of(const Kernel& kernel, const Problem& problem) {
  const DType dtype = accumulator_of(problem.in_dtype);
  const bool widens = kernel.any_operator && problem.op == Operator::sum && dtype == DType::f32;
  return widens ? DType::f64 : dtype;
}

constexpr int64_t next_power_of_two(int64_t least) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(least)));
}

}  // namespace smem::reduce
