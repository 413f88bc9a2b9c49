// Chooses the kernel for `auto`, and checks the requirements of a kernel named by the caller.
#pragma once

#include <string>
#include <vector>

#include "device/dispatch.h"
#include "gemm/gemm.h"

namespace smem::gemm {

/// Throws an error that names the limit if the kernel cannot take the problem on that device.
void check_requirements(const Kernel& kernel, const Problem& problem, const Device& device);

/// Names of the kernels and variants that this GPU could run, but for which the binary holds no
/// code.
std::vector<std::string> kernels_without_code(const KernelTable& table, const Device& device);

/// TORCH_CUDA_ARCH_LIST of a build with all kernels for this GPU: "9.0a", for example.
std::string arch_list_for(const Device& device);

/// The kernel that `auto` runs, and the reason. A pure function. All SIMT kernels give the same
/// bits, and so do all tensor-core kernels: the choice within a kind may depend on M, but the
/// choice between the two kinds must not.
Choice choose(const Problem& problem, const Device& device);

}  // namespace smem::gemm
