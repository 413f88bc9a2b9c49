// extremes: the first launch where long lines lie side by side. A warp reads 512 bytes at a time,
// an element each of 128 neighbouring lines, and goes along the lines, eight warps in turn; what
// they find meets in shared memory. The extremes of a chunk of a line go to memory, 16 bytes for 1
// KiB or more that was read, and `turned` combines them: no atomics, and nothing to clear
// beforehand.
//
// A line's chunks are interleaved, eight elements each in turn, so that all blocks together go
// along the lines: what was read last, and is in the L2 cache still, are the lines' ends, where
// `turned` begins.
#include "device/pdl.h"
#include "gemm/fp16x3/split_kernels.h"
#include "gemm/fp16x3/scale.h"
#include "gemm/fp16x3/split_shared_minmax.h"

namespace smem::gemm::fp16x3::split {
inline namespace SMEM_BUILD {
namespace {

constexpr int CHUNK_WARPS = 8, CHUNK_THREADS = 32 * CHUNK_WARPS;
constexpr int AT_ONCE = 8;  ///< loads of a thread that are under way
/// Without this nvcc saves registers, and has two loads under way.
constexpr int BLOCKS_AT_ONCE = 4;
static_assert(sizeof(Extremes) == EXTREMES_BYTES, "the workspace has room for them");
static_assert(CHUNK_LINES == 32 * RUN, "a warp's loads are as wide as a block's lines");
static_assert(CHUNK_LINES <= CHUNK_THREADS, "a thread stores the extremes of one line");

struct Chunks {
  Split split;
  uint32_t tiles, chunks;  ///< of a part: CHUNK_LINES lines each; how many share a line
};

template <bool WIDE>
__global__ void __launch_bounds__(CHUNK_THREADS, BLOCKS_AT_ONCE)
    extremes_kernel(const __grid_constant__ Chunks arguments) {
  __shared__ SharedExtremes<CHUNK_WARPS, CHUNK_LINES> of_warps;
  launch_dependent_grids();
  const Split& split = arguments.split;
  const uint32_t tile = blockIdx.x % arguments.tiles, row = blockIdx.x / arguments.tiles;
  const uint32_t chunk = row % arguments.chunks;
  const Part part(split, row / arguments.chunks);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int64_t first_line = int64_t{tile} * CHUNK_LINES, line = first_line + lane * RUN;
  const int64_t line_stride = WIDE ? 1 : split.line_stride;
  const int64_t first = chunk * CHUNK_WARPS + warp, apart = arguments.chunks * CHUNK_WARPS;
  const int64_t step = apart * split.stride;
  const float* from = part.from + line * line_stride + first * split.stride;

  Extremes of_lines[RUN];
  for (int64_t position = first; position < part.length; position += AT_ONCE * apart) {
    Run runs[AT_ONCE];
#pragma unroll
    for (int i = 0; i < AT_ONCE; ++i) {
      const bool exists = position + i * apart < part.length;
      runs[i] = load_run<WIDE>(from, line_stride, exists ? split.lines - line : 0);
      from += step;
    }
#pragma unroll
    for (int i = 0; i < AT_ONCE * RUN; ++i) of_lines[i % RUN].add(runs[i / RUN].lane[i % RUN]);
  }
  of_warps.store(warp, lane * RUN, of_lines);
  __syncthreads();

  const int stored = threadIdx.x;
  if (stored >= CHUNK_LINES || first_line + stored >= split.lines) return;
  store(static_cast<Extremes*>(split.extremes) + row * split.lines + first_line + stored,
        of_warps.of_all(stored));
  wait_on_dependent_grids();
}

}  // namespace

void extremes(const Split& split, const Device& device, bool launch_with_pdl) {
  const int64_t tiles = ceil_div(split.lines, CHUNK_LINES);
  const int64_t chunks = ceil_div(split.part_length, chunk_length(split));
  const bool wide = runs_are_wide(split, split.line_stride, split.lines, split.stride);
  smem::launch("split_extremes", wide ? extremes_kernel<true> : extremes_kernel<false>,
               {tiles * chunks * split.all_parts(), {CHUNK_THREADS}, 0, launch_with_pdl}, device,
               Chunks{split, static_cast<uint32_t>(tiles), static_cast<uint32_t>(chunks)});
}

}  // namespace SMEM_BUILD
}  // namespace smem::gemm::fp16x3::split
