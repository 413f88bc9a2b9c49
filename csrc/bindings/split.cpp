#include "bindings/split.h"

#include "gemm/fp16x3/split.h"
#include "gemm/fp16x3/split_problem.h"

namespace smem::bindings {
namespace {

using gemm::fp16x3::split::K_BLOCK;
using gemm::fp16x3::split::SplitOperand;
using gemm::fp16x3::split::SplitWorkspace;

constexpr const char* OP = "_split";

void check(const Tensor& x, int64_t part_length) {
  if (x.dim() < 2) {
    fail(OP, "x is " + shape_text(sizes_of(x)) + ", expected at least 2 dimensions");
  }
  constexpr int64_t MOST_DIMS = MAX_DIMS - 4;  // the results have up to so many more
  if (x.dim() > MOST_DIMS) {
    fail(OP, "x has " + std::to_string(x.dim()) + " dimensions, expected at most " +
                 std::to_string(MOST_DIMS));
  }
  if (x.scalar_type() != ScalarType::Float) {
    fail(OP, "x has dtype " + dtype_text(x.scalar_type()) + ", expected float32");
  }
  if (part_length < 0 || part_length % K_BLOCK != 0) {
    fail(OP, "part_length is " + std::to_string(part_length) + ", expected a multiple of " +
                 std::to_string(K_BLOCK));
  }
}

/// Flattens all dimensions but the last two into one; makes a copy if strides do not allow that.
Tensor with_one_batch_dimension(const Tensor& x) {
  if (x.dim() <= 3) return x;
  const Sizes sizes = sizes_of(x);
  int64_t batch_count = 1;
  for (int d = 0; d < sizes.count - 2; ++d) batch_count *= sizes.at[d];
  return torch::stable::reshape(x, {batch_count, sizes.last(2), sizes.last(1)});
}

SplitOperand operand_of(const Tensor& matrices, bool lines_last) {
  const int dims = static_cast<int>(matrices.dim());
  const int k = dims - (lines_last ? 2 : 1), mn = dims - (lines_last ? 1 : 2);
  const bool batched = dims > 2;
  return {
      .src = static_cast<const float*>(matrices.const_data_ptr()),
      .batch_count = batched ? matrices.size(0) : 1,
      .mn = matrices.size(mn),
      .k = matrices.size(k),
      .batch_stride = batched ? matrices.stride(0) : 0,
      .mn_stride = matrices.stride(mn),
      .k_stride = matrices.stride(k),
  };
}

/// The part of linear's problem that the split of the weight depends on.
gemm::Problem weight_problem(const Tensor& weight) {
  gemm::Problem problem{};
  problem.N = weight.size(0);
  problem.K = weight.size(1);
  problem.b = {weight.const_data_ptr(), weight.stride(1), weight.stride(0)};
  return problem;
}

Tensor empty_bytes(const char* op, int64_t bytes, const Tensor& like) {
  Sizes sizes;
  sizes.push(bytes);
  return empty(op, sizes, ScalarType::Byte, like);
}

void check_weight(const char* op, const Tensor& weight) {
  if (weight.dim() != 2) {
    fail(op, "weight is " + shape_text(sizes_of(weight)) + ", expected out_features x in_features");
  }
  if (weight.scalar_type() != ScalarType::Float) {
    fail(op, "weight has dtype " + dtype_text(weight.scalar_type()) + ", expected float32");
  }
}

}  // namespace

int64_t weight_split_bytes(int64_t N, int64_t K) {
  if (N == 0 || K == 0) return 0;
  gemm::Problem problem{};
  problem.N = N;
  problem.K = K;
  return static_cast<int64_t>(gemm::fp16x3::b_split_bytes(problem));
}

Tensor split_weight(const Tensor& weight) {
  constexpr const char* NAME = "_split_weight";
  check_weight(NAME, weight);
  const int64_t bytes = weight_split_bytes(weight.size(0), weight.size(1));
  const Tensor result = empty_bytes(NAME, bytes, weight);
  if (bytes == 0) return result;
  const gemm::Problem problem = weight_problem(weight);
  const Tensor scratch =
      empty_bytes(NAME, static_cast<int64_t>(gemm::fp16x3::b_split_scratch_bytes(problem)), weight);
  const OnDeviceOf on_device(NAME, weight);
  trace_tensor("weight", weight);
  trace_tensor("split", result);
  trace_tensor("scratch", scratch);
  gemm::fp16x3::split_b(problem, result.mutable_data_ptr(), scratch.mutable_data_ptr(),
                        on_device.device());
  return result;
}

void check_weight_split(const char* op, const Tensor& split, const Tensor& weight) {
  check_weight(op, weight);
  check_device(op, "split", split, "weight", weight);
  const int64_t bytes = weight_split_bytes(weight.size(0), weight.size(1));
  const bool fits = split.scalar_type() == ScalarType::Byte && split.dim() == 1 &&
                    split.size(0) == bytes && split.stride(0) == 1;
  if (fits) return;
  fail(op, "split is " + shape_text(sizes_of(split)) + " of " + dtype_text(split.scalar_type()) +
               ", expected " + std::to_string(bytes) + " of uint8, contiguous, as the weight is " +
               shape_text(sizes_of(weight)));
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> split(const Tensor& x, bool lines_last,
                                                         int64_t part_length) {
  check(x, part_length);
  const Tensor matrices = with_one_batch_dimension(x);
  SplitOperand operand = operand_of(matrices, lines_last);
  Sizes row_sizes = sizes_of(x);
  row_sizes.count -= 2;
  if (part_length > 0) {
    operand.k_slice_length = part_length;
    operand.k_slices = ceil_div(operand.k, part_length);
    row_sizes.push(operand.k_slices);
  }
  row_sizes.push(operand.mn);
  Sizes hi_lo_sizes = row_sizes;
  hi_lo_sizes.push(operand.padded_k() / K_BLOCK);
  hi_lo_sizes.push(2);
  hi_lo_sizes.push(K_BLOCK);

  const Tensor hi_lo = empty(OP, hi_lo_sizes, ScalarType::Half, x);
  const Tensor exponent = empty(OP, row_sizes, ScalarType::Int, x);
  const Tensor status = empty(OP, row_sizes, ScalarType::Byte, x);
  const Tensor outlier_k = empty(OP, row_sizes, ScalarType::Long, x);
  const Tensor outlier = empty(OP, row_sizes, ScalarType::Float, x);
  const Tensor minmax =
      empty_bytes(OP, static_cast<int64_t>(SplitWorkspace(operand).minmax_bytes), x);
  const OnDeviceOf on_device(OP, x);
  trace_tensor("x", matrices);
  trace_tensor("hi_lo", hi_lo);
  trace_tensor("exponent", exponent);
  trace_tensor("status", status);
  trace_tensor("outlier_k", outlier_k);
  trace_tensor("outlier", outlier);
  trace_tensor("minmax", minmax);
  operand.hi_lo = hi_lo.mutable_data_ptr();
  operand.exponent = static_cast<int32_t*>(exponent.mutable_data_ptr());
  operand.status = static_cast<uint8_t*>(status.mutable_data_ptr());
  operand.outlier_k = static_cast<int64_t*>(outlier_k.mutable_data_ptr());
  operand.outlier = static_cast<float*>(outlier.mutable_data_ptr());
  operand.minmax = minmax.mutable_data_ptr();
  gemm::fp16x3::split::launch_split(operand, on_device.device());
  return {hi_lo, exponent, status, outlier_k, outlier};
}

}  // namespace smem::bindings
