#include "bindings/transpose.h"

#include <cstdlib>
#include <limits>

#include "bindings/layout.h"
#include "transpose/transpose.h"

namespace smem::bindings {
namespace {

constexpr const char* OP = "transpose";

int wrap_dim(const char* name, int64_t dim, int dims) {
  const int64_t limit = std::max(dims, 1);  // a scalar may be said to have one dimension
  if (dim < -limit || dim >= limit) {
    fail(std::string("smem.transpose: ") + name + " is " + std::to_string(dim) + ", expected " +
         std::to_string(-limit) + " to " + std::to_string(limit - 1));
  }
  return static_cast<int>(dim < 0 ? dim + limit : dim);
}

/// The view x.transpose(dim0, dim1).
struct Turned {
  Sizes sizes, strides;

  Turned(const Tensor& x, int64_t dim0, int64_t dim1) : sizes(sizes_of(x)), strides(strides_of(x)) {
    const int i = wrap_dim("dim0", dim0, sizes.count), j = wrap_dim("dim1", dim1, sizes.count);
    std::swap(sizes.at[i], sizes.at[j]);
    std::swap(strides.at[i], strides.at[j]);
    const size_t bytes = x.element_size();
    if (bytes > 16 || (bytes & (bytes - 1)) != 0) {
      fail("smem.transpose: x has elements of " + std::to_string(bytes) +
           " bytes, expected 1, 2, 4, 8 or 16");
    }
  }
};

using TransposeDims = Dims<transpose::TENSORS>;

/// Removes the dimension with the smallest step in `tensor`; a broadcast one only as a last resort.
Dim<transpose::TENSORS> take_fastest(TransposeDims& dims, transpose::Tensor tensor) {
  if (dims.count == 0) return {1, {0, 0}};
  const auto step = [&](int d) {
    const int64_t stride = std::abs(dims.at[d].stride[tensor]);
    return stride == 0 ? std::numeric_limits<int64_t>::max() : stride;
  };
  int fastest = dims.count - 1;
  for (int d = dims.count - 2; d >= 0; --d) {
    if (step(d) < step(fastest)) fastest = d;
  }
  const auto dim = dims.at[fastest];
  dims.remove(fastest);
  return dim;
}

void run(const Tensor& x, const Turned& view, int64_t kernel_code, const Tensor& out) {
  if (out.numel() == 0) return;
  const Sizes out_strides = strides_of(out);
  TransposeDims dims;
  for (int d = 0; d < view.sizes.count; ++d) {
    dims.push_merged({view.sizes.at[d], {view.strides.at[d], out_strides.at[d]}});
  }
  // What is dense in out is read down the columns of the tile, what is dense in x along its rows.
  const auto rows = take_fastest(dims, transpose::OUT);
  const auto cols = take_fastest(dims, transpose::IN);

  const OnDeviceOf place(OP, x);
  const auto table = transpose::kernels(place.build());
  const int index = kernel_index(OP, kernel_code, table.count, table.count - 1);
  trace_tensor("x", x);
  trace_tensor("out", out);
  const size_t bytes = x.element_size();
  dims.for_each_outer([&](const std::array<int64_t, transpose::TENSORS>& offsets) {
    const auto* in = static_cast<const char*>(x.const_data_ptr());
    auto* to = static_cast<char*>(out.mutable_data_ptr());
    const transpose::Problem problem{bytes,
                                     rows.size,
                                     cols.size,
                                     in + offsets[transpose::IN] * static_cast<int64_t>(bytes),
                                     rows.stride[transpose::IN],
                                     cols.stride[transpose::IN],
                                     to + offsets[transpose::OUT] * static_cast<int64_t>(bytes),
                                     rows.stride[transpose::OUT],
                                     cols.stride[transpose::OUT],
                                     dims.loop()};
    table.kernels[index]->launch(problem, place.device());
  });
}

}  // namespace

Tensor transpose(const Tensor& x, int64_t dim0, int64_t dim1, int64_t kernel) {
  const Turned view(x, dim0, dim1);
  const Tensor out = empty(OP, view.sizes, x.scalar_type(), x);
  run(x, view, kernel, out);
  return out;
}

void transpose_out(const Tensor& x, int64_t dim0, int64_t dim1, int64_t kernel, const Tensor& out) {
  const Turned view(x, dim0, dim1);
  check_out(OP, out, view.sizes, x.scalar_type(), x);
  write_out(OP, out, may_overlap(x, out),
            [&](const Tensor& target) { run(x, view, kernel, target); });
}

}  // namespace smem::bindings
