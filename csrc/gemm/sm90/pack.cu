#include "device/fast_divmod.h"
#include "device/pdl.h"
#include "device/vector.h"
#include "gemm/sm90/pack.h"

namespace smem::gemm::sm90 {
inline namespace SMEM_BUILD {
namespace {

constexpr int THREADS = 256, LANE = 8, PIECES = 2;
/// A SM. With fewer, and so more registers, nvcc has a thread's loads wait for each
/// other.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
constexpr int BLOCKS = 1024 / THREADS;
#else
constexpr int BLOCKS = 1536 / THREADS;
#endif

struct Copy {
  const uint16_t* from;
  const uint16_t* end;  ///< of the last line
  uint16_t* to;
  int64_t step, line_step, member_step;
  int64_t length, line_stride, member_stride;
  uint64_t pieces;             ///< runs of 8 elements, in all lines
  FastDivmod by_line, by_member;  ///< pieces in a line, lines in a member
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

/// 8 neighbours that begin `shift` bytes into two aligned pieces of 16 bytes.
__device__ __forceinline__ uint4 shifted(const uint4& a, const uint4& b, uint32_t shift) {
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

/// 8 elements of a line, or fewer at its end.
struct Piece {
  const uint16_t* from;
  uint16_t* to;
  int64_t inside;  ///< elements until the line ends

  /// Of the two aligned pieces of 16 bytes that hold it, where it is of neighbours.
  __device__ __forceinline__ uintptr_t begin() const {
    return reinterpret_cast<uintptr_t>(from) & ~uintptr_t{15};
  }
};

/// A block's pieces.
struct Pieces {
  const Copy& copy;
  uint32_t first_piece, first_row, member;

  __device__ __forceinline__ Pieces(const Copy& copy, uint64_t first) : copy(copy) {
    // Divisions of 64 bits would take 0.3 us.
    constexpr uint64_t LARGEST = uint64_t{1} << 31;
    const uint64_t line = first < LARGEST ? quotient(static_cast<uint32_t>(first), copy.by_line)
                                          : first / copy.by_line.by;
    first_piece = static_cast<uint32_t>(first - line * copy.by_line.by);
    member = line < LARGEST ? quotient(static_cast<uint32_t>(line), copy.by_member)
                            : static_cast<uint32_t>(line / copy.by_member.by);
    first_row = static_cast<uint32_t>(line - uint64_t{member} * copy.by_member.by);
  }
  __device__ __forceinline__ Piece operator[](uint32_t index) const {
    const Division line = divide(first_piece + index, copy.by_line);
    const Division row = divide(first_row + line.quotient, copy.by_member);
    const int64_t col = line.rest * LANE, m = member + row.quotient;
    return {copy.from + m * copy.member_step + row.rest * copy.line_step + col * copy.step,
            copy.to + m * copy.member_stride + row.rest * copy.line_stride + col,
            copy.length - col};
  }
};

__global__ void __launch_bounds__(THREADS, BLOCKS) pack_kernel(const Copies copies) {
  launch_dependent_grids();
  const bool is_first = blockIdx.x < copies.first_blocks;
  const Copy& copy = copies.of[is_first ? 0 : 1];
  const uint32_t block = is_first ? blockIdx.x : blockIdx.x - copies.first_blocks;
  const uint64_t first = uint64_t{block} * (THREADS * PIECES);
  const auto count = static_cast<uint32_t>(min(copy.pieces - first, uint64_t{THREADS * PIECES}));
  const Pieces pieces(copy, first);
  // What is read may go on behind its line, and is written behind the copy's, where nobody reads
  // it; but not behind the last line, where memory may end.
  const uintptr_t last = copy.step == 1 ? reinterpret_cast<uintptr_t>(copy.end) - 32 : 0;
  Piece piece[PIECES];
  uint4 low[PIECES], high[PIECES];
  bool is_read[PIECES], is_done = true;
#pragma unroll
  for (int i = 0; i < PIECES; ++i) {
    const uint32_t index = i * THREADS + threadIdx.x;
    piece[i] = pieces[index];
    const auto* begin = reinterpret_cast<const uint4*>(piece[i].begin());
    is_read[i] = index < count && piece[i].begin() <= last;
    is_done = is_done && (is_read[i] || index >= count);
    if (is_read[i]) {
      low[i] = __ldg(begin);
      high[i] = __ldg(begin + 1);
    }
  }
#pragma unroll
  for (int i = 0; i < PIECES; ++i) {
    const auto shift = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(piece[i].from) % 16);
    if (is_read[i]) __stwb(reinterpret_cast<uint4*>(piece[i].to), shifted(low[i], high[i], shift));
  }
  if (is_done) return;
#pragma unroll 1
  for (uint32_t index = threadIdx.x; index < count; index += THREADS) {
    const Piece one = pieces[index];
    if (one.begin() <= last) continue;
    __stwb(reinterpret_cast<uint4*>(one.to), load_strided(one.from, copy.step, one.inside));
  }
}

/// A line of floats is one of twice as many elements of two bytes.
Copy copy_of(const Packing& p, DType dtype) {
  const Source& source = *p.source;
  const int64_t width = static_cast<int64_t>(size_of(dtype)) / ELEMENT_BYTES;
  Copy copy{static_cast<const uint16_t*>(p.from),
            nullptr,
            static_cast<uint16_t*>(p.to),
            p.step,
            width * p.line_step,
            width * p.member_step,
            width * source.length,
            width * source.line_stride,
            width * source.member_stride,
            0,
            FastDivmod(width * source.line_stride / LANE),
            FastDivmod(source.lines)};
  copy.end = copy.from + (source.members - 1) * copy.member_step +
             (source.lines - 1) * copy.line_step + copy.length;
  copy.pieces = uint64_t{copy.by_line.by} * static_cast<uint64_t>(source.lines * source.members);
  return copy;
}

int64_t blocks_of(const Copy& copy) {
  return ceil_div(static_cast<int64_t>(copy.pieces), THREADS * PIECES);
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

}  // namespace smem::gemm::sm90
