// Which kernel `auto` runs, and what a kernel asked for by name requires.
#pragma once

#include <string>
#include <vector>

#include "device/dispatch.h"
#include "gemm/gemm.h"

namespace smem::gemm {

/// Throws, naming the limit, where the kernel cannot take the problem on that device.
void check_requirements(const Kernel& kernel, const Problem& problem, const Device& device);

/// Names of the kernels in the table that this GPU could run, if the binary held their code for it.
std::vector<std::string> kernels_without_code(const KernelTable& table, const Device& device);

/// TORCH_CUDA_ARCH_LIST for a build that holds everything for this GPU: "9.0a".
std::string arch_list_for(const Device& device);

/// What `auto` runs, and why. A pure function. SIMT kernels all give the same bits, and so do those
/// on tensor cores: within a kind the choice may look at M, between the two it must not.
Choice choose(const Problem& problem, const Device& device);

}  // namespace smem::gemm
