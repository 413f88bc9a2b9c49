#include "bindings/sum.h"

#include "bindings/layout.h"
#include "sum/sum.h"

namespace smem::bindings {
namespace {

constexpr const char* OP = "sum";

bool is_complex(ScalarType type) {
  return type == ScalarType::ComplexHalf || type == ScalarType::ComplexFloat ||
         type == ScalarType::ComplexDouble;
}

/// A complex number is two reals side by side.
ScalarType real_of(ScalarType type) {
  switch (type) {
    case ScalarType::ComplexHalf:
      return ScalarType::Half;
    case ScalarType::ComplexFloat:
      return ScalarType::Float;
    case ScalarType::ComplexDouble:
      return ScalarType::Double;
    default:
      return type;
  }
}

void check_dtype(const char* name, ScalarType type) {
  if (!dtype_of(real_of(type))) {
    fail(std::string("smem.sum: ") + name +
         (std::string(name) == "dtype" ? " is " : " has dtype ") + dtype_text(type) +
         ", expected a float, complex, bool, uint8 or signed integer dtype of torch.sum");
  }
}

/// As torch.sum: integers and bool are summed to int64 unless asked otherwise.
ScalarType result_type(ScalarType in, const std::optional<ScalarType>& dtype) {
  if (dtype) return *dtype;
  const auto known = dtype_of(real_of(in));
  return known && *known >= DType::i64 ? ScalarType::Long : in;
}

/// Whether the kernels sum `in` to `out` as if each element had first been converted.
bool sums_directly(ScalarType in, ScalarType out) {
  if (in == out) return true;
  const DType from = *dtype_of(real_of(in)), to = *dtype_of(real_of(out));
  if (is_complex(in) != is_complex(out)) return false;
  if (to == DType::f32) return from == DType::f16 || from == DType::bf16;
  return from >= DType::i64 && to >= DType::i64 && to != DType::boolean;
}

struct Plan {
  std::array<bool, MAX_DIMS> reduced{};
  Sizes result;

  Plan(const Sizes& sizes, const OptionalDims& dim, bool keepdim) {
    const int64_t limit = std::max(sizes.count, 1);
    const bool all = !dim || dim->empty();
    for (int d = 0; d < sizes.count; ++d) reduced[d] = all;
    std::array<bool, MAX_DIMS> seen{};
    for (int64_t d : all ? std::vector<int64_t>{} : *dim) {
      if (d < -limit || d >= limit) {
        fail("smem.sum: dim holds " + std::to_string(d) + ", expected " + std::to_string(-limit) +
             " to " + std::to_string(limit - 1));
      }
      const int64_t wrapped = d < 0 ? d + limit : d;
      if (seen[wrapped]) {
        fail("smem.sum: dim holds dimension " + std::to_string(wrapped) + " more than once");
      }
      seen[wrapped] = true;
      reduced[wrapped] = true;
    }
    for (int d = 0; d < sizes.count; ++d) {
      if (!reduced[d]) {
        result.push(sizes.at[d]);
      } else if (keepdim) {
        result.push(1);
      }
    }
  }
};

Tensor permuted(const Tensor& x, const std::vector<int64_t>& order) {
  std::array<StableIValue, 2> stack{torch::stable::detail::from(x),
                                    torch::stable::detail::from(order)};
  TORCH_ERROR_CODE_CHECK(
      torch_call_dispatcher("aten::permute", "", stack.data(), TORCH_ABI_VERSION));
  return torch::stable::detail::to<Tensor>(stack[0]);
}

/// A copy of x with the reduced dimensions last, for one whose dimensions need too many loops.
Tensor packed(const Tensor& x, const Plan& plan, int dims) {
  std::vector<int64_t> order;
  for (const bool reduced : {false, true}) {
    for (int d = 0; d < dims; ++d) {
      if (plan.reduced[d] == reduced) order.push_back(d);
    }
  }
  int64_t outputs = 1;
  for (int d = 0; d < dims; ++d) outputs *= plan.reduced[d] ? 1 : x.size(d);
  return torch::stable::reshape(permuted(x, order), {outputs, x.numel() / outputs});
}

/// One pass after the other until a single chunk is left of every output.
void run_passes(sum::Problem problem, const sum::Kernel& kernel, const Tensor& like,
                const Device& device) {
  const DType out_dtype = problem.out_dtype;
  void* const out = problem.out;
  const auto out_loop = problem.outputs;
  const int64_t outputs = problem.outputs.count();
  const DType accumulator = sum::accumulator_of(problem.in_dtype);
  OptionalTensor source, partial;
  while (problem.chunks > 1) {
    Sizes sizes;
    sizes.push(outputs * problem.chunks);
    const ScalarType type = accumulator == DType::f64   ? ScalarType::Double
                            : accumulator == DType::f32 ? ScalarType::Float
                                                        : ScalarType::Long;
    partial = empty(OP, sizes, type, like);
    trace_tensor("partial", *partial);
    problem.out = partial->mutable_data_ptr();
    problem.out_dtype = accumulator;
    int64_t step = problem.chunks;
    for (int d = problem.outputs.rank - 1; d >= 0; --d) {
      problem.outputs.stride[sum::OUT][d] = step;
      step *= problem.outputs.size[d];
    }
    kernel.launch(problem, device);

    source = partial;
    problem.in = problem.out;
    problem.in_dtype = accumulator;
    problem.count = problem.chunks;
    problem.chunks = std::max<int64_t>(1, ceil_div(problem.count, sum::CHUNK));
    problem.reduced = {};
    problem.reduced.rank = 1;
    problem.reduced.size[0] = problem.count;
    problem.reduced.stride[0][0] = 1;
    for (int d = 0; d < problem.outputs.rank; ++d) {
      problem.outputs.stride[sum::IN][d] = problem.outputs.stride[sum::OUT][d];
    }
  }
  problem.out = out;
  problem.out_dtype = out_dtype;
  for (int d = 0; d < problem.outputs.rank; ++d) {
    problem.outputs.stride[sum::OUT][d] = out_loop.stride[sum::OUT][d];
  }
  kernel.launch(problem, device);
}

void run(const Tensor& x, const Plan& plan, int64_t kernel_code, const Tensor& out) {
  if (out.numel() == 0) return;
  const OnDeviceOf place(OP, x);
  const Sizes sizes = sizes_of(x), strides = strides_of(x), out_strides = strides_of(out);
  const bool kept = out_strides.count == sizes.count;
  const int64_t parts = is_complex(x.scalar_type()) ? 2 : 1;

  Dims<sum::TENSORS> outputs;
  Dims<1> reduced;
  int o = 0;
  for (int d = 0; d < sizes.count; ++d) {
    if (plan.reduced[d]) {
      reduced.push_merged({sizes.at[d], {strides.at[d] * parts}});
      o += kept;
    } else {
      outputs.push_merged({sizes.at[d], {strides.at[d] * parts, out_strides.at[o++] * parts}});
    }
  }
  if (parts == 2) outputs.push_merged({2, {1, 1}});

  if (outputs.count > MAX_RANK || reduced.count > MAX_RANK) {
    Sizes flat;
    const Tensor matrix = packed(x, plan, sizes.count);
    flat.push(matrix.size(0));
    const Tensor result = empty(OP, flat, out.scalar_type(), x);
    run(matrix, Plan(sizes_of(matrix), std::vector<int64_t>{1}, false), kernel_code, result);
    Tensor target = out;
    torch::stable::copy_(target,
                         torch::stable::reshape(
                             result, std::vector<int64_t>(out.sizes().begin(), out.sizes().end())));
    return;
  }

  const auto table = sum::kernels(place.build());
  const int index = kernel_index(OP, kernel_code, table.count, table.count - 1);
  trace_tensor("x", x);
  trace_tensor("out", out);
  sum::Problem problem{};
  problem.in_dtype = *dtype_of(real_of(x.scalar_type()));
  problem.out_dtype = *dtype_of(real_of(out.scalar_type()));
  problem.in = x.const_data_ptr();
  problem.out = out.mutable_data_ptr();
  problem.count = 1;
  for (int d = 0; d < sizes.count; ++d) problem.count *= plan.reduced[d] ? sizes.at[d] : 1;
  problem.chunks = std::max<int64_t>(1, ceil_div(problem.count, sum::CHUNK));
  problem.outputs = outputs.loop();
  problem.reduced = reduced.loop();
  run_passes(problem, *table.kernels[index], x, place.device());
}

Tensor converted(const Tensor& x, ScalarType type) {
  return sums_directly(x.scalar_type(), type) ? x : torch::stable::to(x, type);
}

}  // namespace

Tensor sum(const Tensor& x, const OptionalDims& dim, bool keepdim,
           const std::optional<ScalarType>& dtype, int64_t kernel) {
  check_dtype("x", x.scalar_type());
  if (dtype) check_dtype("dtype", *dtype);
  const ScalarType type = result_type(x.scalar_type(), dtype);
  const Plan plan(sizes_of(x), dim, keepdim);
  const Tensor out = empty(OP, plan.result, type, x);
  run(converted(x, type), plan, kernel, out);
  return out;
}

void sum_out(const Tensor& x, const OptionalDims& dim, bool keepdim,
             const std::optional<ScalarType>& dtype, int64_t kernel, const Tensor& out) {
  check_dtype("x", x.scalar_type());
  if (dtype) check_dtype("dtype", *dtype);
  const ScalarType type = result_type(x.scalar_type(), dtype);
  const Plan plan(sizes_of(x), dim, keepdim);
  check_out(OP, out, plan.result, type, x);
  write_out(OP, out, may_overlap(x, out),
            [&](const Tensor& target) { run(converted(x, type), plan, kernel, target); });
}

}  // namespace smem::bindings
