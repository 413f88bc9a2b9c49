// What every op's binding needs of torch's stable ABI: dtypes, devices, allocation, error texts.
// The Python side repeats the texts for fake tensors (ops/_checks.py); tests hold the two together.
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

constexpr int MAX_DIMS = 64;  // torch's own limit

/// Sizes or strides of a tensor, or of a result to be.
struct Sizes {
  int count = 0;
  std::array<int64_t, MAX_DIMS> at;

  Sizes() = default;
  explicit Sizes(torch::headeronly::IntHeaderOnlyArrayRef values);
  void push(int64_t value) { at[count++] = value; }
  int64_t last(int i) const { return at[count - i]; }
  int64_t numel() const;
  bool operator==(const Sizes& other) const;
};

inline Sizes sizes_of(const Tensor& tensor) { return Sizes(tensor.sizes()); }
inline Sizes strides_of(const Tensor& tensor) { return Sizes(tensor.strides()); }
Sizes contiguous_strides(const Sizes& sizes);

/// "2x3x4"; "scalar" for no dimensions.
std::string shape_text(const Sizes& sizes);
std::string device_text(const Tensor& tensor);
const char* dtype_text(ScalarType type);

[[noreturn]] void fail(const std::string& message);

/// The kernels' name for a dtype; nothing for one they do not know.
std::optional<DType> dtype_of(ScalarType type);

/// Throws unless `code` is from 0 to `last`.
void check_code(const char* op, const char* name, int64_t code, int64_t last);

/// Throws unless the tensor has one of the dtypes that gemm takes.
void check_gemm_dtype(const char* op, const char* name, const Tensor& tensor);

/// Throws unless `tensor` has the dtype and the device of `like`.
void check_like(const char* op, const char* name, const Tensor& tensor, const char* like_name,
                const Tensor& like);
void check_device(const char* op, const char* name, const Tensor& tensor, const char* like_name,
                  const Tensor& like);

/// Throws unless `out` has the shape, dtype and device that the op's result has, and no two of its
/// elements share memory.
void check_out(const char* op, const Tensor& out, const Sizes& sizes, ScalarType type,
               const Tensor& like);

/// An uninitialised contiguous tensor on the device of `like`. Says so where memory is lacking, so
/// that the Python side can ask torch, whose error then is torch.OutOfMemoryError.
Tensor empty(const char* op, const Sizes& sizes, ScalarType type, const Tensor& like);

/// Whether two tensors' elements may lie in the same memory.
bool may_overlap(const Tensor& a, const Tensor& b);

/// Calls `write(out)`; where what is still to be read overlaps `out`, on a tensor of its own that
/// is then copied there.
template <typename Write>
void write_out(const char* op, const Tensor& out, bool overlaps, const Write& write) {
  if (!overlaps) return write(out);
  const Tensor apart = empty(op, sizes_of(out), out.scalar_type(), out);
  write(apart);
  Tensor target = out;
  torch::stable::copy_(target, apart);
}

/// The index in a kernel table that an op's `kernel_id` stands for; `automatic` for 0.
int kernel_index(const char* op, int64_t kernel_id, int kernels, int automatic);

/// A kernel's variant v has its `kernel_id` plus (v + 1) times this.
constexpr int64_t VARIANT_STEP = 256;

/// Tells a trace in progress which memory the tensor has. Nothing where none is.
void trace_tensor(const char* name, const Tensor& tensor);

/// Runs on the device of a tensor: makes it current, and gives its description and current stream.
/// On the CPU: what cpu_emulator stands for.
class OnDeviceOf {
 public:
  explicit OnDeviceOf(const char* op, const Tensor& tensor);
  const Device& device() const { return device_; }
  /// Whose kernels run there: cpu_emulator's are traced while a trace is in progress.
  Build build() const;

 private:
  std::optional<torch::stable::accelerator::DeviceGuard> guard_;
  Device device_;
};

}  // namespace smem::bindings
