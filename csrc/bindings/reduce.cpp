#include "bindings/reduce.h"

#include <algorithm>
#include <numeric>

#include "bindings/layout.h"
#include "bindings/passes.h"
#include "reduce/dispatch.h"
#include "reduce/reduce.h"
#include "reduce/reduction_tree.h"

namespace smem::bindings {
namespace {

bool is_complex(ScalarType type) {
  return type == ScalarType::ComplexHalf || type == ScalarType::ComplexFloat ||
         type == ScalarType::ComplexDouble;
}

/// A complex number is stored as two reals.
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

/// Throws unless the op supports x's dtype and the dtype asked for.
void check_dtypes(const Reduction& reduction, ScalarType in, const OptionalType& asked) {
  const auto check = [&](const std::string& subject, ScalarType type) {
    const bool known = dtype_of(real_of(type)).has_value();
    if (reduction.op == reduce::Operator::sum ? known : known && !is_complex(type)) return;
    fail(reduction.name, subject + dtype_text(type) + ", expected a float, " +
                             (reduction.op == reduce::Operator::sum ? "complex, " : "") +
                             "bool, uint8 or signed integer dtype of torch." + reduction.name);
  };
  check("x has dtype ", in);
  if (asked) check("dtype is ", *asked);
  if (reduction.divides && *dtype_of(real_of(asked.value_or(in))) >= DType::i64) {
    fail(reduction.name, std::string(asked ? "dtype is " : "x has dtype ") +
                             dtype_text(asked.value_or(in)) +
                             (asked ? ", expected a float or complex dtype"
                                    : ", expected a float or complex dtype, or one as dtype"));
  }
}

/// As in torch.sum, integers and bool are summed to int64 unless another dtype is asked for.
ScalarType result_type(const Reduction& reduction, ScalarType in, const OptionalType& asked) {
  if (asked) return *asked;
  const bool is_integer = *dtype_of(real_of(in)) >= DType::i64;
  return reduction.op == reduce::Operator::sum && is_integer ? ScalarType::Long : in;
}

/// Returns whether the kernels can sum `in` to `out` with the same result as if every element had
/// been converted first.
bool sums_directly(ScalarType in, ScalarType out) {
  if (in == out) return true;
  const DType from = *dtype_of(real_of(in)), to = *dtype_of(real_of(out));
  if (is_complex(in) != is_complex(out)) return false;
  if (to == DType::f32) return from == DType::f16 || from == DType::bf16;
  return from >= DType::i64 && to >= DType::i64 && to != DType::boolean;
}

struct ReducedDims {
  std::array<bool, MAX_DIMS> reduced{};
  Sizes result;

  ReducedDims(const Reduction& reduction, const Sizes& sizes, const OptionalDims& dim,
              bool keepdim) {
    const int64_t limit = std::max(sizes.count, 1);
    const bool all = !dim || dim->empty();
    for (int d = 0; d < sizes.count; ++d) reduced[d] = all;
    std::array<bool, MAX_DIMS> seen{};
    for (int64_t d : all ? std::vector<int64_t>{} : *dim) {
      if (d < -limit || d >= limit) {
        fail(reduction.name, "dim holds " + std::to_string(d) + ", expected " +
                                 std::to_string(-limit) + " to " + std::to_string(limit - 1));
      }
      const int64_t wrapped = d < 0 ? d + limit : d;
      if (seen[wrapped]) {
        fail(reduction.name, "dim holds dimension " + std::to_string(wrapped) + " more than once");
      }
      seen[wrapped] = true;
      reduced[wrapped] = true;
    }
    for (int d = 0; d < sizes.count; ++d) {
      if (reduced[d] && sizes.at[d] == 0 && reduction.op != reduce::Operator::sum) {
        fail(reduction.name, "x is " + shape_text(sizes) + ", expected elements along dimension " +
                                 std::to_string(d) + ", which is reduced");
      }
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

/// Whether a reduced dimension of stride `a` is outside one of stride `b`: an output's elements are
/// numbered in the order of their addresses. Stride 0 counts as the largest, because the elements
/// along it are one element of memory; innermost, it would prevent vector loads.
bool is_outside(int64_t a, int64_t b) {
  return static_cast<uint64_t>(a) - 1 > static_cast<uint64_t>(b) - 1;  // 0 - 1 is the largest
}

/// The dimensions, sorted by their strides in x, and as few as possible. `comes_first` compares two
/// strides.
template <int TENSORS, typename Compare>
Dims<TENSORS> sorted_and_merged(Dims<TENSORS> dims, const Compare& comes_first) {
  std::stable_sort(
      dims.at.begin(), dims.at.begin() + dims.count,
      [&](const auto& a, const auto& b) { return comes_first(a.stride[0], b.stride[0]); });
  Dims<TENSORS> merged;
  for (int d = 0; d < dims.count; ++d) merged.push_merged(dims.at[d]);
  return merged;
}

/// A copy of x with the reduced dimensions last and in their order, for an x whose dimensions need
/// more than MAX_RANK loops.
Tensor packed(const Tensor& x, const ReducedDims& reduced_dims, int rank) {
  std::vector<int64_t> order(rank);
  std::iota(order.begin(), order.end(), 0);
  const auto reduced = std::stable_partition(order.begin(), order.end(),
                                             [&](int64_t d) { return !reduced_dims.reduced[d]; });
  std::stable_sort(reduced, order.end(),
                   [&](int64_t a, int64_t b) { return is_outside(x.stride(a), x.stride(b)); });
  int64_t outputs = 1;
  for (auto d = order.begin(); d != reduced; ++d) outputs *= x.size(*d);
  return torch::stable::reshape(permuted(x, order), {outputs, x.numel() / outputs});
}

void reduce_into(const Reduction& reduction, const Tensor& x, const ReducedDims& dims,
                 int64_t kernel_code, const Tensor& out) {
  if (out.numel() == 0) return;
  const OnDeviceOf on_device(reduction.name, x);
  const Sizes sizes = sizes_of(x), strides = strides_of(x), out_strides = strides_of(out);
  const bool kept = out_strides.count == sizes.count;
  const int64_t reals_per_element = is_complex(x.scalar_type()) ? 2 : 1;

  // The order of the reduced dimensions is part of the promise (docs/reproducibility.md). The
  // outputs may have any order; those with the smallest strides are last.
  Dims<reduce::TENSORS> output_dims;
  Dims<1> reduced_dims;
  int o = 0;
  for (int d = 0; d < sizes.count; ++d) {
    if (dims.reduced[d]) {
      reduced_dims.push({sizes.at[d], {strides.at[d] * reals_per_element}});
      o += kept;
    } else {
      output_dims.push(
          {sizes.at[d],
           {strides.at[d] * reals_per_element, out_strides.at[o++] * reals_per_element}});
    }
  }
  if (reals_per_element == 2) output_dims.push({2, {1, 1}});
  const Dims<reduce::TENSORS> outputs =
      sorted_and_merged(output_dims, [](int64_t a, int64_t b) { return a > b; });
  const Dims<1> reduced = sorted_and_merged(reduced_dims, is_outside);

  if (outputs.count > MAX_RANK || reduced.count > MAX_RANK) {
    Sizes flat;
    const Tensor matrix = packed(x, dims, sizes.count);
    flat.push(matrix.size(0));
    const Tensor result = empty(reduction.name, flat, out.scalar_type(), x);
    reduce_into(reduction, matrix,
                ReducedDims(reduction, sizes_of(matrix), std::vector<int64_t>{1}, false),
                kernel_code, result);
    Tensor target = out;
    torch::stable::copy_(target,
                         torch::stable::reshape(
                             result, std::vector<int64_t>(out.sizes().begin(), out.sizes().end())));
    return;
  }

  const auto table = reduce::kernels(on_device.build());
  const int index = kernel_index(reduction.name, kernel_code, table.count, -1);
  const reduce::Kernel* const named = index < 0 ? nullptr : table.kernels[index];
  if (named && !named->any_operator && (reduction.divides || reduction.op != SUM.op)) {
    fail(reduction.name, std::string("kernel '") + named->name + "' only sums");
  }
  trace_tensor("x", x);
  trace_tensor("out", out);
  reduce::Problem problem{};
  problem.op = reduction.op;
  problem.in_dtype = *dtype_of(real_of(x.scalar_type()));
  problem.out_dtype = *dtype_of(real_of(out.scalar_type()));
  problem.in = x.const_data_ptr();
  problem.out = out.mutable_data_ptr();
  problem.count = 1;
  for (int d = 0; d < sizes.count; ++d) problem.count *= dims.reduced[d] ? sizes.at[d] : 1;
  problem.divisor = reduction.divides ? problem.count : 1;
  problem.elements_per_partial = reduce::ELEMENTS_PER_PARTIAL;
  problem.outputs = outputs.loop();
  problem.output_count = problem.outputs.count();
  problem.reduced = reduced.loop();
  run_passes(reduction.name, problem, x, [&](const reduce::Problem& pass) {
    const reduce::Kernel& kernel = named ? *named : *table.kernels[reduce::choose(pass).kernel];
    return Pass{kernel.splits(pass, on_device.device()), reduce::partial_dtype_of(kernel, pass),
                [&](const reduce::Problem& split_problem) {
                  kernel.launch(split_problem, on_device.device());
                }};
  });
}

Tensor converted(const Tensor& x, ScalarType type) {
  return sums_directly(x.scalar_type(), type) ? x : torch::stable::to(x, type);
}

}  // namespace

Tensor reduce(const Reduction& reduction, const Tensor& x, const OptionalDims& dim, bool keepdim,
              const OptionalType& dtype, int64_t kernel) {
  check_dtypes(reduction, x.scalar_type(), dtype);
  const ScalarType type = result_type(reduction, x.scalar_type(), dtype);
  const ReducedDims dims(reduction, sizes_of(x), dim, keepdim);
  const Tensor out = empty(reduction.name, dims.result, type, x);
  reduce_into(reduction, converted(x, type), dims, kernel, out);
  return out;
}

void reduce_out(const Reduction& reduction, const Tensor& x, const OptionalDims& dim, bool keepdim,
                const OptionalType& dtype, int64_t kernel, const Tensor& out) {
  check_dtypes(reduction, x.scalar_type(), dtype);
  const ScalarType type = result_type(reduction, x.scalar_type(), dtype);
  const ReducedDims dims(reduction, sizes_of(x), dim, keepdim);
  check_out(reduction.name, out, dims.result, type, x);
  write_out(reduction.name, out, may_overlap(x, out), [&](const Tensor& target) {
    reduce_into(reduction, converted(x, type), dims, kernel, target);
  });
}

}  // namespace smem::bindings
