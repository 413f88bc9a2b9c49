// turned: the second launch where long lines lie side by side. A block takes 64 lines by 128
// elements. A thread reads 8 elements of 4 lines, 16 bytes at a time, turns them by naming its
// registers, and splits them: 16 bytes of hi and of lo for each line. Shared memory only regroups
// these, so that a line's part is written as 64 bytes of hi, 64 of lo and so on: whole sectors, 16
// bytes an access everywhere.
//
// A line's unit u of 8 halves lies at place u ^ line / 4 % 8. The 8 lanes that the banks serve
// together write one unit of every fourth line, at 8 places by the XOR, and read 8 units of one
// line.
//
// Blocks go through the operand from its end: what `extremes` read last may still be in the L2
// cache.
#include "device/pdl.h"
#include "device/tile.h"
#include "gemm/fp16x3/split_kernels.h"
#include "gemm/fp16x3/scale.h"

namespace smem::gemm::fp16x3::split {
inline namespace SMEM_BUILD {
namespace {

constexpr int TILE_THREADS = 256;
constexpr int TILE_LINES = 64, TILE_LENGTH = 128;    ///< of a tile
constexpr int UNIT = 8, UNITS = TILE_LENGTH / UNIT;  ///< halves in 16 bytes; such units a line
constexpr int PLACES = 8;                            ///< for units, in the 32 banks
constexpr int LANES = TILE_THREADS / TILE_LINES;     ///< lanes that combine a line's chunks
constexpr int CHUNKS_AT_ONCE = 4;
static_assert(TILE_LINES / RUN * UNITS == TILE_THREADS,
              "a thread splits a unit of each of RUN lines");
static_assert(UNITS % PLACES == 0, "the XOR leaves a unit in its line");
static_assert(TILE_LINES % (TILE_THREADS / UNITS) == 0, "all threads store equally often");

struct Tiles {
  Split split;
  int64_t padded_length;
  uint32_t across, along;  ///< tiles of a part: over its lines, and along them
  uint32_t chunks;
};

/// The halves of a tile, hi or lo.
struct Units {
  Tile<half, TILE_LINES, TILE_LENGTH> halves;

  __device__ __forceinline__ half* at(unsigned line, unsigned unit, Site site = Site::here()) {
    const unsigned place = unit ^ line / RUN % PLACES;
    return halves.at(static_cast<int>(line), static_cast<int>(place * UNIT), site);
  }
};

template <bool WIDE>
__global__ void __launch_bounds__(TILE_THREADS, 3)
    turned_kernel(const __grid_constant__ Tiles tiles) {
  __shared__ Units hi, lo;
  __shared__ Tile<int, 1, TILE_LINES> scales;
  launch_dependent_grids();
  const Split& split = tiles.split;
  const uint32_t block = gridDim.x - 1 - blockIdx.x, row = block / tiles.across;
  const int64_t first_line = int64_t{block % tiles.across} * TILE_LINES;
  const int64_t first = int64_t{row % tiles.along} * TILE_LENGTH, index = row / tiles.along;
  const Part part(split, row / tiles.along);

  const int line = static_cast<int>(threadIdx.x) % (TILE_LINES / RUN) * RUN;
  const int unit = static_cast<int>(threadIdx.x) / (TILE_LINES / RUN);
  const int64_t lines_left = split.lines - first_line - line;
  const int64_t elements_left = part.length - first - unit * UNIT;
  const int64_t line_stride = WIDE ? 1 : split.line_stride;
  const float* const from =
      part.from + (first_line + line) * line_stride + (first + unit * UNIT) * split.stride;
  Run runs[UNIT];
#pragma unroll
  for (int i = 0; i < UNIT; ++i) {
    runs[i] =
        load_run<WIDE>(from + i * split.stride, line_stride, i < elements_left ? lines_left : 0);
  }

  // Loads by which a line's extremes are found are under way together, beside those above.
  wait_on_dependent_grids();
  const int scaled = static_cast<int>(threadIdx.x) / LANES, lane = threadIdx.x % LANES;
  const bool is_line = first_line + scaled < split.lines;
  const Extremes* of_chunk = static_cast<const Extremes*>(split.extremes) +
                             (index * tiles.chunks + lane) * split.lines + first_line + scaled;
  Extremes extremes;
#pragma unroll 1
  for (uint32_t chunk = lane; chunk < tiles.chunks; chunk += LANES * CHUNKS_AT_ONCE) {
    Extremes found[CHUNKS_AT_ONCE];
#pragma unroll
    for (int i = 0; i < CHUNKS_AT_ONCE; ++i) {
      if (is_line && chunk + i * LANES < tiles.chunks) found[i] = load(of_chunk);
      of_chunk += LANES * split.lines;
    }
#pragma unroll
    for (int i = 0; i < CHUNKS_AT_ONCE; ++i) extremes.add(found[i]);
  }
  extremes = extremes.over_lanes(LANES);
  if (lane == 0) {
    const Scale scale = scale_of(extremes);
    scales(0, scaled) = scale.code();
    if (first == 0 && is_line) {
      store_scale(split, index * split.lines + first_line + scaled, scale);
    }
  }
  __syncthreads();

  const Vector<int, RUN> codes = load_vector<RUN>(scales.at(0, line));
#pragma unroll
  for (int l = 0; l < RUN; ++l) {
    Vector<float, UNIT> elements;
#pragma unroll
    for (int i = 0; i < UNIT; ++i) elements.lane[i] = runs[i].lane[l];
    const Scale scale = Scale::of_code(codes.lane[l]);
    const Halves<UNIT> halves(elements, scale);
    store_vector<UNIT>(hi.at(line + l, unit), halves.hi);
    store_vector<UNIT>(lo.at(line + l, unit), halves.lo);
  }
  __syncthreads();

  const int stored_unit = threadIdx.x % UNITS;
  const int64_t position = first + stored_unit * UNIT;
#pragma unroll
  for (int i = 0; i < TILE_LINES; i += TILE_THREADS / UNITS) {
    const int l = i + static_cast<int>(threadIdx.x) / UNITS;
    if (first_line + l >= split.lines || position >= tiles.padded_length) continue;
    half* const to = static_cast<half*>(split.halves) +
                     (index * split.lines + first_line + l) * 2 * tiles.padded_length +
                     place_of(position);
    store_global_vector<UNIT>(to, load_vector<UNIT>(hi.at(l, stored_unit)));
    store_global_vector<UNIT>(to + PIECE, load_vector<UNIT>(lo.at(l, stored_unit)));
  }
  // Read again, as this is seldom and all registers were taken.
  const int mended = threadIdx.x;
  if (mended >= TILE_LINES || first_line + mended >= split.lines) return;
  const Scale scale = Scale::of_code(scales(0, mended));
  if (scale.mark != MENDED) return;
  const float* const of_line = part.from + (first_line + mended) * line_stride;
  for (int64_t i = first; i < first + TILE_LENGTH && i < part.length; ++i) {
    store_rest(split, index * split.lines + first_line + mended, i,
               load(of_line + i * split.stride), scale);
  }
}

}  // namespace

void turned(const Split& split, const Device& device, bool launch_with_pdl) {
  const int64_t across = ceil_div(split.lines, TILE_LINES),
                along = ceil_div(split.part_length, TILE_LENGTH);
  const bool wide = runs_are_wide(split, split.line_stride, split.lines, split.stride);
  smem::launch("split_turned", wide ? turned_kernel<true> : turned_kernel<false>,
               {across * along * split.all_parts(), {TILE_THREADS}, 0, launch_with_pdl}, device,
               Tiles{split, split.padded_length(), static_cast<uint32_t>(across),
                     static_cast<uint32_t>(along),
                     static_cast<uint32_t>(ceil_div(split.part_length, chunk_length(split)))});
}

}  // namespace SMEM_BUILD
}  // namespace smem::gemm::fp16x3::split
