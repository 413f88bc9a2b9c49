// Dtypes, devices, allocation and error texts by torch's stable ABI.
#include "bindings/tensors.h"

#include <torch/csrc/inductor/aoti_torch/c/shim.h>

#include <stdexcept>

#include "cpu_emulator/trace/session.h"

// A torch version and build has one of these two functions, so both are weak symbols.
extern "C" __attribute__((weak)) AOTITorchError aoti_torch_get_current_cuda_stream(int32_t, void**);
extern "C" __attribute__((weak)) AOTITorchError torch_stream_native_handle(StreamHandle, void**);

namespace smem::bindings {

Sizes::Sizes(torch::headeronly::IntHeaderOnlyArrayRef values) {
  // torch can make such a tensor, though most of its operators refuse it.
  if (values.size() > MAX_DIMS) {
    fail("smem: a tensor argument has " + std::to_string(values.size()) +
         " dimensions, expected at most " + std::to_string(MAX_DIMS));
  }
  for (const int64_t value : values) push(value);
}

int64_t Sizes::numel() const {
  int64_t product = 1;
  for (int i = 0; i < count; ++i) product *= at[i];
  return product;
}

bool Sizes::operator==(const Sizes& other) const {
  return count == other.count && std::equal(at.begin(), at.begin() + count, other.at.begin());
}

Sizes contiguous_strides(const Sizes& sizes) {
  Sizes strides;
  strides.count = sizes.count;
  int64_t step = 1;
  for (int i = sizes.count - 1; i >= 0; --i) {
    strides.at[i] = step;
    step *= std::max<int64_t>(sizes.at[i], 1);
  }
  return strides;
}

std::string shape_text(const Sizes& sizes) {
  if (sizes.count == 0) return "scalar";
  std::string text;
  for (int i = 0; i < sizes.count; ++i) text += (i ? "x" : "") + std::to_string(sizes.at[i]);
  return text;
}

std::string device_text(const Tensor& tensor) {
  if (tensor.is_cpu()) return "cpu";
  if (tensor.is_cuda()) return "cuda:" + std::to_string(tensor.get_device_index());
  return "another device";
}

std::string dtype_text(ScalarType type) {
  switch (type) {
    case ScalarType::Byte:
      return "uint8";
    case ScalarType::Char:
      return "int8";
    case ScalarType::Short:
      return "int16";
    case ScalarType::Int:
      return "int32";
    case ScalarType::Long:
      return "int64";
    case ScalarType::UInt16:
      return "uint16";
    case ScalarType::UInt32:
      return "uint32";
    case ScalarType::UInt64:
      return "uint64";
    case ScalarType::Half:
      return "float16";
    case ScalarType::Float:
      return "float32";
    case ScalarType::Double:
      return "float64";
    case ScalarType::BFloat16:
      return "bfloat16";
    case ScalarType::Bool:
      return "bool";
    case ScalarType::ComplexHalf:
      return "complex32";
    case ScalarType::ComplexFloat:
      return "complex64";
    case ScalarType::ComplexDouble:
      return "complex128";
    case ScalarType::Float8_e4m3fn:
      return "float8_e4m3fn";
    case ScalarType::Float8_e5m2:
      return "float8_e5m2";
    case ScalarType::Float8_e4m3fnuz:
      return "float8_e4m3fnuz";
    case ScalarType::Float8_e5m2fnuz:
      return "float8_e5m2fnuz";
    case ScalarType::Float8_e8m0fnu:
      return "float8_e8m0fnu";
    default:
      return "another dtype";
  }
}

void fail(const std::string& message) { throw std::runtime_error(message); }
void fail(const char* op, const std::string& message) {
  fail(std::string("smem.") + op + ": " + message);
}

std::optional<DType> dtype_of(ScalarType type) {
  switch (type) {
    case ScalarType::Double:
      return DType::f64;
    case ScalarType::Float:
      return DType::f32;
    case ScalarType::Half:
      return DType::f16;
    case ScalarType::BFloat16:
      return DType::bf16;
    case ScalarType::Long:
      return DType::i64;
    case ScalarType::Int:
      return DType::i32;
    case ScalarType::Short:
      return DType::i16;
    case ScalarType::Char:
      return DType::i8;
    case ScalarType::Byte:
      return DType::u8;
    case ScalarType::Bool:
      return DType::boolean;
    default:
      return std::nullopt;
  }
}

namespace {

bool same_device(const Tensor& a, const Tensor& b) {
  return a.is_cuda() == b.is_cuda() && a.get_device_index() == b.get_device_index();
}

}  // namespace

void check_code(const char* op, const char* name, int64_t code, int64_t last) {
  if (code >= 0 && code <= last) return;
  fail(op, name + std::string(" ") + std::to_string(code) + " is unknown, expected 0 to " +
               std::to_string(last));
}

void check_gemm_dtype(const char* op, const char* name, const Tensor& tensor) {
  const auto dtype = dtype_of(tensor.scalar_type());
  if (!dtype || *dtype > DType::bf16) {
    fail(op, name + std::string(" has dtype ") + dtype_text(tensor.scalar_type()) +
                 ", expected float64, float32, float16 or bfloat16");
  }
}

void check_like(const char* op, const char* name, const Tensor& tensor, const char* like_name,
                const Tensor& like) {
  if (tensor.scalar_type() != like.scalar_type()) {
    fail(op, name + std::string(" has dtype ") + dtype_text(tensor.scalar_type()) + ", expected " +
                 dtype_text(like.scalar_type()) + " as " + like_name + " has");
  }
  check_device(op, name, tensor, like_name, like);
}

void expect(bool holds, const char* op, const char* name, const Tensor& tensor,
            const char* expected) {
  if (holds) return;
  fail(op, std::string(name) + " is " + shape_text(sizes_of(tensor)) + " of " +
               dtype_text(tensor.scalar_type()) + ", expected " + expected);
}

void check_device(const char* op, const char* name, const Tensor& tensor, const char* like_name,
                  const Tensor& like) {
  if (!same_device(tensor, like)) {
    fail(op, name + std::string(" is on ") + device_text(tensor) + ", expected " +
                 device_text(like) + " where " + like_name + " is");
  }
}

void check_out(const char* op, const Tensor& out, const Sizes& sizes, ScalarType type,
               const Tensor& like) {
  const Sizes out_sizes = sizes_of(out), strides = strides_of(out);
  if (!(out_sizes == sizes)) {
    fail(op, "out is " + shape_text(out_sizes) + ", expected " + shape_text(sizes));
  }
  if (out.scalar_type() != type) {
    fail(op, "out has dtype " + dtype_text(out.scalar_type()) + ", expected " + dtype_text(type));
  }
  if (!same_device(out, like)) {
    fail(op, "out is on " + device_text(out) + ", expected " + device_text(like));
  }
  for (int i = 0; i < out_sizes.count; ++i) {
    if (out_sizes.at[i] > 1 && strides.at[i] == 0) {
      fail(op, "out is expanded: several of its elements share memory");
    }
  }
}

Tensor empty(const char* op, const Sizes& sizes, ScalarType type, const Tensor& like) {
  const Sizes strides = contiguous_strides(sizes);
  AtenTensorHandle handle = nullptr;
  const auto code = aoti_torch_empty_strided(
      sizes.count, sizes.at.data(), strides.at.data(),
      torch::stable::detail::to<int32_t>(torch::stable::detail::from(type)),
      like.is_cuda() ? aoti_torch_device_type_cuda() : aoti_torch_device_type_cpu(),
      like.get_device_index(), &handle);
  if (code != AOTI_TORCH_SUCCESS) {
    fail(op,
         "out of memory: allocating " + shape_text(sizes) + " of " + dtype_text(type) + " failed");
  }
  return Tensor(handle);
}

namespace {

/// The bytes from a tensor's first element to its last.
size_t bytes_spanned(const Tensor& tensor) {
  if (tensor.numel() == 0) return 0;
  const Sizes sizes = sizes_of(tensor), strides = strides_of(tensor);
  int64_t last = 0;  // torch has no negative strides
  for (int i = 0; i < sizes.count; ++i) last += (sizes.at[i] - 1) * strides.at[i];
  return static_cast<size_t>(last + 1) * tensor.element_size();
}

}  // namespace

bool may_overlap(const Tensor& a, const Tensor& b) {
  const auto a_begin = reinterpret_cast<uintptr_t>(a.const_data_ptr());
  const auto b_begin = reinterpret_cast<uintptr_t>(b.const_data_ptr());
  return a_begin < b_begin + bytes_spanned(b) && b_begin < a_begin + bytes_spanned(a);
}

int kernel_index(const char* op, int64_t kernel_id, int kernels, int automatic) {
  if (kernel_id < 0 || kernel_id > kernels) {
    fail(op, "kernel " + std::to_string(kernel_id) + " is unknown, expected 0 (auto) to " +
                 std::to_string(kernels));
  }
  return kernel_id == 0 ? automatic : static_cast<int>(kernel_id) - 1;
}

void trace_tensor(const char* name, const Tensor& tensor) {
  if (auto* session = cpu_emulator::trace::Session::active()) {
    const auto offset = static_cast<uint64_t>(tensor.storage_offset()) * tensor.element_size();
    session->add_buffer(name, tensor.const_data_ptr(), bytes_spanned(tensor), offset);
  }
}

namespace {

#ifdef SMEM_WITH_CUDA
void* current_stream(int device_index) {
  void* stream = nullptr;
  if (aoti_torch_get_current_cuda_stream) {
    if (aoti_torch_get_current_cuda_stream(device_index, &stream) == AOTI_TORCH_SUCCESS) {
      return stream;
    }
  } else if (torch_stream_native_handle) {
    StreamHandle handle = nullptr;
    if (aoti_torch_get_current_stream(device_index, &handle) == AOTI_TORCH_SUCCESS) {
      const auto code = torch_stream_native_handle(handle, &stream);
      aoti_torch_delete_stream(handle);
      if (code == AOTI_TORCH_SUCCESS) return stream;
    }
  }
  fail("smem: this torch does not give its current CUDA stream");
}
#endif

}  // namespace

OnDeviceOf::OnDeviceOf(const char* op, const Tensor& tensor) : device_(HOST_DEVICE) {
  if (!tensor.is_cuda()) return;
#ifdef SMEM_WITH_CUDA
  (void)op;
  const int index = tensor.get_device_index();
  if (!has_context_of(index)) {  // the guard would take 0.4 us
    guard_.emplace(index);
    make_context_current(index);
  }
  device_ = cuda_device(index);
  device_.stream = current_stream(index);
#else
  fail(op,
       "this build has no CUDA kernels; with nvcc on PATH, rebuild it by "
       "`pip install --no-build-isolation .`");
#endif
}

}  // namespace smem::bindings
