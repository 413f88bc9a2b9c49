// What would run for a problem, as JSON: the kernel and the reason.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "device/dtype.h"
#include "gemm/gemm.h"

namespace smem::bindings {

/// `numbers` are those of torch.ops.smem._gemm_problem (gemm_problem in bindings/gemm.cpp),
/// `kernel` is the code that the op takes: 0 for `auto`. Throws what the op would for a kernel that
/// cannot take the problem.
std::string plan_gemm(const std::vector<int64_t>& numbers, const Device& device, DType dtype,
                      gemm::Precision precision, int64_t kernel);

/// `numbers` are those of torch.ops.smem._transpose_problem (bindings/transpose.h).
std::string plan_transpose(const std::vector<int64_t>& numbers, const Device& device);

}  // namespace smem::bindings
