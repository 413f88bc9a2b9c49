// The kernel tables and the build, described in JSON.
#include "bindings/kernel_info.h"

#include <array>
#include <stdexcept>

#include "bindings/json.h"
#include "device/device.h"
#include "gemm/gemm.h"
#include "reduce/reduce.h"
#include "smem_build_config.h"
#include "transpose/transpose.h"

namespace smem::bindings {
namespace {

constexpr DType GEMM_DTYPES[] = {DType::f64, DType::f32, DType::f16, DType::bf16};

/// What the rows of one op's table have and those of the others do not.
struct Properties {
  std::vector<std::string> variants;
  gemm::TensorCores tensor_cores;
  const char* float32 = "ieee";
  bool any_k = true, any_operator = true;
};

Properties properties_of(const gemm::Kernel& kernel) {
  std::vector<std::string> names;
  for (int i = 0; i < kernel.variant_count; ++i) names.push_back(json(kernel.variants[i]));
  return {.variants = names,
          .tensor_cores = kernel.tensor_cores,
          .float32 = gemm::name_of(kernel.float32),
          .any_k = !kernel.largest_k};
}
Properties properties_of(const transpose::Kernel& /*kernel*/) { return {}; }
Properties properties_of(const reduce::Kernel& kernel) {
  return {.any_operator = kernel.any_operator};
}

/// The dtypes (or element sizes) that a kernel is compiled for: the name of each, and the key that
/// the kernel's `function` and `symbol` take for it.
template <typename Key>
using Instances = std::vector<std::pair<std::string, Key>>;

Instances<DType> instances(const gemm::Kernel& kernel) {
  Instances<DType> found;
  for (const DType dtype : GEMM_DTYPES) {
    if (kernel.takes(dtype)) found.emplace_back(name_of(dtype), dtype);
  }
  return found;
}
Instances<size_t> instances(const transpose::Kernel&) {
  Instances<size_t> found;
  for (const size_t bytes : {1, 2, 4, 8, 16}) {
    found.emplace_back(std::to_string(bytes) + "-byte", bytes);
  }
  return found;
}
Instances<DType> instances(const reduce::Kernel&) {
  Instances<DType> found;
  for (int code = 0; code <= static_cast<int>(DType::boolean); ++code) {
    const auto dtype = static_cast<DType>(code);
    found.emplace_back(name_of(dtype), dtype);
  }
  return found;
}

template <typename Table>
void describe(const char* op, const Table& table, std::vector<std::string>& rows) {
  for (int i = 0; i < table.count; ++i) {
    const auto& kernel = *table.kernels[i];
    std::vector<std::string> dtypes;
    for (const auto& [name, key] : instances(kernel)) dtypes.push_back(json(name));
    const Properties properties = properties_of(kernel);
    rows.push_back(json_object(
        {{"op", json(op)},
         {"name", json(kernel.name)},
         {"summary", json(kernel.summary)},
         {"requires", json(kernel.requires_)},
         {"dtypes", json_array(dtypes)},
         {"variants", json_array(properties.variants)},
         {"capability", json(int64_t{properties.tensor_cores.capability})},
         {"capability_alone", json(properties.tensor_cores.alone)},
         {"float16_capability", json(int64_t{properties.tensor_cores.oldest(DType::f16)})},
         {"float32_precision", json(properties.float32)},
         {"any_k", json(properties.any_k)},
         {"any_operator", json(properties.any_operator)},
         {"emulated", json(kernel.launch != nullptr)}}));
  }
}

/// Calls f(op, kernel, name of the dtype, key of the dtype) for each instance of each kernel of the
/// three tables.
template <typename F>
void for_each_instance(const gemm::KernelTable& gemms, const transpose::KernelTable& transposes,
                       const reduce::KernelTable& reductions, const F& f) {
  const auto visit = [&](const char* op, const auto& table) {
    for (int i = 0; i < table.count; ++i) {
      const auto& kernel = *table.kernels[i];
      for (const auto& [name, key] : instances(kernel)) f(op, kernel, name, key);
    }
  };
  visit("gemm", gemms);
  visit("transpose", transposes);
  visit("sum", reductions);
}

/// Extracts the name, such as "tiled_kernel<float, 32>", from the text of symbol_of
/// (device/symbol.h).
std::string symbol_in(const std::string& text) {
  const std::string prefix = "KERNEL = ";
  const size_t begin = text.find(prefix) + prefix.size();
  return text.substr(begin, text.find_first_of(";]", begin) - begin);
}

#ifdef SMEM_WITH_CUDA
template <typename Table, typename Key>
std::string active_blocks_in(const Table& table, int64_t kernel, Key key, int64_t max_threads,
                             int64_t dynamic_shared_bytes) {
  return json_numbers(cuda_active_blocks(table.kernels[kernel]->function(key),
                                         static_cast<int>(max_threads),
                                         static_cast<size_t>(dynamic_shared_bytes)));
}
#endif

}  // namespace

std::string kernel_table() {
  std::vector<std::string> rows;
  describe("gemm", gemm::host_kernels(), rows);
  describe("transpose", transpose::host_kernels(), rows);
  describe("sum", reduce::host_kernels(), rows);
  return json_array(rows);
}

std::string build_info() {
  return json_object({{"cuda", json(build::kCudaVersion)},
                      {"archs", json(build::kCudaArchs)},
                      {"torch_target", json(build::kTorchTarget)},
                      {"torch_built", json(build::kTorchBuiltWith)},
                      {"compiler", json(build::kCompiler)}});
}

std::string kernel_symbols() {
  std::vector<std::string> rows;
  for_each_instance(
      gemm::host_kernels(), transpose::host_kernels(), reduce::host_kernels(),
      [&](const char* op, const auto& kernel, const std::string& dtype, auto key) {
        if (!kernel.symbol) return;
        rows.push_back(json_object({{"op", json(op)},
                                    {"name", json(kernel.name)},
                                    {"dtype", json(dtype)},
                                    {"symbol", json(symbol_in(kernel.symbol(key)))}}));
      });
  return json_array(rows);
}

std::string chip_of(const Device& device) {
  return json_numbers(std::array<int64_t, 4>{device.capability, device.sm_count,
                                             static_cast<int64_t>(device.shared_bytes),
                                             device.code_capability});
}

#ifdef SMEM_WITH_CUDA
std::string chip_at(int64_t index) {
  make_context_current(static_cast<int>(index));
  return chip_of(cuda_device(static_cast<int>(index)));
}

std::string active_blocks(int64_t op, int64_t kernel, int64_t key, int64_t max_threads,
                          int64_t dynamic_shared_bytes) {
  const auto dtype = static_cast<DType>(key);
  if (op == 0) {
    return active_blocks_in(gemm::device_kernels(), kernel, dtype, max_threads,
                            dynamic_shared_bytes);
  }
  if (op == 1) {
    return active_blocks_in(transpose::device_kernels(), kernel, static_cast<size_t>(key),
                            max_threads, dynamic_shared_bytes);
  }
  return active_blocks_in(reduce::device_kernels(), kernel, dtype, max_threads,
                          dynamic_shared_bytes);
}

std::string kernel_resources() {
  std::vector<std::string> rows;
  for_each_instance(
      gemm::device_kernels(), transpose::device_kernels(), reduce::device_kernels(),
      [&](const char* op, const auto& kernel, const std::string& dtype, auto key) {
        const auto found = cuda_kernel_resources(kernel.function(key));
        if (!found) return;
        const KernelResources& r = *found;
        rows.push_back(json_object({{"op", json(op)},
                                    {"name", json(kernel.name)},
                                    {"dtype", json(dtype)},
                                    {"registers", json(int64_t{r.registers})},
                                    {"shared_bytes", json(static_cast<int64_t>(r.shared_bytes))},
                                    {"local_bytes", json(static_cast<int64_t>(r.local_bytes))},
                                    {"max_threads", json(int64_t{r.max_threads})}}));
      });
  return json_array(rows);
}
#else
std::string chip_at(int64_t) { return chip_of({}); }
std::string kernel_resources() {
  throw std::runtime_error("torch_smem_gemm: this build has no CUDA kernels");
}
std::string active_blocks(int64_t, int64_t, int64_t, int64_t, int64_t) {
  return kernel_resources();
}
#endif

}  // namespace smem::bindings
