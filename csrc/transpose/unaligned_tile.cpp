// The tile of `unaligned`: a pure function of the problem and the device.
#include "transpose/unaligned_tile.h"

#include <algorithm>
#include <bit>

#include "transpose/tiling.h"

namespace smem::transpose {

namespace {

/// What a flat block reads, and what it writes. Five blocks fit on an SM: 160 KiB are in flight.
constexpr int64_t FLAT_TILE_BYTES = 32 * 1024;
/// With a flat input a block reads half of that, except for 1-byte elements.
constexpr int64_t flat_input_bytes(int64_t element_bytes) {
  return element_bytes == 1 ? FLAT_TILE_BYTES : FLAT_TILE_BYTES / 2;
}
/// Tiles are not cut below this side length, which 8 lanes write as one contiguous segment.
constexpr int64_t MIN_SIDE_BYTES = 128;
/// Contiguous rows of up to this length are read (or written) as one flat segment. Tiles of so few
/// rows or columns would leave threads without work. Longer output rows than these would too,
/// because each thread of the flat kernel takes one vector of a row.
constexpr int64_t FLAT_INPUT_MAX_ROW_BYTES = 128;
constexpr int64_t flat_output_max_row_bytes(int64_t element_bytes) {
  return element_bytes == 16 ? 256 : element_bytes == 8 ? 512 : 384;
}

int log2_round_up(int64_t count) {
  return std::bit_width(static_cast<uint64_t>(std::max<int64_t>(count, 1) - 1));
}
int log2_round_down(int64_t count) {
  return std::bit_width(static_cast<uint64_t>(std::max<int64_t>(count, 1))) - 1;
}

/// The most aligned vectors of `width` elements that `elements` contiguous elements can touch.
int64_t vectors_touched(int64_t elements, int64_t width) {
  return (elements + width - 2) / width + 1;
}

/// The layout of one segment, which may begin anywhere in a line of 128 bytes, 8 vectors.
void set_flat_layout(UnalignedTile& tile, int64_t elements, int64_t width) {
  tile.smem_rows = 1;
  tile.row_groups = FastDivmod(1);
  tile.pitch_vectors = FastDivmod(7 + vectors_touched(elements, width));
}

/// The layout of rows, which may begin anywhere in a sector. An odd pitch puts the rows into
/// different banks.
void set_row_layout(UnalignedTile& tile, int64_t rows, int64_t row_groups, int64_t cols,
                    int64_t width) {
  tile.smem_rows = static_cast<int>(rows);
  tile.row_groups = FastDivmod(row_groups);
  tile.pitch_vectors = FastDivmod((1 + vectors_touched(cols, width)) | 1);
}

/// Computes the tile of a problem.
struct TilePlanner {
  const Problem& p;
  int64_t bytes, width, sm_count;
  int64_t full_blocks;   ///< two blocks per SM
  int64_t min_blocks;    ///< of tiles, whose blocks have many threads: 3/8 of a block per SM
  int64_t shared_bytes;  ///< of a block, at most
  bool dense_in, dense_out;

  TilePlanner(const Problem& problem, const Device& device)
      : p(problem),
        bytes(static_cast<int64_t>(p.element_bytes)),
        width(16 / bytes),
        sm_count(device.sm_count),
        full_blocks(2 * sm_count),
        min_blocks(3 * sm_count / 8),
        shared_bytes(static_cast<int64_t>(device.shared_bytes)),
        dense_in(p.in_col_stride == 1 && p.in_row_stride == p.cols),
        dense_out(p.out_row_stride == 1 && p.out_col_stride == p.rows) {}

  /// Whether each block transposes whole matrices: small ones that are contiguous, one after the
  /// other, on both sides.
  bool has_small_matrices() const {
    const int64_t elements = p.rows * p.cols;
    return dense_in && dense_out && p.batch.rank == 1 && p.batch.stride[IN][0] == elements &&
           p.batch.stride[OUT][0] == elements && elements * bytes <= FLAT_TILE_BYTES &&
           p.batch.size[0] >= full_blocks;
  }
  UnalignedTile small_matrices_tile() const {
    UnalignedTile tile{};
    tile.flat_in = tile.flat_out = true;
    tile.log2_rows = log2_round_up(p.rows);
    tile.log2_cols = log2_round_up(p.cols);
    const int64_t fitting = FLAT_TILE_BYTES / (p.rows * p.cols * bytes);
    tile.matrices_per_block = static_cast<int>(std::min(fitting, p.batch.size[0] / full_blocks));
    set_flat_layout(tile, p.rows * p.cols * tile.matrices_per_block, width);
    return tile;
  }

  bool has_flat_output() const {
    return dense_out && p.rows * bytes <= flat_output_max_row_bytes(bytes);
  }
  UnalignedTile flat_output_tile() const {
    UnalignedTile tile{};
    tile.matrices_per_block = 1;
    tile.flat_out = true;
    tile.log2_rows = log2_round_up(p.rows);
    tile.log2_cols =
        std::min(log2_round_down(FLAT_TILE_BYTES / (p.rows * bytes)), log2_round_up(p.cols));
    for (; tile.blocks(p) < full_blocks && bytes << tile.log2_cols > MIN_SIDE_BYTES;) {
      --tile.log2_cols;
    }
    const int64_t row_groups = ceil_div(p.rows, width);
    set_row_layout(tile, row_groups == 1 ? p.rows : row_groups * width, row_groups,
                   int64_t{1} << tile.log2_cols, width);
    return tile;
  }

  bool has_flat_input() const { return dense_in && p.cols * bytes <= FLAT_INPUT_MAX_ROW_BYTES; }
  UnalignedTile flat_input_tile() const {
    UnalignedTile tile{};
    tile.matrices_per_block = 1;
    tile.flat_in = true;
    tile.rotate_lanes = p.cols % 2 == 0;
    tile.halo_vectors = halo_vectors();
    const int64_t halo = tile.halo_vectors * width;
    tile.log2_cols = log2_round_up(p.cols);
    tile.log2_rows = std::min(std::max(log2_round_up(p.rows + halo), log2_round_up(width)),
                              log2_round_down(flat_input_bytes(bytes) / (p.cols * bytes)));
    // These blocks are short, so twice as many of them pay off.
    for (; tile.blocks(p) < 2 * full_blocks && bytes << tile.log2_rows > MIN_SIDE_BYTES;) {
      --tile.log2_rows;
    }
    set_flat_layout(tile, ((int64_t{1} << tile.log2_rows) + halo) * p.cols, width);
    return tile;
  }

  UnalignedTile general_tile() const {
    UnalignedTile tile{};
    tile.matrices_per_block = 1;
    tile.halo_vectors = halo_vectors();
    tile.threads = LARGE_TILE_THREADS;
    set_size(tile, large_tile_rows(p.element_bytes), max_tile_cols(p.element_bytes, tile.threads));
    if (!fits(tile) || !large_tile_pays(tile)) {
      if (bytes < 16) tile.threads = TILE_THREADS;
      set_size(tile, STAGE_ROWS, max_tile_cols(p.element_bytes, tile.threads));
    }
    for (; !fits(tile) || tile.blocks(p) < min_blocks;) {
      if (tile.cols * bytes > MIN_SIDE_BYTES) {
        set_size(tile, tile.rows, tile.cols / 2);
      } else if (tile.rows * bytes > MIN_SIDE_BYTES) {
        set_size(tile, round_up(tile.rows / 2, VECTORS_PER_SECTOR * width), tile.cols);
      } else {
        break;
      }
    }
    return tile.blocks(p) < full_blocks ? balanced(tile) : tile;
  }

  /// For grids of few blocks: a lower and narrower tile if it leaves less work to the busiest SM.
  /// One and a half blocks per SM would take as long as two.
  UnalignedTile balanced(const UnalignedTile& tile) const {
    UnalignedTile best = tile;
    const int64_t step = VECTORS_PER_SECTOR * width;
    const int64_t min_rows = std::max<int64_t>(tile.rows / 2, MIN_SIDE_BYTES / bytes);
    for (int64_t rows = tile.rows; rows >= min_rows; rows -= step) {
      UnalignedTile other = tile;
      set_size(other, rows, max_tile_cols(p.element_bytes, tile.threads));
      const int64_t blocks_per_sm = ceil_div(other.blocks(p), sm_count);
      const int64_t tiles_n = blocks_per_sm * sm_count / (other.tiles_m * p.batch.count());
      set_size(other, rows, std::max(ceil_div(p.cols, tiles_n), MIN_SIDE_BYTES / bytes));
      // A tile must save 1/16 of the work.
      if (16 * busiest_sm_elements(other) < 15 * busiest_sm_elements(best)) best = other;
    }
    return best;
  }
  /// The elements that the busiest SM loads, including the halo rows, which two tiles load, and one
  /// sector per row.
  int64_t busiest_sm_elements(const UnalignedTile& tile) const {
    return ceil_div(tile.blocks(p), sm_count) * (tile.rows + tile.halo_vectors * width) *
           (tile.cols + VECTORS_PER_SECTOR * width);
  }

  /// Whether large tiles pay off. For small elements they do if they read fewer rows in total.
  /// Other elements have few halo rows, and large tiles are for matrices that have many tiles.
  bool large_tile_pays(const UnalignedTile& tile) const {
    if (bytes > 2) return tile.blocks(p) >= 8 * full_blocks;
    const int64_t halo = tile.halo_vectors * width, all = p.rows + halo;
    const auto rows_read = [&](int64_t rows) { return ceil_div(all, rows) * (rows + halo); };
    return tile.blocks(p) >= min_blocks && rows_read(tile.rows) <= rows_read(STAGE_ROWS);
  }
  /// Cuts the matrix into tiles of nearly equal sizes, at most rows x cols.
  void set_size(UnalignedTile& tile, int64_t rows, int64_t cols) const {
    const int64_t halo = tile.halo_vectors * width, all = p.rows + halo;
    tile.rows = static_cast<int>(std::min(rows, round_up(all, VECTORS_PER_SECTOR * width)));
    tile.tiles_m = ceil_div(all, tile.rows);
    tile.tiles_n = ceil_div(p.cols, cols);
    tile.cols = static_cast<int>(ceil_div(p.cols, tile.tiles_n));
    set_row_layout(tile, tile.rows + halo, (tile.rows + halo) / width, tile.cols, width);
  }
  /// Whether the shared memory of an SM has room for as many blocks as its threads.
  bool fits(const UnalignedTile& tile) const {
    const int64_t blocks = THREADS_PER_SM / tile.threads;
    return static_cast<int64_t>(tile.shared_bytes()) * blocks <= shared_bytes;
  }

  /// How far above the tile the tile's part of an output column may begin: so far that it begins at
  /// a sector wherever the column begins. Writing half sectors costs more than reading the halo
  /// rows twice. No halo is needed if all columns begin at sectors.
  int halo_vectors() const {
    constexpr int64_t SECTOR_BYTES = 32;
    bool at_sectors = reinterpret_cast<uintptr_t>(p.out) % SECTOR_BYTES == 0 &&
                      p.out_row_stride == 1 && p.out_col_stride * bytes % SECTOR_BYTES == 0;
    for (int d = 0; d < p.batch.rank; ++d) {
      at_sectors &= p.batch.stride[OUT][d] * bytes % SECTOR_BYTES == 0;
    }
    return at_sectors || p.out_row_stride != 1 || width == 1 ? 0 : VECTORS_PER_SECTOR;
  }
};

}  // namespace

int64_t UnalignedTile::blocks(const Problem& problem) const {
  const int64_t width = 16 / static_cast<int64_t>(problem.element_bytes);
  if (rows != 0) return tiles_m * tiles_n * problem.batch.count();
  return ceil_div(problem.rows + halo_vectors * width, int64_t{1} << log2_rows) *
         ceil_div(problem.cols, int64_t{1} << log2_cols) *
         ceil_div(problem.batch.count(), matrices_per_block);
}

UnalignedTile unaligned_tile(const Problem& problem, const Device& device) {
  const TilePlanner planner(problem, device);
  UnalignedTile tile = planner.has_small_matrices() ? planner.small_matrices_tile()
                       : planner.has_flat_output()  ? planner.flat_output_tile()
                       : planner.has_flat_input()   ? planner.flat_input_tile()
                                                    : planner.general_tile();
  if (tile.flat_out) {
    tile.rows_divmod = FastDivmod(problem.rows);
    // A block with a part of one matrix never reaches the next matrix, so the divisor may be too
    // small for a large matrix, but not too large for FastDivmod.
    tile.matrix_divmod = FastDivmod(std::min<int64_t>(problem.rows * problem.cols, 1 << 30));
    if (!tile.flat_in) {
      const int64_t cols = std::min(problem.cols, int64_t{1} << tile.log2_cols);
      const int64_t vectors = ceil_div(cols, planner.width);  // with the same row indices
      const int64_t groups = FLAT_THREADS / problem.rows;
      tile.vectors_per_thread =
          static_cast<int>(ceil_div(vectors, std::clamp<int64_t>(groups, 1, vectors)));
      tile.thread_groups = static_cast<int>(ceil_div(vectors, tile.vectors_per_thread));
    }
  }
  return tile;
}

Span readable_span(const Problem& p) {
  int64_t last = (p.rows - 1) * p.in_row_stride + (p.cols - 1) * p.in_col_stride;
  for (int d = 0; d < p.batch.rank; ++d) last += (p.batch.size[d] - 1) * p.batch.stride[IN][d];
  const auto* const begin = static_cast<const char*>(p.in);
  return {begin, begin + (last + 1) * static_cast<int64_t>(p.element_bytes)};
}

}  // namespace smem::transpose
