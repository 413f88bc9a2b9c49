// The launches that a split is made of.
#pragma once

#include <algorithm>

#include "gemm/fp16x3/split.h"

namespace smem::gemm::fp16x3::split {

/// Elements of a part of a line that `columns` takes at most, and `long_columns`.
constexpr int64_t LONGEST_COLUMN = 512, LONGEST_LONG_COLUMN = 8192;

/// Lines whose extremes a block of `extremes` finds.
constexpr int CHUNK_LINES = 128;

/// The elements of a part of a line whose extremes such a block finds. 256 of them make 512 blocks
/// of an operand of 4096², and fewer make up to as many of a smaller one; but a part has 64 chunks
/// at most, for every block of `turned` reads the extremes of them all.
constexpr int64_t chunk_length(const Split& split) {
  constexpr int64_t BLOCKS = 512, LEAST = 32, LARGEST = 256, MOST_CHUNKS = 64;
  const int64_t columns = ceil_div(split.lines, CHUNK_LINES) * split.all_parts();
  const int64_t length = split.part_length;
  const int64_t enough = std::clamp(ceil_div(length * columns, BLOCKS), LEAST, LARGEST);
  return std::max(enough, ceil_div(length, MOST_CHUNKS));
}

/// What `extremes` leaves of a chunk.
constexpr size_t EXTREMES_BYTES = 16;

/// launch_with_pdl: see Geometry.
using Launch = void (*)(const Split&, const Device&, bool launch_with_pdl);

struct Kernels {
  Launch rows;  ///< the whole split

  // The same for lines that lie side by side: in one launch up to LONGEST_COLUMN, or in two.
  Launch columns;
  Launch extremes;  ///< finds the extremes of each chunk of each line
  Launch turned;    ///< splits the lines by what that found

  // In one launch up to LONGEST_LONG_COLUMN, where there are clusters. Null under cpu_emulator.
  bool (*has_clusters)(const Device&) = nullptr;
  Launch long_columns = nullptr;
};

inline namespace SMEM_BUILD {

void rows(const Split& split, const Device& device, bool launch_with_pdl);
void columns(const Split& split, const Device& device, bool launch_with_pdl);
void extremes(const Split& split, const Device& device, bool launch_with_pdl);
void turned(const Split& split, const Device& device, bool launch_with_pdl);
bool has_clusters(const Device& device);
void long_columns(const Split& split, const Device& device, bool launch_with_pdl);

#ifdef __CUDACC__
inline constexpr Kernels KERNELS{&rows, &columns, &extremes, &turned, &has_clusters, &long_columns};
#else
inline constexpr Kernels KERNELS{&rows, &columns, &extremes, &turned};
#endif

}  // namespace SMEM_BUILD

/// Without CUDA there are none for the device.
const Kernels& device_kernels();
const Kernels& host_kernels();
const Kernels& traced_kernels();

}  // namespace smem::gemm::fp16x3::split
