// unaligned: for matrices whose rows begin anywhere. Whole vectors outside, elements inside.
//
// Over vectorized: neither the rows that are read nor those that are written need begin at a
// multiple of 16 bytes. A block brings the aligned vectors that its rows lie in, each once, to
// shared memory as they are (cp.async: no register, no wait, 32 or 64 KiB on their way). Then each
// thread takes an aligned vector of the output, collects its W elements one by one, and writes it.
// So each vector outside is moved once, by one thread, wherever the rows begin; the price is an
// access to shared memory an element, which even at 1 byte takes a third of the time of the bytes.
//
// A column's vectors begin n elements before a tile's first row, another n for each column. So
// that each has one writer, a tile begins earlier in each column by its n, for which a block reads
// up to a sector's worth of rows more; they come from L2.
//
// Free of conflicts: the rows with one remainder modulo W begin equally far past a vector, and
// lie an odd number of vectors apart. At each step the lanes of a warp read rows of one such class:
// 8 that follow each other, in 8 groups of 4 banks, and columns in 4 words that follow each other.
// What a lane so collects in the order of classes, it rotates by n at the end.
//
// A large tile is gathered by chunks of rows, while those below are on their way. A thread takes
// the same columns of each: what it must know of them, it finds out once.
//
// Short rows that follow each other without gaps (1M x 8) are one run, which is read, or written,
// as if it were one row.
#include "transpose/unaligned_flat.h"
#include "transpose/unaligned_load.h"
#include "transpose/tiling.h"

namespace smem::transpose {
inline namespace SMEM_BUILD {

/// Lanes that write vectors of one column: 128 bytes.
constexpr int LOG2_LANES_DOWN = 3;
/// Columns that a warp has at once.
constexpr int LOG2_LANES_ACROSS = 2;

/// Columns that lie in one word: lanes have such in different words, and so in different banks.
template <typename T>
constexpr int WORD_COLUMNS = sizeof(T) < 4 ? 4 / sizeof(T) : 1;

/// Columns so many apart begin equally far past a sector: what a thread knows of one, it knows of
/// all.
template <typename T>
constexpr int PERIOD = VECTOR_WIDTH<T> == 1 ? 4 : SECTOR_VECTORS * VECTOR_WIDTH<T>;

/// What a thread writes of a chunk: the vector that stands `down` vectors below the chunk's first
/// row, in columns from `across` to `end` that lie a period apart.
template <typename T, int THREADS>
struct Share {
  static constexpr int DOWN = CHUNK_ROWS / VECTOR_WIDTH<T>;
  /// Threads that take columns of a period, and parts that the columns have.
  static constexpr int UNITS = DOWN * PERIOD<T>, PARTS = THREADS / UNITS;
  static constexpr int COLUMNS = (tile_cols(sizeof(T), THREADS) + PARTS * PERIOD<T> - 1) /
                                 (PARTS * PERIOD<T>);  ///< of a thread, at most

  int down, across, end;

  /// Lanes: 8 vectors of a column, columns of 4 words; then further vectors, then the other columns
  /// of a period.
  __device__ __forceinline__ explicit Share(int width) {
    Bits bits{static_cast<int>(threadIdx.x)};
    down = bits.take(LOG2_LANES_DOWN);
    across = bits.take(LOG2_LANES_ACROSS) * WORD_COLUMNS<T>;
    down |= bits.take(log2_of(DOWN) - LOG2_LANES_DOWN) << LOG2_LANES_DOWN;
    across += bits.take(log2_of(WORD_COLUMNS<T>));
    across += bits.take(log2_of(PERIOD<T> / WORD_COLUMNS<T>) - LOG2_LANES_ACROSS)
              << (LOG2_LANES_ACROSS + log2_of(WORD_COLUMNS<T>));
    const int columns = (width + PARTS * PERIOD<T> - 1) / (PARTS * PERIOD<T>)*PERIOD<T>;
    across += bits.left * columns;
    end = (bits.left + 1) * columns < width ? (bits.left + 1) * columns : width;
  }
};

template <typename T, int THREADS>
__global__ void __launch_bounds__(THREADS, TILES_THREADS / THREADS)
    gather_kernel(const __grid_constant__ GatherProblem arguments) {
  constexpr int W = VECTOR_WIDTH<T>, DOWN = Share<T, THREADS>::DOWN;
  const Problem& problem = arguments.problem;
  const GatherTile& tile = arguments.tile;
  T* const shared = dynamic_shared<T>();
  const Block<T> block(problem, Tiles{tile.rows, tile.cols, static_cast<unsigned>(tile.down),
                                      static_cast<unsigned>(tile.across)});
  const int64_t first_row = block.row0 - tile.before * W;
  const int64_t cols_left = problem.cols - block.col0;
  const int width = cols_left < tile.cols ? static_cast<int>(cols_left) : tile.cols;

  Slots<T> slots(tile);
  if (problem.in_col_stride == 1 || problem.cols == 1) {
    slots.begin_like(block.in, first_row, block.col0);
    TileLoad<T, THREADS> rows(shared, block.in, tile, slots, arguments.readable, first_row,
                              block.col0, width);
    rows.start(tile.before * W + CHUNK_ROWS, arguments.readable);
    rows.start(tile.slots, arguments.readable);
  } else {
    load_elements(shared, block.in, tile, slots, first_row, block.col0, width);
  }

  const bool vectors_out = problem.out_row_stride == 1 || problem.rows == 1;
  const Share<T, THREADS> share(width);
  T* const column = block.out.data + (block.col0 + share.across) * block.out.row_stride;
  const int64_t period_step = PERIOD<T> * block.out.row_stride;
  // The column's vectors begin so many elements before the tile's.
  const int before =
      tile.before == 0
          ? 0
          : static_cast<int>(reinterpret_cast<uintptr_t>(column) / sizeof(T) % PERIOD<T>);
  const int turn = before % W;
  // Rows are W * stack + class; classes from `late` on are those of the stack before.
  const int stack = share.down + tile.before - before / W, late = W - turn;
  const T* places[W] = {};
#pragma unroll
  for (int c = 0; c < W; ++c) {
    places[c] = shared + (slots.place(c < late ? stack : stack - 1, c) + share.across);
  }

#pragma unroll 1
  for (int chunk = 0; chunk * CHUNK_ROWS < tile.rows; ++chunk) {
    if (chunk == 0) {
      cp_async_wait<1>();
    } else {
      cp_async_wait_all();
    }
    __syncthreads();
    const int down = chunk * DOWN + share.down;
    const int64_t first = block.row0 + down * W - before;
    if (down * W >= tile.rows || first >= problem.rows || first + W <= 0) {
      // Nothing of this column.
    } else if (vectors_out && first >= 0 && first + W <= problem.rows) {
      T* to = column + first;
#pragma unroll
      for (int i = 0; i < Share<T, THREADS>::COLUMNS; ++i) {
        if (share.across + i * PERIOD<T> >= share.end) break;
        T elements[W];
#pragma unroll
        for (int c = 0; c < W; ++c) elements[c] = load(places[c] + i * PERIOD<T>);
        store_global_vector<4>(reinterpret_cast<uint32_t*>(to),
                               rotated<T>(packed<T, W>(elements), turn));
        to += period_step;
      }
    } else {
      // Where a column begins or ends, lanes look at rows of one class as well: those that have it.
      const int begin = first < 0 ? static_cast<int>(-first) : 0;
      const int end = first + W > problem.rows ? static_cast<int>(problem.rows - first) : W;
      const unsigned inside = (1u << end) - (1u << begin);  // a bit a row
      const unsigned inside_by_class = inside >> turn | inside << (W - turn);
      T* to = column + first * block.out.col_stride;
#pragma unroll 1
      for (int col = 0; share.across + col < share.end; col += PERIOD<T>) {
        T elements[W];
#pragma unroll
        for (int c = 0; c < W; ++c) {
          elements[c] = inside_by_class >> c & 1 ? load(places[c] + col) : T{};
        }
        store_part(to, block.out.col_stride, rotated<T>(packed<T, W>(elements), turn), inside);
        to += period_step;
      }
    }
#pragma unroll
    for (int c = 0; c < W; ++c) places[c] += DOWN * slots.pitch;
  }
}

struct Gathered {
  static constexpr const char* NAME = "unaligned";
  template <typename T>
  static constexpr auto kernel() {
    return gather_kernel<T, LARGE_TILE_THREADS>;
  }
  template <typename T>
  static void run(const Problem& problem, const Device& device) {
    const GatherTile tile = gather_tile(problem, device);
    const auto start = [&](auto kernel, unsigned threads = GATHER_THREADS) {
      const Geometry geometry{tile.blocks(problem), {threads}, tile.shared_bytes()};
      launch(NAME, kernel, geometry, device, GatherProblem{problem, tile, readable(problem)});
    };
    if (tile.flat_out) return start(gather_runs_kernel<T>);
    if (tile.flat_in) {
      return start(tile.rotate ? gather_columns_kernel<T, true> : gather_columns_kernel<T, false>);
    }
    if constexpr (sizeof(T) < 16) {
      if (tile.threads == TILE_THREADS) return start(gather_kernel<T, TILE_THREADS>, TILE_THREADS);
    }
    start(kernel<T>(), LARGE_TILE_THREADS);
  }
};

const Kernel unaligned =
    make_kernel<Gathered>("16 bytes an access outside wherever rows begin, elements inside");

}  // namespace SMEM_BUILD
}  // namespace smem::transpose
