#include "bindings/gemm.h"

#include <torch/csrc/inductor/aoti_torch/c/shim.h>

#include <array>
#include <mutex>

#include "bindings/layout.h"
#include "gemm/dispatch.h"
#include "gemm/gemm.h"

namespace smem::bindings {
namespace {

using gemm::Activation;
using gemm::Precision;
using gemm::Problem;

/// A tensor as a batch of matrices. linear's weight is turned by exchanging its last two.
struct MatrixView {
  const Tensor* tensor;
  Sizes sizes, strides;

  explicit MatrixView(const Tensor& t) : tensor(&t), sizes(sizes_of(t)), strides(strides_of(t)) {}

  void turn() {
    std::swap(sizes.at[sizes.count - 1], sizes.at[sizes.count - 2]);
    std::swap(strides.at[strides.count - 1], strides.at[strides.count - 2]);
  }
  void add_row_dimension() {
    sizes.push(sizes.at[0]);
    strides.push(strides.at[0]);
    sizes.at[0] = 1;
    strides.at[0] = 0;
  }
  gemm::Operand operand() const {
    return {tensor->const_data_ptr(), strides.last(2), strides.last(1)};
  }
  /// Size and stride of dimension d of `dims` broadcast dimensions; a missing one has size 1.
  int64_t size(int d, int dims) const {
    return d < dims - sizes.count ? 1 : sizes.at[d - (dims - sizes.count)];
  }
  int64_t stride(int d, int dims) const {
    return size(d, dims) == 1 ? 0 : strides.at[d - (dims - sizes.count)];
  }
};

struct Arguments {
  const char* op;
  MatrixView a, b;
  const OptionalTensor& bias;
  const OptionalTensor& c;
  double alpha, beta;
  int64_t activation, precision, kernel;
  OptionalType out_dtype;

  ScalarType out_type() const { return out_dtype.value_or(a.tensor->scalar_type()); }
};

/// Fills `result` with the broadcast shape of the batch dimensions; false where they do not fit.
void broadcast_batch(const Arguments& args, Sizes& result) {
  const int dims = std::max(args.a.sizes.count, args.b.sizes.count);
  for (int d = 0; d < dims - 2; ++d) {
    const int64_t size_a = args.a.size(d, dims), size_b = args.b.size(d, dims);
    if (size_a != size_b && size_a != 1 && size_b != 1) {
      fail(std::string("smem.") + args.op + ": a is " + shape_text(args.a.sizes) + " and b is " +
           shape_text(args.b.sizes) + ": batch sizes " + std::to_string(size_a) + " and " +
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
    fail(std::string("smem.") + op + ": bias is " + shape_text(sizes) + ", expected " +
         std::to_string(N) + ", an element a column of the result");
  }
}

void check_codes(const char* op, int64_t activation, int64_t precision) {
  check_code(op, "activation", activation, static_cast<int64_t>(Activation::silu));
  check_code(op, "precision", precision, static_cast<int64_t>(Precision::tf32) + 1);
}

/// As torch.mm's: the inputs' dtype, or float32 for the 16-bit ones.
void check_out_dtype(const char* op, const OptionalType& out_dtype, const char* like_name,
                     const Tensor& like) {
  const ScalarType type = like.scalar_type();
  if (!out_dtype || *out_dtype == type) return;
  const bool widens = type == ScalarType::Half || type == ScalarType::BFloat16;
  if (widens && *out_dtype == ScalarType::Float) return;
  fail(std::string("smem.") + op + ": out_dtype is " + dtype_text(*out_dtype) + ", expected " +
       dtype_text(type) + " as " + like_name + " has" + (widens ? ", or float32" : ""));
}

/// C has the dtype of A or that of the result.
void check_c_like(const Arguments& args) {
  const Tensor& a = *args.a.tensor;
  const ScalarType type = args.c->scalar_type();
  if (type != a.scalar_type() && type != args.out_type()) {
    fail(std::string("smem.") + args.op + ": c has dtype " + dtype_text(type) + ", expected " +
         dtype_text(a.scalar_type()) + " as a has" +
         (a.scalar_type() == args.out_type() ? "" : ", or float32 as out_dtype is"));
  }
  check_device(args.op, "c", *args.c, "a", a);
}

/// Checks everything but `out` and gives the result's shape.
Sizes check_gemm(const Arguments& args) {
  check_codes(args.op, args.activation, args.precision);
  const auto at_least_2d = [&](const char* name, const MatrixView& view) {
    if (view.sizes.count >= 2) return;
    fail(std::string("smem.") + args.op + ": " + name + " is " + shape_text(view.sizes) +
         ", expected a matrix or a batch of matrices");
  };
  at_least_2d("a", args.a);
  at_least_2d("b", args.b);
  check_gemm_dtype(args.op, "a", *args.a.tensor);
  check_like(args.op, "b", *args.b.tensor, "a", *args.a.tensor);
  if (args.a.sizes.last(1) != args.b.sizes.last(2)) {
    fail(std::string("smem.") + args.op + ": a is " + shape_text(args.a.sizes) + " and b is " +
         shape_text(args.b.sizes) + ": inner sizes " + std::to_string(args.a.sizes.last(1)) +
         " and " + std::to_string(args.b.sizes.last(2)) + " differ");
  }
  check_out_dtype(args.op, args.out_dtype, "a", *args.a.tensor);
  Sizes result;
  broadcast_batch(args, result);
  result.push(args.a.sizes.last(2));
  result.push(args.b.sizes.last(1));
  check_bias(args.op, args.bias, result.last(1), "a", *args.a.tensor);
  if (args.beta != 0 && !args.c)
    fail(std::string("smem.") + args.op + ": beta is not 0, expected c");
  if (args.c) {
    check_c_like(args);
    const Sizes sizes = sizes_of(*args.c);
    bool fits = sizes.count <= result.count;
    for (int i = 1; fits && i <= sizes.count; ++i) {
      fits = sizes.last(i) == 1 || sizes.last(i) == result.last(i);
    }
    if (!fits) {
      fail(std::string("smem.") + args.op + ": c is " + shape_text(sizes) +
           ", which does not broadcast to the result's " + shape_text(result));
    }
  }
  return result;
}

using BatchDims = Dims<gemm::TENSORS>;

/// Takes a batch dimension that is a further stretch of rows into M: rows of A over one B.
void fold_batch_into_rows(Problem& problem, BatchDims& batch) {
  while (batch.count > 0) {
    const auto& dim = batch.at[batch.count - 1];
    const auto stretches = [&](int64_t row_stride, gemm::Tensor tensor) {
      return problem.M == 1 || dim.stride[tensor] == problem.M * row_stride;
    };
    const bool folds = dim.stride[gemm::B] == 0 && stretches(problem.a.row_stride, gemm::A) &&
                       stretches(problem.out.row_stride, gemm::OUT) &&
                       (!problem.c.data || stretches(problem.c.row_stride, gemm::C));
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

template <typename Data>
void move(Data*& data, int64_t elements, DType dtype) {
  using Byte = std::conditional_t<std::is_const_v<Data>, const char, char>;
  if (data) data = static_cast<Byte*>(data) + elements * static_cast<int64_t>(size_of(dtype));
}

struct Batched {
  Problem problem{};
  BatchDims batch;
};

/// 0 is for those who say nothing.
Precision precision_of(int64_t code) {
  return code == 0 ? Precision::fp32 : static_cast<Precision>(code - 1);
}

/// The problem that writes `out`, whose view has at least the result's two dimensions.
Batched build_problem(const Arguments& args, const MatrixView& out) {
  Batched built;
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

/// -1 where the kernel shall choose.
int variant_of(const Arguments& args, const gemm::Kernel& kernel) {
  const int64_t variant = args.kernel / VARIANT_STEP - 1;
  if (variant >= kernel.variant_count) {
    fail(std::string("smem.") + args.op + ": kernel '" + kernel.name + "' has " +
         std::to_string(kernel.variant_count) + " variants, got number " + std::to_string(variant));
  }
  return static_cast<int>(variant);
}

/// Warns, once per GPU, of kernels that this build lacks for it, in whose place slower ones run.
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

/// Writes `out` and, where there is one, `pre`, which is laid out alike.
void run(const Arguments& args, const MatrixView& out, const OptionalTensor& pre = {}) {
  if (out.tensor->numel() == 0) return;
  auto [problem, batch] = build_problem(args, out);
  if (pre) problem.pre = pre->mutable_data_ptr();
  const OnDeviceOf place(args.op, *args.a.tensor);
  const auto table = gemm::kernels(place.build());
  const int automatic = args.kernel == 0 ? gemm::choose(problem, place.device()).kernel : 0;
  if (args.kernel == 0) {
    warn_of_missing_code(table, place.device(), args.a.tensor->get_device_index());
  }
  const int index = kernel_index(args.op, args.kernel % VARIANT_STEP, table.count, automatic);
  const gemm::Kernel& kernel = *table.kernels[index];
  problem.variant = variant_of(args, kernel);
  gemm::check_requirements(kernel, problem, place.device());
  std::optional<Tensor> workspace;
  if (const size_t bytes =
          kernel.workspace_bytes ? kernel.workspace_bytes(problem, place.device()) : 0) {
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
    Problem member = problem;
    if (workspace) member.workspace = workspace->mutable_data_ptr();
    move(member.a.data, offsets[gemm::A], problem.dtype);
    move(member.b.data, offsets[gemm::B], problem.dtype);
    move(member.c.data, offsets[gemm::C], problem.c_dtype);
    move(member.out.data, offsets[gemm::OUT], problem.out_dtype);
    move(member.pre, offsets[gemm::OUT], problem.dtype);
    kernel.launch(member, place.device());
  });
}

/// Whether writing `out` could change what is still to be read. C may be `out` itself: every
/// element of it is read by the thread that then writes it.
bool reads_what_it_writes(const Arguments& args, const Tensor& out) {
  const auto is_out = [&](const Tensor& c) {
    return c.const_data_ptr() == out.const_data_ptr() && c.scalar_type() == out.scalar_type() &&
           sizes_of(c) == sizes_of(out) && strides_of(c) == strides_of(out);
  };
  return may_overlap(*args.a.tensor, out) || may_overlap(*args.b.tensor, out) ||
         (args.bias && may_overlap(*args.bias, out)) ||
         (args.c && args.beta != 0 && may_overlap(*args.c, out) && !is_out(*args.c));
}

Sizes check_linear(const Tensor& x, const Tensor& weight, const OptionalTensor& bias,
                   int64_t activation, int64_t precision, const OptionalType& out_dtype) {
  check_codes("linear", activation, precision);
  Sizes result = sizes_of(x);
  const Sizes weight_sizes = sizes_of(weight);
  if (result.count < 1) fail("smem.linear: x is scalar, expected at least 1 dimension");
  if (weight_sizes.count != 2) {
    fail("smem.linear: weight is " + shape_text(weight_sizes) +
         ", expected out_features x in_features");
  }
  check_gemm_dtype("linear", "x", x);
  check_like("linear", "weight", weight, "x", x);
  if (result.last(1) != weight_sizes.at[1]) {
    fail("smem.linear: x is " + shape_text(result) + " and weight is " + shape_text(weight_sizes) +
         ": in_features " + std::to_string(result.last(1)) + " and " +
         std::to_string(weight_sizes.at[1]) + " differ");
  }
  check_out_dtype("linear", out_dtype, "x", x);
  check_bias("linear", bias, weight_sizes.at[0], "x", x);
  result.at[result.count - 1] = weight_sizes.at[0];
  return result;
}

void run_linear(const Tensor& x, const Tensor& weight, const OptionalTensor& bias,
                int64_t activation, int64_t precision, const Tensor& out,
                const OptionalTensor& pre = {}) {
  const OptionalTensor no_c;
  Arguments args{
      "linear", MatrixView(x),    MatrixView(weight), bias, no_c, 1, 0, activation, precision,
      0,        out.scalar_type()};
  args.b.turn();
  MatrixView out_view(out);
  if (args.a.sizes.count == 1) {
    args.a.add_row_dimension();
    out_view.add_row_dimension();
  }
  run(args, out_view, pre);
}

}  // namespace

Tensor gemm(const Tensor& a, const Tensor& b, const OptionalTensor& bias, const OptionalTensor& c,
            double alpha, double beta, int64_t activation, int64_t precision, int64_t kernel,
            const OptionalType& out_dtype) {
  const Arguments args{"gemm", MatrixView(a), MatrixView(b), bias,   c,        alpha,
                       beta,   activation,    precision,     kernel, out_dtype};
  const Tensor out = empty("gemm", check_gemm(args), args.out_type(), a);
  run(args, MatrixView(out));
  return out;
}

void gemm_out(const Tensor& a, const Tensor& b, const OptionalTensor& bias, const OptionalTensor& c,
              double alpha, double beta, int64_t activation, int64_t precision, int64_t kernel,
              const OptionalType& out_dtype, const Tensor& out) {
  const Arguments args{"gemm", MatrixView(a), MatrixView(b), bias,   c,        alpha,
                       beta,   activation,    precision,     kernel, out_dtype};
  check_out("gemm", out, check_gemm(args), args.out_type(), a);
  write_out("gemm", out, reads_what_it_writes(args, out),
            [&](const Tensor& target) { run(args, MatrixView(target)); });
}

std::tuple<Tensor, Tensor> gemm_with_preactivation(const Tensor& a, const Tensor& b,
                                                   const OptionalTensor& bias,
                                                   const OptionalTensor& c, double alpha,
                                                   double beta, int64_t activation,
                                                   int64_t precision, int64_t kernel,
                                                   const OptionalType& out_dtype) {
  const Arguments args{"gemm", MatrixView(a), MatrixView(b), bias,   c,        alpha,
                       beta,   activation,    precision,     kernel, out_dtype};
  const Sizes sizes = check_gemm(args);
  const Tensor out = empty("gemm", sizes, args.out_type(), a);
  const Tensor pre = empty("gemm", sizes, a.scalar_type(), a);
  run(args, MatrixView(out), pre);
  return {out, pre};
}

std::vector<int64_t> gemm_problem(const Tensor& a, const Tensor& b) {
  const OptionalTensor none;
  const Arguments args{"gemm", MatrixView(a), MatrixView(b), none, none, 1, 0, 0, 0, 0, {}};
  MatrixView out(a);  // for its shape and strides only
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
  run_linear(x, weight, bias, activation, precision, out);
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
    run_linear(x, weight, bias, activation, precision, target);
  });
}

std::tuple<Tensor, Tensor> linear_with_preactivation(const Tensor& x, const Tensor& weight,
                                                     const OptionalTensor& bias, int64_t activation,
                                                     int64_t precision,
                                                     const OptionalType& out_dtype) {
  const Sizes sizes = check_linear(x, weight, bias, activation, precision, out_dtype);
  const Tensor out = empty("linear", sizes, out_dtype.value_or(x.scalar_type()), x);
  const Tensor pre = empty("linear", sizes, x.scalar_type(), x);
  run_linear(x, weight, bias, activation, precision, out, pre);
  return {out, pre};
}

}  // namespace smem::bindings
