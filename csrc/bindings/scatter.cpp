#include "bindings/scatter.h"

#include "scatter/index_add.h"

namespace smem::bindings {
namespace {

constexpr const char* OP = "_index_add_";

void check_indices(const char* name, const Tensor& indices, const Tensor& source) {
  expect(indices.scalar_type() == ScalarType::Long && indices.dim() == 1 &&
             indices.is_contiguous() && indices.size(0) == source.size(0),
         OP, name, indices, "contiguous int64, one for each row of source");
  check_device(OP, name, indices, "source", source);
}

void check(const Tensor& x, const Tensor& index, const Tensor& source,
           const OptionalTensor& order) {
  const ScalarType type = x.scalar_type();
  expect(is_float_up_to_32_bits(type) && x.dim() == 2 && x.is_contiguous(), OP, "x", x,
         "a contiguous matrix of float32, float16 or bfloat16");
  expect(source.scalar_type() == type && source.dim() == 2 && source.is_contiguous() &&
             source.size(1) == x.size(1),
         OP, "source", source, "a contiguous matrix with the dtype and the columns of x");
  check_device(OP, "source", source, "x", x);
  check_indices("index", index, source);
  if (order) check_indices("order", *order, source);
}

/// On the CPU. A GPU checks its indices in the kernel, as torch's does.
void check_values(const char* name, const Tensor& indices, int64_t end) {
  const auto* const values = static_cast<const int64_t*>(indices.const_data_ptr());
  for (int64_t i = 0; i < indices.numel(); ++i) {
    if (values[i] < 0 || values[i] >= end) {
      fail(OP, std::string(name) + " holds " + std::to_string(values[i]) + ", expected 0 to " +
                   std::to_string(end - 1));
    }
  }
}

}  // namespace

void index_add_(const Tensor& x, const Tensor& index, const Tensor& source,
                const OptionalTensor& order) {
  check(x, index, source, order);
  if (source.numel() == 0) return;
  const OnDeviceOf on_device(OP, x);
  if (on_device.device().host) {
    check_values("index", index, x.size(0));
    if (order) check_values("order", *order, source.size(0));
  }
  trace_tensor("x", x);
  trace_tensor("index", index);
  trace_tensor("source", source);
  if (order) trace_tensor("order", *order);
  const auto pointer = [](const Tensor& indices) {
    return static_cast<const int64_t*>(indices.const_data_ptr());
  };
  scatter::index_add(on_device.build())(
      {
          .x = x.mutable_data_ptr(),
          .index = pointer(index),
          .order = order ? pointer(*order) : nullptr,
          .source = source.const_data_ptr(),
          .rows = x.size(0),
          .count = source.size(0),
          .features = source.size(1),
          .dtype = *dtype_of(x.scalar_type()),
      },
      on_device.device());
}

}  // namespace smem::bindings
