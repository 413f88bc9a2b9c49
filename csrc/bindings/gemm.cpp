// gemm and linear: the problem that a kernel gets, and its launch.
#include "bindings/gemm.h"

#include <torch/csrc/inductor/aoti_torch/c/shim.h>

#include <array>
#include <mutex>

#include "bindings/gemm_arguments.h"
#include "bindings/layout.h"
#include "bindings/split.h"
#include "gemm/dispatch.h"

namespace smem::bindings {
namespace {

using gemm::Activation;
using gemm::Precision;
using gemm::Problem;

using BatchDims = Dims<gemm::TENSORS>;

/// Merges into M the batch dimensions along which B does not change and the rows of A, C and out
/// continue with the same stride.
void fold_batch_into_rows(Problem& problem, BatchDims& batch) {
  while (batch.count > 0) {
    const auto& dim = batch.at[batch.count - 1];
    const auto continues_rows = [&](int64_t row_stride, gemm::Tensor tensor) {
      return problem.M == 1 || dim.stride[tensor] == problem.M * row_stride;
    };
    const bool folds = dim.stride[gemm::B] == 0 && continues_rows(problem.a.row_stride, gemm::A) &&
                       continues_rows(problem.out.row_stride, gemm::OUT) &&
                       (!problem.c.data || continues_rows(problem.c.row_stride, gemm::C));
    if (!folds) return;
    if (problem.M == 1) {
      problem.a.row_stride = dim.stride[gemm::A];
      problem.out.row_stride = dim.stride[gemm::OUT];
      problem.c.row_stride = dim.stride[gemm::C];
    }
    problem.M *= dim.size;
    batch.remove(batch.count - 1);
  }
}

/// Advances a pointer by a number of elements; a null pointer stays null.
template <typename Data>
void advance(Data*& data, int64_t elements, DType dtype) {
  using Byte = std::conditional_t<std::is_const_v<Data>, const char, char>;
  if (data) data = static_cast<Byte*>(data) + elements * static_cast<int64_t>(size_of(dtype));
}

/// A problem, and all dimensions of its batch; the problem itself has the innermost MAX_RANK.
struct BatchedProblem {
  Problem problem{};
  BatchDims batch;
};

/// Code 0 means that the user did not choose a precision.
Precision precision_of(int64_t code) {
  return code == 0 ? Precision::fp32 : static_cast<Precision>(code - 1);
}

/// The problem that writes `out`, whose view has at least the result's two dimensions.
BatchedProblem build_problem(const GemmArguments& args, const MatrixView& out) {
  BatchedProblem built;
  Problem& problem = built.problem;
  problem.dtype = *dtype_of(args.a.tensor->scalar_type());
  problem.c_dtype = args.c ? *dtype_of(args.c->scalar_type()) : problem.dtype;
  problem.out_dtype = *dtype_of(args.out_type());
  problem.M = args.a.sizes.last(2);
  problem.N = args.b.sizes.last(1);
  problem.K = args.a.sizes.last(1);
  problem.a = args.a.operand();
  problem.b = args.b.operand();
  problem.out = out.operand();
  const int dims = out.sizes.count;
  std::optional<MatrixView> c;
  if (args.c && args.beta != 0) {
    c.emplace(*args.c);
    problem.c = {args.c->const_data_ptr(), c->stride(dims - 2, dims), c->stride(dims - 1, dims)};
  }
  if (args.bias) {
    problem.bias = args.bias->const_data_ptr();
    problem.bias_stride = args.bias->stride(0);
  }
  problem.alpha = args.alpha;
  problem.beta = args.beta;
  problem.activation = static_cast<Activation>(args.activation);
  problem.b_split = args.b_split;
  problem.precision = precision_of(args.precision);
  for (int d = 0; d < dims - 2; ++d) {
    built.batch.push_merged({out.sizes.at[d],
                             {args.a.stride(d, dims), args.b.stride(d, dims),
                              c ? c->stride(d, dims) : 0, out.strides.at[d]}});
  }
  fold_batch_into_rows(problem, built.batch);
  problem.batch = built.batch.loop();
  return built;
}

/// The variant that `kernel` encodes (VARIANT_STEP); -1: the kernel chooses.
int variant_of(const GemmArguments& args, const gemm::Kernel& kernel) {
  const int64_t variant = args.kernel / VARIANT_STEP - 1;
  if (variant < -1 || variant >= kernel.variant_count) {
    fail(args.op, std::string("kernel '") + kernel.name + "' has " +
                      std::to_string(kernel.variant_count) + " variants, got number " +
                      std::to_string(variant));
  }
  return static_cast<int>(variant);
}

/// Warns once per GPU if this build lacks code for it and so runs slower kernels.
void warn_of_missing_code(const gemm::KernelTable& table, const Device& device, int device_index) {
  if (device.code_capability >= device.capability) return;
  static std::array<std::once_flag, MAX_DEVICES> once;
  std::call_once(once.at(device_index), [&] {
    std::string names;
    for (const std::string& name : gemm::kernels_without_code(table, device)) {
      names += (names.empty() ? "" : ", ") + name;
    }
    if (names.empty()) return;
    const std::string text =
        "torch_smem_gemm: this build holds no code of " + names + " for GPU " +
        std::to_string(device_index) +
        ", so slower kernels run in their place; rebuild with TORCH_CUDA_ARCH_LIST=" +
        gemm::arch_list_for(device) + " (see `python -m torch_smem_gemm info`)";
    aoti_torch_warn(__func__, __FILE_NAME__, __LINE__, text.c_str());
  });
}

/// Computes `out` and, if it is given, the preactivation `pre`, which has the same layout.
void run_gemm(const GemmArguments& args, const MatrixView& out, const OptionalTensor& pre = {}) {
  if (out.tensor->numel() == 0) return;
  auto [problem, batch] = build_problem(args, out);
  if (pre) problem.pre = pre->mutable_data_ptr();
  const OnDeviceOf on_device(args.op, *args.a.tensor);
  const auto table = gemm::kernels(on_device.build());
  const int automatic = args.kernel == 0 ? gemm::choose(problem, on_device.device()).kernel : 0;
  if (args.kernel == 0) {
    warn_of_missing_code(table, on_device.device(), args.a.tensor->get_device_index());
  }
  const int index = kernel_index(args.op, args.kernel % VARIANT_STEP, table.count, automatic);
  const gemm::Kernel& kernel = *table.kernels[index];
  problem.variant = variant_of(args, kernel);
  gemm::check_requirements(kernel, problem, on_device.device());
  std::optional<Tensor> workspace;
  if (const size_t bytes =
          kernel.workspace_bytes ? kernel.workspace_bytes(problem, on_device.device()) : 0) {
    Sizes sizes;
    sizes.push(static_cast<int64_t>(bytes));
    workspace = empty(args.op, sizes, ScalarType::Byte, *args.a.tensor);
  }
  trace_tensor("a", *args.a.tensor);
  trace_tensor("b", *args.b.tensor);
  if (args.bias) trace_tensor("bias", *args.bias);
  if (args.c) trace_tensor("c", *args.c);
  trace_tensor("out", *out.tensor);
  if (pre) trace_tensor("pre", *pre);
  if (workspace) trace_tensor("workspace", *workspace);
  batch.for_each_outer([&, &problem = problem](const auto& offsets) {
    Problem matrix = problem;
    if (workspace) matrix.workspace = workspace->mutable_data_ptr();
    advance(matrix.a.data, offsets[gemm::A], problem.dtype);
    advance(matrix.b.data, offsets[gemm::B], problem.dtype);
    advance(matrix.c.data, offsets[gemm::C], problem.c_dtype);
    advance(matrix.out.data, offsets[gemm::OUT], problem.out_dtype);
    advance(matrix.pre, offsets[gemm::OUT], problem.dtype);
    kernel.launch(matrix, on_device.device());
  });
}

/// Runs a linear as a gemm. `args` are its arguments, with the weight as B.
void run_linear(GemmArguments args, const Tensor& out, const OptionalTensor& pre = {}) {
  args.out_dtype = out.scalar_type();
  args.b.transpose();
  MatrixView out_view(out);
  if (args.a.sizes.count == 1) {
    args.a.add_row_dimension();
    out_view.add_row_dimension();
  }
  run_gemm(args, out_view, pre);
}

/// The arguments of the op `linear`. The result refers to `x`, `weight` and `bias`.
GemmArguments linear_arguments(const Tensor& x, const Tensor& weight, const OptionalTensor& bias,
                               int64_t activation, int64_t precision) {
  static const OptionalTensor no_c;
  return {.op = "linear",
          .a = MatrixView(x),
          .b = MatrixView(weight),
          .bias = bias,
          .c = no_c,
          .activation = activation,
          .precision = precision};
}

/// The arguments of the op `gemm`. The result refers to `a`, `b`, `bias` and `c`.
GemmArguments gemm_arguments(const Tensor& a, const Tensor& b, const OptionalTensor& bias,
                             const OptionalTensor& c, double alpha, double beta, int64_t activation,
                             int64_t precision, int64_t kernel, const OptionalType& out_dtype) {
  return {.op = "gemm",
          .a = MatrixView(a),
          .b = MatrixView(b),
          .bias = bias,
          .c = c,
          .alpha = alpha,
          .beta = beta,
          .activation = activation,
          .precision = precision,
          .kernel = kernel,
          .out_dtype = out_dtype};
}

}  // namespace

Tensor gemm(const Tensor& a, const Tensor& b, const OptionalTensor& bias, const OptionalTensor& c,
            double alpha, double beta, int64_t activation, int64_t precision, int64_t kernel,
            const OptionalType& out_dtype) {
  const GemmArguments args =
      gemm_arguments(a, b, bias, c, alpha, beta, activation, precision, kernel, out_dtype);
  const Tensor out = empty("gemm", check_gemm(args), args.out_type(), a);
  run_gemm(args, MatrixView(out));
  return out;
}

void gemm_out(const Tensor& a, const Tensor& b, const OptionalTensor& bias, const OptionalTensor& c,
              double alpha, double beta, int64_t activation, int64_t precision, int64_t kernel,
              const OptionalType& out_dtype, const Tensor& out) {
  const GemmArguments args =
      gemm_arguments(a, b, bias, c, alpha, beta, activation, precision, kernel, out_dtype);
  check_out("gemm", out, check_gemm(args), args.out_type(), a);
  write_out("gemm", out, output_aliases_input(args, out),
            [&](const Tensor& target) { run_gemm(args, MatrixView(target)); });
}

std::tuple<Tensor, Tensor> gemm_with_preactivation(const Tensor& a, const Tensor& b,
                                                   const OptionalTensor& bias,
                                                   const OptionalTensor& c, double alpha,
                                                   double beta, int64_t activation,
                                                   int64_t precision, int64_t kernel,
                                                   const OptionalType& out_dtype) {
  const GemmArguments args =
      gemm_arguments(a, b, bias, c, alpha, beta, activation, precision, kernel, out_dtype);
  const Sizes sizes = check_gemm(args);
  const Tensor out = empty("gemm", sizes, args.out_type(), a);
  const Tensor pre = empty("gemm", sizes, a.scalar_type(), a);
  run_gemm(args, MatrixView(out), pre);
  return {out, pre};
}

std::vector<int64_t> gemm_problem(const Tensor& a, const Tensor& b) {
  const OptionalTensor none;
  const GemmArguments args{
      .op = "gemm", .a = MatrixView(a), .b = MatrixView(b), .bias = none, .c = none};
  MatrixView out(a);  // only its sizes and strides are used, which are set here
  out.sizes = check_gemm(args);
  out.strides = contiguous_strides(out.sizes);
  const Problem p = build_problem(args, out).problem;
  const auto misaligned = [](const gemm::Operand& operand) {
    return static_cast<int64_t>(reinterpret_cast<uintptr_t>(operand.data) % 16);
  };
  std::vector<int64_t> numbers{p.M,
                               p.N,
                               p.K,
                               p.a.row_stride,
                               p.a.col_stride,
                               p.b.row_stride,
                               p.b.col_stride,
                               p.out.row_stride,
                               p.out.col_stride,
                               misaligned(p.a),
                               misaligned(p.b)};
  for (int d = 0; d < p.batch.rank; ++d) {
    for (const int64_t number : {p.batch.size[d], p.batch.stride[gemm::A][d],
                                 p.batch.stride[gemm::B][d], p.batch.stride[gemm::OUT][d]}) {
      numbers.push_back(number);
    }
  }
  return numbers;
}

Tensor linear(const Tensor& x, const Tensor& weight, const OptionalTensor& bias, int64_t activation,
              int64_t precision, const OptionalType& out_dtype) {
  const Sizes sizes = check_linear(x, weight, bias, activation, precision, out_dtype);
  const Tensor out = empty("linear", sizes, out_dtype.value_or(x.scalar_type()), x);
  run_linear(linear_arguments(x, weight, bias, activation, precision), out);
  return out;
}

void linear_out(const Tensor& x, const Tensor& weight, const OptionalTensor& bias,
                int64_t activation, int64_t precision, const OptionalType& out_dtype,
                const Tensor& out) {
  const Sizes sizes = check_linear(x, weight, bias, activation, precision, out_dtype);
  check_out("linear", out, sizes, out_dtype.value_or(x.scalar_type()), x);
  const bool overlaps =
      may_overlap(x, out) || may_overlap(weight, out) || (bias && may_overlap(*bias, out));
  write_out("linear", out, overlaps, [&](const Tensor& target) {
    run_linear(linear_arguments(x, weight, bias, activation, precision), target);
  });
}

std::tuple<Tensor, Tensor> linear_with_preactivation(const Tensor& x, const Tensor& weight,
                                                     const OptionalTensor& bias, int64_t activation,
                                                     int64_t precision,
                                                     const OptionalType& out_dtype) {
  const Sizes sizes = check_linear(x, weight, bias, activation, precision, out_dtype);
  const Tensor out = empty("linear", sizes, out_dtype.value_or(x.scalar_type()), x);
  const Tensor pre = empty("linear", sizes, x.scalar_type(), x);
  run_linear(linear_arguments(x, weight, bias, activation, precision), out, pre);
  return {out, pre};
}

Tensor linear_split(const Tensor& x, const Tensor& weight, const Tensor& split,
                    const OptionalTensor& bias, int64_t activation, int64_t precision,
                    int64_t kernel) {
  const Sizes sizes = check_linear(x, weight, bias, activation, precision, {});
  check_weight_split("_linear_split", split, weight);
  const Tensor out = empty("linear", sizes, x.scalar_type(), x);
  GemmArguments args = linear_arguments(x, weight, bias, activation, precision);
  args.kernel = kernel;
  args.b_split = split.mutable_data_ptr();
  trace_tensor("split", split);
  run_linear(args, out);
  return out;
}

}  // namespace smem::bindings
