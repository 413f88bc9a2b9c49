// Chooses the kernel for `auto`, and checks the requirements of a kernel named by the caller.
#include "gemm/dispatch.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "gemm/gemm.h"
#include "gemm/gemv/params.h"
#include "gemm/gpu_rates.h"
#include "gemm/operand_desc.h"
#include "gemm/sm80/heuristics.h"
#include "gemm/sm90/heuristics.h"

namespace smem::gemm {

namespace {

constexpr DType FLOAT_TYPES[] = {DType::bf16, DType::f16, DType::f32, DType::f64};

std::string capability_text(int capability) {
  return std::to_string(capability / 10) + "." + std::to_string(capability % 10);
}

/// "float16 and bfloat16"
std::string dtypes_text(const Kernel& kernel) {
  std::string text;
  for (const DType dtype : FLOAT_TYPES) {
    if (!kernel.takes(dtype)) continue;
    const char* separator = text.empty() ? "" : text.find(' ') == text.npos ? " and " : ", ";
    text = name_of(dtype) + (separator + text);
  }
  return text;
}

/// Whether three products by mma.sync are faster than one by FMAs. fp16x3 also splits and promotes:
/// on an H200 it is 0.23 times the rates' ratio as fast as cuBLAS's SGEMM.
bool runs_fp16x3_by_mma(const Device& device) {
  constexpr double MIN_RATIO = 6;
  return !device.host && device.code_capability >= 80 && mma_per_fma(rates_of(device)) >= MIN_RATIO;
}

/// Whether mma is faster than wgmma on Hopper, with the same bits: it loads rows that begin
/// anywhere where wgmma packs them first. Its tiles of LoadMode::ldg have no pipeline to fill,
/// which is most of the time of a small product, and waste less of narrow ones. Their cost models
/// were fitted to this choice. The first test spares most problems a second plan; the choice is as
/// good without it.
bool is_faster_by_mma(const Problem& problem, const Device& device) {
  constexpr int64_t SHORT_K = 16;
  if (problem.K > SHORT_K && has_whole_rows(problem) && !sm90::packs_operands(problem)) {
    return false;
  }
  return sm80::can_implement(problem, device) && sm90::can_implement(problem, device) &&
         sm80::cached_plan(problem, device).microseconds <
             sm90::cached_plan(problem, device).microseconds;
}

/// "fp16x3:mma"
std::string variant_name(const Kernel& kernel, int variant) {
  return std::string(kernel.name) + ":" + kernel.variants[variant];
}

}  // namespace

void check_requirements(const Kernel& kernel, const Problem& problem, const Device& device) {
  const bool variants_differ = problem.variant >= 0 && kernel.variant_tensor_cores;
  const auto refuse = [&](const std::string& why) {
    const std::string name = variants_differ ? variant_name(kernel, problem.variant) : kernel.name;
    throw std::runtime_error("smem.gemm: kernel '" + name + "' " + why);
  };
  if (!kernel.takes(problem.dtype)) {
    refuse("takes " + dtypes_text(kernel) + ", got " + name_of(problem.dtype));
  }
  const TensorCores& needed =
      variants_differ ? kernel.variant_tensor_cores[problem.variant] : kernel.tensor_cores;
  if (needed.capability > 0) {
    const std::string capability = capability_text(needed.oldest(problem.dtype));
    const bool runs =
        device.host ? kernel.launch != nullptr : needed.fit(device.capability, problem.dtype);
    if (!runs) {
      refuse("runs on tensor cores and needs a GPU of compute capability " + capability +
             (needed.alone ? ", got " : " or newer, got ") +
             (device.host ? "CPU tensors" : capability_text(device.capability)));
    }
    if (!device.host && !needed.fit(device.code_capability, problem.dtype)) {
      refuse("needs code for compute capability " + capability + (needed.alone ? "" : " or newer") +
             ", which this build does not hold for this GPU (" +
             capability_text(device.capability) +
             "); rebuild with TORCH_CUDA_ARCH_LIST=" + arch_list_for(device));
    }
  }
  if (problem.dtype == DType::f32 && !kernel.keeps(problem.precision)) {
    refuse(std::string("computes float32 in ") + name_of(kernel.float32) + ", got precision " +
           name_of(problem.precision));
  }
  if (problem.variant >= 0 && kernel.has_variant &&
      !kernel.has_variant(problem.variant, problem.dtype, device)) {
    refuse(std::string("has no variant '") + kernel.variants[problem.variant] + "' for " +
           name_of(problem.dtype) + (device.host ? " on the CPU" : ""));
  }
  if (!kernel.largest_k) return;
  const int64_t largest = kernel.largest_k(problem.dtype, device.shared_bytes);
  if (problem.K <= largest) return;
  refuse("needs shared memory in proportion to K; with " + std::to_string(device.shared_bytes) +
         " bytes a block the largest K is " + std::to_string(largest) + " for " +
         name_of(problem.dtype) + ", got " + std::to_string(problem.K));
}

std::string arch_list_for(const Device& device) {
  return capability_text(device.capability) + (device.capability == 90 ? "a" : "");
}

std::vector<std::string> kernels_without_code(const KernelTable& table, const Device& device) {
  std::vector<std::string> names;
  for (int i = 0; i < table.count; ++i) {
    const Kernel& kernel = *table.kernels[i];
    const auto lacks_code = [&](const TensorCores& needed) {
      return std::any_of(std::begin(FLOAT_TYPES), std::end(FLOAT_TYPES), [&](DType dtype) {
        return kernel.takes(dtype) && needed.fit(device.capability, dtype) &&
               !needed.fit(device.code_capability, dtype);
      });
    };
    if (lacks_code(kernel.tensor_cores)) {
      names.emplace_back(kernel.name);
    } else if (kernel.variant_tensor_cores) {
      for (int variant = 0; variant < kernel.variant_count; ++variant) {
        if (lacks_code(kernel.variant_tensor_cores[variant])) {
          names.push_back(variant_name(kernel, variant));
        }
      }
    }
  }
  return names;
}

Choice choose(const Problem& problem, const Device& device) {
  if (gemv::is_chosen(problem))
    return {index_of(host_kernels(), "gemv"), "a matrix times a vector"};
  // fp16x3 gives other bits than the SIMT kernels, so this choice depends on N and K alone.
  // Measured on an H200 and, with 64 and 72 columns, on an H100, in us, torch | simt | fp16x3:
  //   256^3                12 |  12 |  18
  //   512^3                18 |  23 |  22
  //   1024^3               64 |  76 |  35
  //   16 x 16 x 1048576   224 |  98 | 177   (few columns)
  //   64 x 64 x 2048       11 |  10 |  19   (64 columns: reading A and splitting it is)
  //   65536 x 64 x 2048   425 | 413 | 612
  //   65536 x 64 x 6144  1065 | 1280 | 1764
  //   65536 x 72 x 2048   708 | 789 | 627
  // Below these limits fp16x3 is faster at the largest M only, and with 64 columns not even there.
  // With K from 48 to 127, of 435 random problems on an H200 it takes 1.2 times simt's time for up
  // to 64 rows, 0.9 for up to 256, 0.7 for up to 1024 and 0.55 for more. By mma.sync, where no
  // kernel is made for a short K, that was not measured.
  constexpr int64_t MIN_N = 65, MIN_B_ELEMENTS = 1 << 17;
  const int64_t min_k = device.runs_sm90a() ? 48 : 128;
  if (problem.dtype == DType::f32 && problem.precision == Precision::fp32 &&
      (device.runs_sm90a() || runs_fp16x3_by_mma(device)) && problem.N >= MIN_N &&
      problem.K >= min_k && problem.N * problem.K >= MIN_B_ELEMENTS) {
    return {index_of(host_kernels(), "fp16x3"),
            device.runs_sm90a() ? "float32 by three float16 products on Hopper's tensor cores"
                                : "float32 by three float16 products on tensor cores"};
  }
  const bool tf32 = problem.dtype == DType::f32 && problem.precision == Precision::tf32;
  if ((size_of(problem.dtype) == 2 || tf32) && device.runs_sm90a()) {
    const std::string dtype = tf32 ? "tf32" : name_of(problem.dtype);
    if (is_faster_by_mma(problem, device)) {
      return {index_of(host_kernels(), "mma"),
              dtype + " on tensor cores, for a small problem or rows that are not whole vectors"};
    }
    return {index_of(host_kernels(), "wgmma"), dtype + " on Hopper's tensor cores"};
  }
  if ((size_of(problem.dtype) == 2 || tf32) && !device.host &&
      sm80::TENSOR_CORES.fit(device.code_capability, problem.dtype)) {
    return {index_of(host_kernels(), "mma"),
            (tf32 ? "tf32" : name_of(problem.dtype)) +
                std::string(" on tensor cores, the same bits at every M")};
  }
  // simt gives the bits of all SIMT kernels, so its tile and its split of K may depend on M.
  if (size_of(problem.dtype) >= 4 && device.code_capability >= 80) {
    return {index_of(host_kernels(), "simt"), std::string("IEEE ") + name_of(problem.dtype)};
  }
  const int64_t tile = problem.dtype == DType::f64 ? 64 : 128;
  const int64_t tiles =
      ceil_div(problem.M, tile) * ceil_div(problem.N, tile) * problem.batch.count();
  const std::string size = std::to_string(tile) + "x" + std::to_string(tile);

  if (4 * problem.M <= tile || 4 * problem.N <= tile) {
    return {index_of(host_kernels(), "vectorized"),
            "M or N fills at most a quarter of a tile of " + size};
  }
  // Measured on an H200 (132 SMs) against tiles of 128x128: with 16 and 32 of them, vectorized's
  // smaller tiles are 2.5 and 1.1 times faster; with 64, they are 1.3 times slower.
  if (3 * tiles < device.sm_count) {
    return {index_of(host_kernels(), "vectorized"), "only " + std::to_string(tiles) + " tiles of " +
                                                        size + " for " +
                                                        std::to_string(device.sm_count) + " SMs"};
  }
  return {index_of(host_kernels(), "register_tiled"), std::to_string(tiles) + " tiles of " + size};
}

}  // namespace smem::gemm
