// Which kernels split an operand, and the layout of their results in a workspace.
#include <cstdlib>

#include "gemm/fp16x3/split.h"
#include "gemm/fp16x3/split_kernels.h"

namespace smem::gemm::fp16x3::split {

bool is_mn_major(const SplitOperand& operand) {
  return operand.mn > 1 && operand.k > 1 &&
         std::abs(operand.mn_stride) < std::abs(operand.k_stride);
}

SplitWorkspace::SplitWorkspace(const SplitOperand& operand) {
  constexpr size_t ALIGNMENT = 256;
  constexpr size_t HALF_BYTES = 2;
  const auto rows = static_cast<size_t>(operand.total_rows());
  const auto chunks =
      static_cast<size_t>(ceil_div(operand.k_slice_length, minmax_chunk_length(operand)));
  const auto hi_lo_bytes = rows * static_cast<size_t>(operand.row_pitch()) * HALF_BYTES;
  const bool needs_minmax = is_mn_major(operand) && operand.k_slice_length > MN_MAJOR_MAX_K;
  minmax_bytes = needs_minmax ? rows * chunks * MINMAX_BYTES : 0;
  bytes = 0;
  const auto allocate = [&](size_t size) {
    const size_t offset = bytes;
    bytes += (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return offset;
  };
  hi_lo = allocate(hi_lo_bytes);
  exponent = allocate(rows * sizeof(int32_t));
  status = allocate(rows * sizeof(uint8_t));
  outlier_k = allocate(rows * sizeof(int64_t));
  outlier = allocate(rows * sizeof(float));
  minmax = allocate(minmax_bytes);
}

SplitOperand SplitWorkspace::bind(SplitOperand operand, void* memory) const {
  auto* const begin = static_cast<unsigned char*>(memory);
  operand.hi_lo = begin + hi_lo;
  operand.exponent = reinterpret_cast<int32_t*>(begin + exponent);
  operand.status = begin + status;
  operand.outlier_k = reinterpret_cast<int64_t*>(begin + outlier_k);
  operand.outlier = reinterpret_cast<float*>(begin + outlier);
  operand.minmax = begin + minmax;
  return operand;
}

void launch_split(const SplitOperand& operand, const Device& device, bool launch_with_pdl) {
  const SplitKernels& launches = of_build<device_kernels, host_kernels>(device.build())();
  const int64_t length = operand.k_slice_length;
  if (!is_mn_major(operand)) return launches.k_major(operand, device, launch_with_pdl);
  if (length <= MN_MAJOR_MAX_K) return launches.mn_major(operand, device, launch_with_pdl);
  if (launches.mn_major_cluster && length <= MN_MAJOR_CLUSTER_MAX_K &&
      launches.has_clusters(device)) {
    return launches.mn_major_cluster(operand, device, launch_with_pdl);
  }
  launches.minmax(operand, device, launch_with_pdl);
  launches.mn_major_pass2(operand, device, /*launch_with_pdl=*/true);
}

}  // namespace smem::gemm::fp16x3::split
