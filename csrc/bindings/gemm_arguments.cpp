// The checks of gemm and linear. The Python side repeats the error texts for fake tensors
// (ops/_checks.py).
#include "bindings/gemm_arguments.h"

namespace smem::bindings {
namespace {

using gemm::Activation;
using gemm::Precision;

/// Appends the broadcast batch dimensions to `result`.
void broadcast_batch(const GemmArguments& args, Sizes& result) {
  const int dims = std::max(args.a.sizes.count, args.b.sizes.count);
  for (int d = 0; d < dims - 2; ++d) {
    const int64_t size_a = args.a.size(d, dims), size_b = args.b.size(d, dims);
    if (size_a != size_b && size_a != 1 && size_b != 1) {
      fail(args.op, "a is " + shape_text(args.a.sizes) + " and b is " + shape_text(args.b.sizes) +
                        ": batch sizes " + std::to_string(size_a) + " and " +
                        std::to_string(size_b) + " do not broadcast");
    }
    result.push(size_a == 1 ? size_b : size_a);
  }
}

void check_bias(const char* op, const OptionalTensor& bias, int64_t N, const char* like_name,
                const Tensor& like) {
  if (!bias) return;
  check_like(op, "bias", *bias, like_name, like);
  const Sizes sizes = sizes_of(*bias);
  if (sizes.count != 1 || sizes.at[0] != N) {
    fail(op, "bias is " + shape_text(sizes) + ", expected " + std::to_string(N) +
                 ", an element a column of the result");
  }
}

void check_codes(const char* op, int64_t activation, int64_t precision) {
  check_code(op, "activation", activation, static_cast<int64_t>(Activation::silu));
  check_code(op, "precision", precision, static_cast<int64_t>(Precision::tf32) + 1);
}

/// As torch.mm: out_dtype is the dtype of the inputs, or float32 for 16-bit inputs.
void check_out_dtype(const char* op, const OptionalType& out_dtype, const char* like_name,
                     const Tensor& like) {
  const ScalarType type = like.scalar_type();
  if (!out_dtype || *out_dtype == type) return;
  const bool widens = type == ScalarType::Half || type == ScalarType::BFloat16;
  if (widens && *out_dtype == ScalarType::Float) return;
  fail(op, "out_dtype is " + dtype_text(*out_dtype) + ", expected " + dtype_text(type) + " as " +
               like_name + " has" + (widens ? ", or float32" : ""));
}

/// The dtype of C is that of A or that of the result.
void check_c_like(const GemmArguments& args) {
  const Tensor& a = *args.a.tensor;
  const ScalarType type = args.c->scalar_type();
  if (type != a.scalar_type() && type != args.out_type()) {
    fail(args.op, "c has dtype " + dtype_text(type) + ", expected " + dtype_text(a.scalar_type()) +
                      " as a has" +
                      (a.scalar_type() == args.out_type() ? "" : ", or float32 as out_dtype is"));
  }
  check_device(args.op, "c", *args.c, "a", a);
}

}  // namespace

Sizes check_gemm(const GemmArguments& args) {
  check_codes(args.op, args.activation, args.precision);
  const auto at_least_2d = [&](const char* name, const MatrixView& view) {
    if (view.sizes.count >= 2) return;
    fail(args.op, std::string(name) + " is " + shape_text(view.sizes) +
                      ", expected a matrix or a batch of matrices");
  };
  at_least_2d("a", args.a);
  at_least_2d("b", args.b);
  check_gemm_dtype(args.op, "a", *args.a.tensor);
  check_like(args.op, "b", *args.b.tensor, "a", *args.a.tensor);
  if (args.a.sizes.last(1) != args.b.sizes.last(2)) {
    fail(args.op, "a is " + shape_text(args.a.sizes) + " and b is " + shape_text(args.b.sizes) +
                      ": inner sizes " + std::to_string(args.a.sizes.last(1)) + " and " +
                      std::to_string(args.b.sizes.last(2)) + " differ");
  }
  check_out_dtype(args.op, args.out_dtype, "a", *args.a.tensor);
  Sizes result;
  broadcast_batch(args, result);
  result.push(args.a.sizes.last(2));
  result.push(args.b.sizes.last(1));
  check_bias(args.op, args.bias, result.last(1), "a", *args.a.tensor);
  if (args.beta != 0 && !args.c) fail(args.op, "beta is not 0, expected c");
  if (args.c) {
    check_c_like(args);
    const Sizes sizes = sizes_of(*args.c);
    bool fits = sizes.count <= result.count;
    for (int i = 1; fits && i <= sizes.count; ++i) {
      fits = sizes.last(i) == 1 || sizes.last(i) == result.last(i);
    }
    if (!fits) {
      fail(args.op, "c is " + shape_text(sizes) + ", which does not broadcast to the result's " +
                        shape_text(result));
    }
  }
  return result;
}

Sizes check_linear(const Tensor& x, const Tensor& weight, const OptionalTensor& bias,
                   int64_t activation, int64_t precision, const OptionalType& out_dtype) {
  check_codes("linear", activation, precision);
  Sizes result = sizes_of(x);
  const Sizes weight_sizes = sizes_of(weight);
  if (result.count < 1) fail("linear", "x is scalar, expected at least 1 dimension");
  if (weight_sizes.count != 2) {
    fail("linear",
         "weight is " + shape_text(weight_sizes) + ", expected out_features x in_features");
  }
  check_gemm_dtype("linear", "x", x);
  check_like("linear", "weight", weight, "x", x);
  if (result.last(1) != weight_sizes.at[1]) {
    fail("linear", "x is " + shape_text(result) + " and weight is " + shape_text(weight_sizes) +
                       ": in_features " + std::to_string(result.last(1)) + " and " +
                       std::to_string(weight_sizes.at[1]) + " differ");
  }
  check_out_dtype("linear", out_dtype, "x", x);
  check_bias("linear", bias, weight_sizes.at[0], "x", x);
  result.at[result.count - 1] = weight_sizes.at[0];
  return result;
}

bool output_aliases_input(const GemmArguments& args, const Tensor& out) {
  const auto is_out = [&](const Tensor& c) {
    return c.const_data_ptr() == out.const_data_ptr() && c.scalar_type() == out.scalar_type() &&
           sizes_of(c) == sizes_of(out) && strides_of(c) == strides_of(out);
  };
  return may_overlap(*args.a.tensor, out) || may_overlap(*args.b.tensor, out) ||
         (args.bias && may_overlap(*args.bias, out)) ||
         (args.c && args.beta != 0 && may_overlap(*args.c, out) && !is_out(*args.c));
}

}  // namespace smem::bindings
