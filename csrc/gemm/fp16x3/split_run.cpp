// Which kernels split an operand, and where their results lie in a workspace.
#include <cstdlib>

#include "gemm/fp16x3/split_kernels.h"
#include "gemm/fp16x3/split.h"

namespace smem::gemm::fp16x3::split {
namespace {

const Kernels& kernels(Build build) {
#ifdef SMEM_WITH_CUDA
  if (build == Build::device) return device_kernels();
#endif
  return build == Build::traced ? traced_kernels() : host_kernels();
}

}  // namespace

bool lines_lie_side_by_side(const Split& split) {
  return split.lines > 1 && split.length > 1 &&
         std::abs(split.line_stride) < std::abs(split.stride);
}

Workspace::Workspace(const Split& split) {
  constexpr size_t ALIGNMENT = 256;
  constexpr size_t HALF_BYTES = 2;
  const auto lines = static_cast<size_t>(split.all_lines());
  const auto chunks = static_cast<size_t>(ceil_div(split.part_length, chunk_length(split)));
  const auto halves_bytes = lines * static_cast<size_t>(split.pitch()) * HALF_BYTES;
  const bool needs_extremes = lines_lie_side_by_side(split) && split.part_length > LONGEST_COLUMN;
  extremes_bytes = needs_extremes ? lines * chunks * EXTREMES_BYTES : 0;
  bytes = 0;
  const auto take = [&](size_t part) {
    const size_t offset = bytes;
    bytes += (part + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return offset;
  };
  halves = take(halves_bytes);
  exponent = take(lines * sizeof(int32_t));
  mark = take(lines * sizeof(uint8_t));
  position = take(lines * sizeof(int64_t));
  rest = take(lines * sizeof(float));
  extremes = take(extremes_bytes);
}

Split Workspace::place(Split split, void* memory) const {
  auto* const begin = static_cast<unsigned char*>(memory);
  split.halves = begin + halves;
  split.exponent = reinterpret_cast<int32_t*>(begin + exponent);
  split.mark = begin + mark;
  split.position = reinterpret_cast<int64_t*>(begin + position);
  split.rest = reinterpret_cast<float*>(begin + rest);
  split.extremes = begin + extremes;
  return split;
}

void run(const Split& split, const Device& device, Build build, bool launch_with_pdl) {
  const Kernels& launches = kernels(build);
  if (!lines_lie_side_by_side(split)) return launches.rows(split, device, launch_with_pdl);
  if (split.part_length <= LONGEST_COLUMN) return launches.columns(split, device, launch_with_pdl);
  if (launches.long_columns && split.part_length <= LONGEST_LONG_COLUMN &&
      launches.has_clusters(device)) {
    return launches.long_columns(split, device, launch_with_pdl);
  }
  launches.extremes(split, device, launch_with_pdl);
  launches.turned(split, device, /*launch_with_pdl=*/true);
}

}  // namespace smem::gemm::fp16x3::split
