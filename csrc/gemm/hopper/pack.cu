#include "gemm/hopper/pack.h"

#include "device/vector.h"

namespace smem::gemm::hopper {
inline namespace SMEM_BUILD {
namespace {

constexpr int THREADS = 256, LANE = 8;

struct Copy {
  const uint16_t* from;
  uint16_t* to;
  int64_t step, line_step, member_step;
  int64_t length, lines, line_stride, member_stride;
  int64_t pieces;  ///< runs of 8 elements, all lines of all members
};

/// 16 bytes a thread. Neighbours in a line that are not aligned come as the two aligned pieces that
/// hold them, which the neighbouring lane reads too.
__global__ void __launch_bounds__(THREADS) pack_kernel(const Copy copy) {
  const int64_t piece = int64_t{blockIdx.x} * THREADS + threadIdx.x;
  if (piece >= copy.pieces) return;
  const int64_t line_pieces = copy.line_stride / LANE;
  const int64_t line = piece / line_pieces, col = piece % line_pieces * LANE;
  const int64_t member = line / copy.lines, row = line % copy.lines;
  const uint16_t* from =
      copy.from + member * copy.member_step + row * copy.line_step + col * copy.step;
  uint16_t* to = copy.to + member * copy.member_stride + row * copy.line_stride + col;

  const auto shift = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(from) % 16);
  // The aligned pieces must lie within the line, or they might lie outside the tensor.
  if (copy.step == 1 && col >= LANE && col + 2 * LANE <= copy.length) {
    const auto* aligned = reinterpret_cast<const uint4*>(reinterpret_cast<uintptr_t>(from) - shift);
    const uint4 a = __ldg(aligned), b = __ldg(aligned + 1);
    const uint32_t words[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
    uint32_t moved[4];
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) {
      uint32_t low = words[i], high = words[i + 1];
#pragma unroll
      for (uint32_t w = 1; w < 4; ++w) {
        if (shift / 4 == w) {
          low = words[i + w];
          high = i + w + 1 < 8 ? words[i + w + 1] : 0;
        }
      }
      moved[i] = __funnelshift_r(low, high, shift % 4 * 8);
    }
    *reinterpret_cast<uint4*>(to) = {moved[0], moved[1], moved[2], moved[3]};
    return;
  }
  Vector<uint16_t, LANE> values;
#pragma unroll
  for (int i = 0; i < LANE; ++i) {
    values.lane[i] = col + i < copy.length ? from[i * copy.step] : uint16_t{0};
  }
  store_vector<LANE>(to, values);
}

}  // namespace
}  // namespace SMEM_BUILD

void pack(const Source& source, const void* from, int64_t step, int64_t line_step,
          int64_t member_step, void* to, const Device& device) {
  const Copy copy{static_cast<const uint16_t*>(from),
                  static_cast<uint16_t*>(to),
                  step,
                  line_step,
                  member_step,
                  source.length,
                  source.lines,
                  source.line_stride,
                  source.member_stride,
                  source.members * source.lines * (source.line_stride / LANE)};
  smem::launch("hopper pack", pack_kernel, Geometry{ceil_div(copy.pieces, THREADS), dim3(THREADS)},
               device, copy);
}

}  // namespace smem::gemm::hopper
