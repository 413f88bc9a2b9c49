// transpose: the view that is copied, the problem that a kernel gets, and its launch.
#include "bindings/transpose.h"

#include "bindings/transpose_layout.h"
#include "transpose/dispatch.h"

namespace smem::bindings {
namespace {

constexpr const char* OP = "transpose";

int wrap_dim(const char* name, int64_t dim, int dims) {
  const int64_t limit =
      std::max(dims, 1);  // as torch, which accepts dimensions 0 and -1 of a scalar
  if (dim < -limit || dim >= limit) {
    fail(OP, std::string(name) + " is " + std::to_string(dim) + ", expected " +
                 std::to_string(-limit) + " to " + std::to_string(limit - 1));
  }
  return static_cast<int>(dim < 0 ? dim + limit : dim);
}

/// The view x.transpose(dim0, dim1).
struct TransposedView {
  Sizes sizes, strides;

  TransposedView(const Tensor& x, int64_t dim0, int64_t dim1)
      : sizes(sizes_of(x)), strides(strides_of(x)) {
    const int i = wrap_dim("dim0", dim0, sizes.count), j = wrap_dim("dim1", dim1, sizes.count);
    std::swap(sizes.at[i], sizes.at[j]);
    std::swap(strides.at[i], strides.at[j]);
    const size_t bytes = x.element_size();
    if (bytes > 16 || (bytes & (bytes - 1)) != 0) {
      fail(OP, "x has elements of " + std::to_string(bytes) + " bytes, expected 1, 2, 4, 8 or 16");
    }
  }
};

TransposeLayout layout_of(const Tensor& x, const TransposedView& view, const Tensor& out) {
  return {.element_bytes = x.element_size(),
          .in = x.const_data_ptr(),
          .out = out.mutable_data_ptr(),
          .sizes = view.sizes,
          .in_strides = view.strides,
          .out_strides = strides_of(out)};
}

void run_transpose(const Tensor& x, const TransposedView& view, int64_t kernel_id,
                   const Tensor& out) {
  if (out.numel() == 0) return;
  const CollapsedTranspose collapsed = collapse(layout_of(x, view, out));
  const OnDeviceOf on_device(OP, x);
  const auto table = transpose::kernels(on_device.build());
  const int automatic =
      kernel_id == 0 ? transpose::choose(collapsed.problem, on_device.device()).kernel : 0;
  const int index = kernel_index(OP, kernel_id, table.count, automatic);
  trace_tensor("x", x);
  trace_tensor("out", out);
  collapsed.for_each_problem([&](const transpose::Problem& problem) {
    table.kernels[index]->launch(problem, on_device.device());
  });
}

}  // namespace

Tensor transpose(const Tensor& x, int64_t dim0, int64_t dim1, int64_t kernel) {
  const TransposedView view(x, dim0, dim1);
  const Tensor out = empty(OP, view.sizes, x.scalar_type(), x);
  run_transpose(x, view, kernel, out);
  return out;
}

void transpose_out(const Tensor& x, int64_t dim0, int64_t dim1, int64_t kernel, const Tensor& out) {
  const TransposedView view(x, dim0, dim1);
  check_out(OP, out, view.sizes, x.scalar_type(), x);
  write_out(OP, out, may_overlap(x, out),
            [&](const Tensor& target) { run_transpose(x, view, kernel, target); });
}

std::vector<int64_t> transpose_problem(const Tensor& x, int64_t dim0, int64_t dim1,
                                       const Tensor& out) {
  const TransposedView view(x, dim0, dim1);
  check_out(OP, out, view.sizes, x.scalar_type(), x);
  const CollapsedTranspose collapsed = collapse(layout_of(x, view, out));
  const transpose::Problem& p = collapsed.problem;
  std::vector<int64_t> numbers{static_cast<int64_t>(p.element_bytes),
                               p.rows,
                               p.cols,
                               p.in_row_stride,
                               p.in_col_stride,
                               p.out_row_stride,
                               p.out_col_stride,
                               static_cast<int64_t>(reinterpret_cast<uintptr_t>(p.in) % 32),
                               static_cast<int64_t>(reinterpret_cast<uintptr_t>(p.out) % 32)};
  for (int d = 0; d < p.batch.rank; ++d) {
    for (const int64_t number :
         {p.batch.size[d], p.batch.stride[transpose::IN][d], p.batch.stride[transpose::OUT][d]}) {
      numbers.push_back(number);
    }
  }
  return numbers;
}

}  // namespace smem::bindings
