// unaligned: for matrices whose rows begin anywhere. Global memory is accessed by aligned vectors
// of 16 bytes, shared memory by single elements.
//
//   global --cp.async, aligned vectors--> shared --W elements of a column--> registers --> global
//           rows of in, each vector once                                    one aligned vector
//
// Over vectorized: the rows of neither side need to begin at a multiple of 16 bytes.
//
// 1. The block copies the aligned vectors that its rows touch to shared memory, each once. cp.async
//    needs no register and does not wait: 32 or 64 KiB per block are in flight (unaligned_load.h).
// 2. Each thread takes an aligned vector of `out`, collects its W elements from W rows of shared
//    memory, and writes it. Wherever the rows begin, one thread writes each vector, once.
//
// The cost is one shared memory access per element. Even for 1-byte elements that takes a third of
// the time that DRAM needs for the bytes.
//
// The halo. The row of `out` for column c begins `lead(c)` elements after a sector of 32 bytes, so
// its aligned vectors begin lead(c) elements above the tile's first row. To give each vector one
// writer, a tile ends lead(c) elements earlier in column c and begins as much earlier. The block
// loads that many rows more, the halo, which mostly come from L2:
//
//   column                               0        1        2        3
//   lead, in elements                    2        1        0        3
//   first row of the tile's part     row0 - 2  row0 - 1   row0   row0 - 3
//   end of it, with e = row0 + rows    e - 2    e - 1      e      e - 3
//
// Banks. Shared memory has the rows of one residue modulo W together (SmemRows): they have the same
// misalignment and are an odd number of vectors apart. In each step the lanes of a warp read rows
// of one residue:
//
//   8 lanes along M: 8 consecutive groups, 8 different groups of 4 banks        } 32 lanes in
//   4 lanes along N: columns in 4 consecutive words, the 4 banks of a group     } 32 banks
//
// A lane so collects the elements of its vector ordered by residue, and rotates them at the end.
//
// A large tile is processed in stages of STAGE_ROWS rows: one is transposed while the copies of the
// next are in flight. A thread has the same columns in each stage, and computes their offsets once.
//
// Short contiguous rows (1M x 8) are read, or written, as one segment: unaligned_flat.h.
//
// What may be changed safely: the constants of unaligned_tile.h. The map of lanes to vectors and
// columns (OutputThreadMap) decides the bank conflicts, not the result.
#include "transpose/tiling.h"
#include "transpose/unaligned_flat.h"
#include "transpose/unaligned_load.h"

namespace smem::transpose::inline SMEM_BUILD {

/// A warp's lanes: 8 along M, which write 128 contiguous bytes of a column, and 4 along N.
constexpr int LOG2_LANES_M = 3, LOG2_LANES_N = 2;

/// The columns in a 4-byte word. Lanes read columns of different words, and so different banks.
template <typename T>
constexpr int COLUMNS_PER_WORD = sizeof(T) < 4 ? 4 / sizeof(T) : 1;

/// Columns that are a multiple of this apart have the same lead: what a thread computes for one of
/// its columns holds for all of them.
template <typename T>
constexpr int COLUMN_PERIOD = VECTOR_WIDTH<T> == 1 ? 4 : VECTORS_PER_SECTOR * VECTOR_WIDTH<T>;

/// What a thread writes of a stage: vector `vector_m` of the stage's rows, in columns from
/// `col_begin` to `col_end`, COLUMN_PERIOD apart.
template <typename T, int THREADS>
struct OutputThreadMap {
  static constexpr int VECTORS_PER_STAGE = STAGE_ROWS / VECTOR_WIDTH<T>;
  /// Threads that cover one period of columns, and parts into which the columns are divided.
  static constexpr int THREADS_PER_PERIOD = VECTORS_PER_STAGE * COLUMN_PERIOD<T>;
  static constexpr int PARTS = THREADS / THREADS_PER_PERIOD;
  static constexpr int MAX_COLUMNS_PER_THREAD =
      (max_tile_cols(sizeof(T), THREADS) + PARTS * COLUMN_PERIOD<T> - 1) /
      (PARTS * COLUMN_PERIOD<T>);

  int vector_m, col_begin, col_end;

  /// The bits of threadIdx.x, from the lowest on: 8 vectors of a column, 4 words of columns (the
  /// warp); then the other vectors, the columns of a word, the other words of a period, the parts.
  __device__ __forceinline__ explicit OutputThreadMap(int width) {
    constexpr int LOG2_PER_WORD = log2_of(COLUMNS_PER_WORD<T>);
    BitFields fields{static_cast<int>(threadIdx.x)};
    vector_m = fields.take(LOG2_LANES_M);
    col_begin = fields.take(LOG2_LANES_N) * COLUMNS_PER_WORD<T>;
    vector_m |= fields.take(log2_of(VECTORS_PER_STAGE) - LOG2_LANES_M) << LOG2_LANES_M;
    col_begin += fields.take(LOG2_PER_WORD);
    col_begin += fields.take(log2_of(COLUMN_PERIOD<T> / COLUMNS_PER_WORD<T>) - LOG2_LANES_N)
                 << (LOG2_LANES_N + LOG2_PER_WORD);
    const int part = fields.remaining;
    const int part_cols =
        (width + PARTS * COLUMN_PERIOD<T> - 1) / (PARTS * COLUMN_PERIOD<T>)*COLUMN_PERIOD<T>;
    col_begin += part * part_cols;
    col_end = (part + 1) * part_cols < width ? (part + 1) * part_cols : width;
  }
};

template <typename T, int THREADS>
__global__ void __launch_bounds__(THREADS, THREADS_PER_SM / THREADS)
    unaligned_kernel(const __grid_constant__ UnalignedParams params) {
  using ThreadMap = OutputThreadMap<T, THREADS>;
  constexpr int W = VECTOR_WIDTH<T>, VECTORS_PER_STAGE = ThreadMap::VECTORS_PER_STAGE;
  const Problem& problem = params.problem;
  const UnalignedTile& tile = params.tile;
  T* const shared = dynamic_shared<T>();
  const BlockTile<T> block(problem,
                           TileGrid{tile.rows, tile.cols, static_cast<unsigned>(tile.tiles_m),
                                    static_cast<unsigned>(tile.tiles_n)});
  const int64_t first_row = block.row0 - tile.halo_vectors * W;
  const int64_t cols_left = problem.cols - block.col0;
  const int width = cols_left < tile.cols ? static_cast<int>(cols_left) : tile.cols;

  SmemRows<T> smem_rows(tile);
  if (problem.in_col_stride == 1 || problem.cols == 1) {
    smem_rows.keep_misalignment(block.in, first_row, block.col0);
    TileLoader<T, THREADS> loader(shared, block.in, tile, smem_rows, params.readable, first_row,
                                  block.col0, width);
    loader.issue(tile.halo_vectors * W + STAGE_ROWS, params.readable);
    loader.issue(tile.smem_rows, params.readable);
  } else {
    load_elements(shared, block.in, tile, smem_rows, first_row, block.col0, width);
  }

  const bool contiguous_out = problem.out_row_stride == 1 || problem.rows == 1;
  const ThreadMap thread(width);
  T* const column = block.out.data + (block.col0 + thread.col_begin) * block.out.row_stride;
  const int64_t period_stride = COLUMN_PERIOD<T> * block.out.row_stride;
  // The number of elements by which the vectors of the thread's columns begin above the tile's
  // rows.
  const int lead =
      tile.halo_vectors == 0
          ? 0
          : static_cast<int>(reinterpret_cast<uintptr_t>(column) / sizeof(T) % COLUMN_PERIOD<T>);
  const int rotation = lead % W;
  // The W rows of the thread's vector, by residue: those of the residues from `previous_group` on
  // are in the group before.
  const int group = thread.vector_m + tile.halo_vectors - lead / W;
  const int previous_group = W - rotation;
  const T* sources[W] = {};
#pragma unroll
  for (int r = 0; r < W; ++r) {
    sources[r] = shared + (smem_rows.element_offset(r < previous_group ? group : group - 1, r) +
                           thread.col_begin);
  }

#pragma unroll 1
  for (int stage = 0; stage * STAGE_ROWS < tile.rows; ++stage) {
    if (stage == 0) {
      cp_async_wait<1>();
    } else {
      cp_async_wait_all();
    }
    __syncthreads();
    const int vector_m = stage * VECTORS_PER_STAGE + thread.vector_m;
    const int64_t first = block.row0 + vector_m * W - lead;
    if (vector_m * W >= tile.rows || first >= problem.rows || first + W <= 0) {
      // The vector is outside the tile or the column.
    } else if (contiguous_out && first >= 0 && first + W <= problem.rows) {
      T* to = column + first;
#pragma unroll
      for (int i = 0; i < ThreadMap::MAX_COLUMNS_PER_THREAD; ++i) {
        if (thread.col_begin + i * COLUMN_PERIOD<T> >= thread.col_end) break;
        T elements[W];
#pragma unroll
        for (int r = 0; r < W; ++r) elements[r] = sources[r][i * COLUMN_PERIOD<T>];
        store_global_vec128(to, rotate_elements<T>(pack<T, W>(elements), rotation));
        to += period_stride;
      }
    } else {
      // At the ends of a column some of the rows do not exist. The lanes read rows of one residue
      // here too, those that exist.
      const int begin = first < 0 ? static_cast<int>(-first) : 0;
      const int end = first + W > problem.rows ? static_cast<int>(problem.rows - first) : W;
      const unsigned valid = (1u << end) - (1u << begin);  // one bit per row
      const unsigned valid_by_residue = valid >> rotation | valid << (W - rotation);
      T* to = column + first * block.out.col_stride;
#pragma unroll 1
      for (int col = 0; thread.col_begin + col < thread.col_end; col += COLUMN_PERIOD<T>) {
        T elements[W];
#pragma unroll
        for (int r = 0; r < W; ++r) {
          elements[r] = valid_by_residue >> r & 1 ? sources[r][col] : T{};
        }
        store_masked(to, block.out.col_stride, rotate_elements<T>(pack<T, W>(elements), rotation),
                     valid);
        to += period_stride;
      }
    }
#pragma unroll
    for (int r = 0; r < W; ++r) sources[r] += VECTORS_PER_STAGE * smem_rows.pitch;
  }
}

struct Unaligned {
  static constexpr const char* NAME = "unaligned";
  template <typename T>
  static constexpr auto kernel() {
    return unaligned_kernel<T, LARGE_TILE_THREADS>;
  }
  template <typename T>
  static void run(const Problem& problem, const Device& device) {
    const UnalignedTile tile = unaligned_tile(problem, device);
    const auto start = [&](auto kernel, unsigned threads = FLAT_THREADS) {
      const Geometry geometry{.blocks = tile.blocks(problem),
                              .threads = {threads},
                              .dynamic_shared_bytes = tile.shared_bytes()};
      launch(NAME, kernel, geometry, device,
             UnalignedParams{.problem = problem, .tile = tile, .readable = readable_span(problem)});
    };
    if (tile.flat_out) return start(unaligned_flat_output_kernel<T>);
    if (tile.flat_in) {
      return start(tile.rotate_lanes ? unaligned_flat_input_kernel<T, true>
                                     : unaligned_flat_input_kernel<T, false>);
    }
    if constexpr (sizeof(T) < 16) {
      if (tile.threads == TILE_THREADS) {
        return start(unaligned_kernel<T, TILE_THREADS>, TILE_THREADS);
      }
    }
    start(kernel<T>(), LARGE_TILE_THREADS);
  }
};

const Kernel unaligned = make_kernel<Unaligned>(
    "rows that begin anywhere: 16 bytes per access to global memory, elements to shared");

}  // namespace smem::transpose::inline SMEM_BUILD
