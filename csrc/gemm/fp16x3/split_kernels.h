// The launches that a split consists of.
#pragma once

#include <algorithm>

#include "gemm/fp16x3/split.h"

namespace smem::gemm::fp16x3::split {

/// The longest k slice that `mn_major` takes, and that `mn_major_cluster` takes.
constexpr int64_t MN_MAJOR_MAX_K = 512, MN_MAJOR_CLUSTER_MAX_K = 8192;

/// Rows per block of `minmax`.
constexpr int MINMAX_TILE_MN = 128;

/// Elements along K per block of `minmax`: a chunk. 256 of them make 512 blocks for an operand of
/// 4096², and a smaller operand has shorter chunks for up to as many blocks. But a k slice has at
/// most 64 chunks, because every block of `mn_major_pass2` reads the results of all of them.
constexpr int64_t minmax_chunk_length(const SplitOperand& operand) {
  constexpr int64_t BLOCKS = 512, MIN_LENGTH = 32, MAX_LENGTH = 256, MAX_CHUNKS = 64;
  const int64_t columns = ceil_div(operand.mn, MINMAX_TILE_MN) * operand.total_k_slices();
  const int64_t length = operand.k_slice_length;
  const int64_t enough = std::clamp(ceil_div(length * columns, BLOCKS), MIN_LENGTH, MAX_LENGTH);
  return std::max(enough, ceil_div(length, MAX_CHUNKS));
}

/// What `minmax` stores per row and chunk.
constexpr size_t MINMAX_BYTES = 16;

/// See Geometry for launch_with_pdl.
using SplitLaunch = void (*)(const SplitOperand&, const Device&, bool launch_with_pdl);

struct SplitKernels {
  SplitLaunch k_major;  ///< the whole split of a K-major operand

  // An MN-major operand takes one launch up to MN_MAJOR_MAX_K, else two.
  SplitLaunch mn_major;
  SplitLaunch minmax;          ///< finds the AbsMinMax of each chunk of each row
  SplitLaunch mn_major_pass2;  ///< splits the rows by the results of `minmax`

  // One launch up to MN_MAJOR_CLUSTER_MAX_K on GPUs with clusters. Null under cpu_emulator.
  bool (*has_clusters)(const Device&) = nullptr;
  SplitLaunch mn_major_cluster = nullptr;
};

inline namespace SMEM_BUILD {

void k_major(const SplitOperand& operand, const Device& device, bool launch_with_pdl);
void mn_major(const SplitOperand& operand, const Device& device, bool launch_with_pdl);
void minmax(const SplitOperand& operand, const Device& device, bool launch_with_pdl);
void mn_major_pass2(const SplitOperand& operand, const Device& device, bool launch_with_pdl);
bool has_clusters(const Device& device);
void mn_major_cluster(const SplitOperand& operand, const Device& device, bool launch_with_pdl);

inline constexpr SplitKernels KERNELS{
    .k_major = &k_major,
    .mn_major = &mn_major,
    .minmax = &minmax,
    .mn_major_pass2 = &mn_major_pass2,
#ifdef __CUDACC__
    .has_clusters = &has_clusters,
    .mn_major_cluster = &mn_major_cluster,
#endif
};

}  // namespace SMEM_BUILD

/// Without CUDA there are none for the device.
const SplitKernels& device_kernels();
const SplitKernels& host_kernels();

}  // namespace smem::gemm::fp16x3::split
