#include "device/programmatic.h"
#include "device/vector.h"
#include "gemm/hopper/pack.h"

namespace smem::gemm::hopper {
inline namespace SMEM_BUILD {
namespace {

constexpr int THREADS = 256, LANE = 8, PIECES = 4;

struct Copy {
  const uint16_t* from;
  uint16_t* to;
  int64_t step, line_step, member_step;
  int64_t length, line_stride, member_stride;
  uint32_t pieces;       ///< runs of 8 elements in a line
  uint32_t lines;        ///< in a member
  uint32_t all_lines;    ///< in all members
  uint32_t log_threads;  ///< of the threads that share a line, about PIECES pieces each
};

struct Copies {
  Copy of[2];
  uint32_t first_blocks;  ///< those that work on the first
};

__device__ __forceinline__ uint4 load_strided(const uint16_t* from, int64_t step, int64_t inside) {
  Vector<uint16_t, LANE> values;
#pragma unroll
  for (int i = 0; i < LANE; ++i) values.lane[i] = i < inside ? from[i * step] : uint16_t{0};
  return reinterpret_cast<const uint4&>(values);
}

/// 8 neighbours in a line as the one or two aligned pieces of 16 bytes that hold them. Where those
/// go on behind the line's end, element by element: memory may end with the line.
__device__ __forceinline__ uint4 load_unaligned(const uint16_t* from, int64_t inside) {
  const auto shift = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(from) % 16);
  const auto* aligned = reinterpret_cast<const uint4*>(reinterpret_cast<uintptr_t>(from) - shift);
  if (inside < (shift > 0 ? 2 * LANE - shift / 2 : LANE)) return load_strided(from, 1, inside);
  const uint4 a = __ldg(aligned);
  uint4 b{};
  if (shift > 0) b = __ldg(aligned + 1);
  uint32_t words[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
  if (shift & 8) {
#pragma unroll
    for (int i = 0; i < 6; ++i) words[i] = words[i + 2];
  }
  if (shift & 4) {
#pragma unroll
    for (int i = 0; i < 5; ++i) words[i] = words[i + 1];
  }
  const uint32_t bits = (shift & 2) * 8;
  return {__funnelshift_r(words[0], words[1], bits), __funnelshift_r(words[1], words[2], bits),
          __funnelshift_r(words[2], words[3], bits), __funnelshift_r(words[3], words[4], bits)};
}

__global__ void __launch_bounds__(THREADS) pack_kernel(const Copies copies) {
  let_next_begin();
  const bool is_first = blockIdx.x < copies.first_blocks;
  const Copy& copy = copies.of[is_first ? 0 : 1];
  const uint32_t block = is_first ? blockIdx.x : blockIdx.x - copies.first_blocks;
  const uint64_t thread = uint64_t{block} * THREADS + threadIdx.x;
  const uint64_t line = thread >> copy.log_threads;
  if (line >= copy.all_lines) return;
  const uint32_t threads = 1u << copy.log_threads;
  const uint32_t member = static_cast<uint32_t>(line) / copy.lines;
  const uint32_t row = static_cast<uint32_t>(line) % copy.lines;
  const uint16_t* from = copy.from + member * copy.member_step + row * copy.line_step;
  uint16_t* to = copy.to + member * copy.member_stride + row * copy.line_stride;
#pragma unroll PIECES
  for (uint32_t i = thread & (threads - 1); i < copy.pieces; i += threads) {
    const int64_t col = int64_t{i} * LANE;
    const uint4 values = copy.step == 1
                             ? load_unaligned(from + col, copy.length - col)
                             : load_strided(from + col * copy.step, copy.step, copy.length - col);
    *reinterpret_cast<uint4*>(to + col) = values;
  }
}

/// A line of floats is one of twice as many elements of two bytes.
Copy copy_of(const Packing& p, DType dtype) {
  const Source& source = *p.source;
  const int64_t width = static_cast<int64_t>(size_of(dtype)) / ELEMENT_BYTES;
  Copy copy{static_cast<const uint16_t*>(p.from),
            static_cast<uint16_t*>(p.to),
            p.step,
            width * p.line_step,
            width * p.member_step,
            width * source.length,
            width * source.line_stride,
            width * source.member_stride,
            static_cast<uint32_t>(width * source.line_stride / LANE),
            static_cast<uint32_t>(source.lines),
            static_cast<uint32_t>(source.lines * source.members),
            0};
  while ((uint64_t{PIECES} << copy.log_threads) < copy.pieces) ++copy.log_threads;
  return copy;
}

int64_t blocks_of(const Copy& copy) {
  return ceil_div(int64_t{copy.all_lines} << copy.log_threads, THREADS);
}

}  // namespace
}  // namespace SMEM_BUILD

void pack(const Packing* packings, int count, DType dtype, const Device& device) {
  Copies copies{};
  int64_t blocks = 0;
  for (int i = 0; i < count; ++i) {
    copies.of[i] = copy_of(packings[i], dtype);
    blocks += blocks_of(copies.of[i]);
  }
  copies.first_blocks = static_cast<uint32_t>(blocks_of(copies.of[0]));
  smem::launch("hopper pack", pack_kernel, Geometry{blocks, dim3(THREADS)}, device, copies);
}

}  // namespace smem::gemm::hopper
