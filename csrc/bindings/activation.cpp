#include "bindings/activation.h"

#include <utility>

#include "activation/backward.h"
#include "bindings/passes.h"
#include "reduce/dispatch.h"
#include "reduce/reduction_tree.h"

namespace smem::bindings {
namespace {

using gemm::Activation;

constexpr const char* OP = "_activation_backward";

void check(const Tensor& grad, const Tensor& z, int64_t activation) {
  check_code(OP, "activation", activation, static_cast<int64_t>(Activation::silu));
  const Sizes sizes = sizes_of(z);
  if (sizes.count < 1) fail(OP, "z is scalar, expected a dimension");
  check_gemm_dtype(OP, "z", z);
  check_like(OP, "grad", grad, "z", z);
  if (!(sizes_of(grad) == sizes)) {
    fail(OP,
         "grad is " + shape_text(sizes_of(grad)) + ", expected " + shape_text(sizes) + " as z is");
  }
}

/// x as a matrix: all dimensions but the last are merged, by a copy if the strides do not allow a
/// view.
Tensor as_rows(const Tensor& x, int64_t rows, int64_t cols) {
  return x.dim() == 2 ? x : torch::stable::reshape(x, {rows, cols});
}

gemm::Operand operand_of(const Tensor& matrix) {
  return {matrix.const_data_ptr(), matrix.stride(0), matrix.stride(1)};
}

}  // namespace

std::tuple<Tensor, Tensor> activation_backward(const Tensor& grad, const Tensor& z,
                                               int64_t activation) {
  check(grad, z, activation);
  const Sizes sizes = sizes_of(z);
  Sizes bias_sizes;
  bias_sizes.push(sizes.last(1));
  const Tensor dz = empty(OP, sizes, z.scalar_type(), z);
  const Tensor bias_gradient = empty(OP, bias_sizes, z.scalar_type(), z);
  const int64_t cols = sizes.last(1);
  if (cols == 0) return {dz, bias_gradient};

  const int64_t rows = z.numel() / cols;
  const Tensor grad_rows = as_rows(grad, rows, cols), z_rows = as_rows(z, rows, cols);
  const OnDeviceOf on_device(OP, z);
  trace_tensor("grad", grad_rows);
  trace_tensor("z", z_rows);
  trace_tensor("dz", dz);
  trace_tensor("bias_gradient", bias_gradient);

  reduce::Problem bias_sum{};
  bias_sum.op = reduce::Operator::sum;
  bias_sum.in_dtype = bias_sum.out_dtype = *dtype_of(z.scalar_type());
  bias_sum.out = bias_gradient.mutable_data_ptr();
  bias_sum.count = rows;
  bias_sum.elements_per_partial = reduce::ELEMENTS_PER_PARTIAL;
  bias_sum.output_count = cols;
  bias_sum.outputs.rank = 1;
  bias_sum.outputs.size[0] = cols;
  bias_sum.outputs.stride[reduce::OUT][0] = 1;
  activation::Problem problem{bias_sum, operand_of(grad_rows), operand_of(z_rows),
                              dz.mutable_data_ptr(), static_cast<Activation>(activation)};
  const activation::Backward& backward = activation::backward(on_device.build());
  const auto table = reduce::kernels(on_device.build());
  const Device& device = on_device.device();
  bool first = true;
  run_passes(OP, bias_sum, z, [&](const reduce::Problem& pass) {
    const reduce::Kernel& kernel = *table.kernels[reduce::choose(pass).kernel];
    const bool is_first_pass = std::exchange(first, false);
    return Pass{is_first_pass ? backward.splits(problem, device) : kernel.splits(pass, device),
                reduce::partial_dtype_of(kernel, pass),
                [&, is_first_pass](const reduce::Problem& split_problem) {
                  if (!is_first_pass) return kernel.launch(split_problem, device);
                  problem.bias_sum = split_problem;
                  backward.launch(problem, device);
                }};
  });
  return {dz, bias_gradient};
}

}  // namespace smem::bindings
