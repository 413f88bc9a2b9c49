// What the bindings of all ops need from torch's stable ABI: dtypes, devices, allocation, error
// texts. The Python side repeats the texts for fake tensors (ops/_checks.py); tests compare the
// two.
#pragma once

#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/ScalarType.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "device/device.h"
#include "device/dtype.h"
#include "device/launch.h"

namespace smem::bindings {

using torch::headeronly::ScalarType;
using torch::stable::Tensor;
using OptionalTensor = std::optional<Tensor>;
using OptionalType = std::optional<ScalarType>;

constexpr int MAX_DIMS = 64;  // of most of torch's operators

/// The sizes or the strides of a tensor, or of a result that is not allocated yet.
struct Sizes {
  int count = 0;
  std::array<int64_t, MAX_DIMS> at;

  Sizes() = default;
  explicit Sizes(torch::headeronly::IntHeaderOnlyArrayRef values);
  /// Throws beyond MAX_DIMS.
  void push(int64_t value) { at.at(count++) = value; }
  int64_t last(int i) const { return at[count - i]; }
  int64_t numel() const;
  bool operator==(const Sizes& other) const;
};

inline Sizes sizes_of(const Tensor& tensor) { return Sizes(tensor.sizes()); }
inline Sizes strides_of(const Tensor& tensor) { return Sizes(tensor.strides()); }
Sizes contiguous_strides(const Sizes& sizes);

/// "2x3x4", or "scalar" if there are no dimensions.
std::string shape_text(const Sizes& sizes);
std::string device_text(const Tensor& tensor);
std::string dtype_text(ScalarType type);

[[noreturn]] void fail(const std::string& message);
/// The message begins with the name of the op.
[[noreturn]] void fail(const char* op, const std::string& message);

/// The kernels' DType for a torch dtype; nothing if they have none.
std::optional<DType> dtype_of(ScalarType type);

/// Throws unless `code` is from 0 to `last`.
void check_code(const char* op, const char* name, int64_t code, int64_t last);

/// Throws unless gemm supports the dtype of the tensor.
void check_gemm_dtype(const char* op, const char* name, const Tensor& tensor);

/// Throws what `tensor` is, and what was expected, unless it `holds`.
void expect(bool holds, const char* op, const char* name, const Tensor& tensor,
            const char* expected);

/// Whether kernels accumulate the dtype in float32.
constexpr bool is_float_up_to_32_bits(ScalarType type) {
  return type == ScalarType::Float || type == ScalarType::Half || type == ScalarType::BFloat16;
}

/// Throws unless `tensor` has the dtype and the device of `like`.
void check_like(const char* op, const char* name, const Tensor& tensor, const char* like_name,
                const Tensor& like);
void check_device(const char* op, const char* name, const Tensor& tensor, const char* like_name,
                  const Tensor& like);

/// Throws unless `out` has the shape, dtype and device that the op's result has, and no two of its
/// elements share memory.
void check_out(const char* op, const Tensor& out, const Sizes& sizes, ScalarType type,
               const Tensor& like);

/// An uninitialised contiguous tensor on the device of `like`. If memory is lacking, the error says
/// so; the Python side then repeats the allocation with torch, which raises torch.OutOfMemoryError.
Tensor empty(const char* op, const Sizes& sizes, ScalarType type, const Tensor& like);

/// Whether the address ranges of two tensors overlap.
bool may_overlap(const Tensor& a, const Tensor& b);

/// Calls `write(out)`. If `out` overlaps an input (`overlaps`), writes to a temporary tensor
/// instead and copies that to `out`.
template <typename Write>
void write_out(const char* op, const Tensor& out, bool overlaps, const Write& write) {
  if (!overlaps) return write(out);
  const Tensor temporary = empty(op, sizes_of(out), out.scalar_type(), out);
  write(temporary);
  Tensor target = out;
  torch::stable::copy_(target, temporary);
}

/// The index in a kernel table for an op's `kernel_id`, which is the index + 1; `automatic` for 0.
int kernel_index(const char* op, int64_t kernel_id, int kernels, int automatic);

/// Variant v of a kernel has the `kernel_id` of the kernel plus (v + 1) * VARIANT_STEP.
constexpr int64_t VARIANT_STEP = 256;

/// Registers the tensor's memory with the trace in progress, if there is one.
void trace_tensor(const char* name, const Tensor& tensor);

/// Makes the device of a tensor current, and holds its description and current stream. For CPU
/// tensors it holds the description of the GPU that cpu_emulator emulates.
class OnDeviceOf {
 public:
  explicit OnDeviceOf(const char* op, const Tensor& tensor);
  const Device& device() const { return device_; }
  Build build() const { return device_.build(); }

 private:
  std::optional<torch::stable::accelerator::DeviceGuard> guard_;
  Device device_;
};

}  // namespace smem::bindings
