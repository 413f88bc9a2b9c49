// The tile of `unaligned`: a function of the problem and the device alone.
#include "transpose/unaligned_tile.h"

#include <algorithm>
#include <bit>

#include "transpose/tiling.h"

namespace smem::transpose {

namespace {

/// What a block reads and writes, each: five blocks fit on an SM, 160 KiB on their way.
constexpr int64_t TILE_BYTES = 32 * 1024;
/// Of a flat input, but of bytes, a block reads half as much.
constexpr int64_t flat_rows_bytes(int64_t element_bytes) {
  return element_bytes == 1 ? TILE_BYTES : TILE_BYTES / 2;
}
/// What a small matrix is cut into: 8 lanes write 128 bytes in a row.
constexpr int64_t LEAST_RUN_BYTES = 128;
/// Rows of the input, and of the output, up to this long are taken as one flat run. Tiles of so few
/// rows leave threads idle, and so do longer columns, of which each thread takes one vector.
constexpr int64_t FLAT_BYTES_IN = 128;
constexpr int64_t flat_bytes_out(int64_t element_bytes) {
  return element_bytes == 16 ? 256 : element_bytes == 8 ? 512 : 384;
}

int64_t round_up(int64_t count, int64_t step) { return ceil_div(count, step) * step; }

int log2_at_least(int64_t count) {
  return std::bit_width(static_cast<uint64_t>(std::max<int64_t>(count, 1) - 1));
}
int log2_at_most(int64_t count) {
  return std::bit_width(static_cast<uint64_t>(std::max<int64_t>(count, 1))) - 1;
}

/// Vectors that a run of so many elements, beginning anywhere, lies in.
int64_t vectors_of(int64_t elements, int64_t width) { return (elements + width - 2) / width + 1; }

/// A run begins anywhere in a line of 8 vectors.
void lay_flat(GatherTile& tile, int64_t elements, int64_t width) {
  tile.slots = 1;
  tile.stacks = FastDivmod(1);
  tile.pitch = FastDivmod(7 + vectors_of(elements, width));
}

/// A row begins anywhere in a sector; odd steps put rows into different banks.
void lay_rows(GatherTile& tile, int64_t rows, int64_t stacks, int64_t cols, int64_t width) {
  tile.slots = static_cast<int>(rows);
  tile.stacks = FastDivmod(stacks);
  tile.pitch = FastDivmod((1 + vectors_of(cols, width)) | 1);
}

/// The problem with what its tiles depend on.
struct Cut {
  const Problem& p;
  int64_t bytes, width, multiprocessors;
  int64_t busy;          ///< blocks that keep the device busy
  int64_t few;           ///< blocks with a tile that keep it busy enough: they have many threads
  int64_t shared_bytes;  ///< of a block, at most
  bool dense_in, dense_out;

  Cut(const Problem& problem, const Device& device)
      : p(problem),
        bytes(static_cast<int64_t>(p.element_bytes)),
        width(16 / bytes),
        multiprocessors(device.sm_count),
        busy(2 * multiprocessors),
        few(3 * multiprocessors / 8),
        shared_bytes(static_cast<int64_t>(device.shared_bytes)),
        dense_in(p.in_col_stride == 1 && p.in_row_stride == p.cols),
        dense_out(p.out_row_stride == 1 && p.out_col_stride == p.rows) {}

  /// Whether whole matrices are to be turned by a block: small ones, one after the other on both
  /// sides.
  bool into_members() const {
    const int64_t member = p.rows * p.cols;
    return dense_in && dense_out && p.batch.rank == 1 && p.batch.stride[IN][0] == member &&
           p.batch.stride[OUT][0] == member && member * bytes <= TILE_BYTES &&
           p.batch.size[0] >= busy;
  }
  GatherTile members() const {
    GatherTile tile{};
    tile.flat_in = tile.flat_out = true;
    tile.log2_rows = log2_at_least(p.rows);
    tile.log2_cols = log2_at_least(p.cols);
    const int64_t most = TILE_BYTES / (p.rows * p.cols * bytes);
    tile.members = static_cast<int>(std::min(most, p.batch.size[0] / busy));
    lay_flat(tile, p.rows * p.cols * tile.members, width);
    return tile;
  }

  bool into_columns() const { return dense_out && p.rows * bytes <= flat_bytes_out(bytes); }
  GatherTile columns() const {
    GatherTile tile{};
    tile.members = 1;
    tile.flat_out = true;
    tile.log2_rows = log2_at_least(p.rows);
    tile.log2_cols = std::min(log2_at_most(TILE_BYTES / (p.rows * bytes)), log2_at_least(p.cols));
    for (; tile.blocks(p) < busy && bytes << tile.log2_cols > LEAST_RUN_BYTES;) --tile.log2_cols;
    const int64_t stacks = ceil_div(p.rows, width);
    lay_rows(tile, stacks == 1 ? p.rows : stacks * width, stacks, int64_t{1} << tile.log2_cols,
             width);
    return tile;
  }

  bool into_rows() const { return dense_in && p.cols * bytes <= FLAT_BYTES_IN; }
  GatherTile rows() const {
    GatherTile tile{};
    tile.members = 1;
    tile.flat_in = true;
    tile.rotate = p.cols % 2 == 0;
    tile.before = vectors_before();
    const int64_t more = tile.before * width;
    tile.log2_cols = log2_at_least(p.cols);
    tile.log2_rows = std::min(std::max(log2_at_least(p.rows + more), log2_at_least(width)),
                              log2_at_most(flat_rows_bytes(bytes) / (p.cols * bytes)));
    // These are over so soon that it pays to have more of them.
    for (; tile.blocks(p) < 2 * busy && bytes << tile.log2_rows > LEAST_RUN_BYTES;)
      --tile.log2_rows;
    lay_flat(tile, ((int64_t{1} << tile.log2_rows) + more) * p.cols, width);
    return tile;
  }

  GatherTile any() const {
    GatherTile tile{};
    tile.members = 1;
    tile.before = vectors_before();
    tile.threads = LARGE_TILE_THREADS;
    cut(tile, large_tile_rows(p.element_bytes), tile_cols(p.element_bytes, tile.threads));
    if (!fits(tile) || !is_large(tile)) {
      if (bytes < 16) tile.threads = TILE_THREADS;
      cut(tile, CHUNK_ROWS, tile_cols(p.element_bytes, tile.threads));
    }
    for (; !fits(tile) || tile.blocks(p) < few;) {
      if (tile.cols * bytes > LEAST_RUN_BYTES) {
        cut(tile, tile.rows, tile.cols / 2);
      } else if (tile.rows * bytes > LEAST_RUN_BYTES) {
        cut(tile, round_up(tile.rows / 2, SECTOR_VECTORS * width), tile.cols);
      } else {
        break;
      }
    }
    return tile.blocks(p) < busy ? evened(tile) : tile;
  }

  /// A few tiles, lower and narrower where that leaves the busiest SM less to do: three
  /// halves as many as there are multiprocessors would take as long as twice as many.
  GatherTile evened(const GatherTile& tile) const {
    GatherTile best = tile;
    const int64_t step = SECTOR_VECTORS * width;
    const int64_t least = std::max<int64_t>(tile.rows / 2, LEAST_RUN_BYTES / bytes);
    for (int64_t rows = tile.rows; rows >= least; rows -= step) {
      GatherTile other = tile;
      cut(other, rows, tile_cols(p.element_bytes, tile.threads));
      const int64_t each = ceil_div(other.blocks(p), multiprocessors);
      const int64_t across = each * multiprocessors / (other.down * p.batch.count());
      cut(other, rows, std::max(ceil_div(p.cols, across), LEAST_RUN_BYTES / bytes));
      if (16 * busiest(other) < 15 * busiest(best)) best = other;
    }
    return best;
  }
  /// What the busiest SM brings: rows that two tiles read count twice, and so does a
  /// sector of each row.
  int64_t busiest(const GatherTile& tile) const {
    return ceil_div(tile.blocks(p), multiprocessors) * (tile.rows + tile.before * width) *
           (tile.cols + SECTOR_VECTORS * width);
  }

  /// Whether large tiles pay. Small elements: where fewer rows are read twice. Others have few of
  /// those, and large tiles are for matrices that have many.
  bool is_large(const GatherTile& tile) const {
    if (bytes > 2) return tile.blocks(p) >= 8 * busy;
    const int64_t more = tile.before * width, all = p.rows + more;
    const auto read = [&](int64_t rows) { return ceil_div(all, rows) * (rows + more); };
    return tile.blocks(p) >= few && read(tile.rows) <= read(CHUNK_ROWS);
  }
  /// Tiles of nearly equal sizes, at most so large.
  void cut(GatherTile& tile, int64_t rows, int64_t cols) const {
    const int64_t more = tile.before * width, all = p.rows + more;
    tile.rows = static_cast<int>(std::min(rows, round_up(all, SECTOR_VECTORS * width)));
    tile.down = ceil_div(all, tile.rows);
    tile.across = ceil_div(p.cols, cols);
    tile.cols = static_cast<int>(ceil_div(p.cols, tile.across));
    lay_rows(tile, tile.rows + more, (tile.rows + more) / width, tile.cols, width);
  }
  /// Whether the blocks that the threads of an SM allow have room there.
  bool fits(const GatherTile& tile) const {
    return static_cast<int64_t>(tile.shared_bytes()) * TILES_THREADS / tile.threads <= shared_bytes;
  }

  /// A column's part of a tile may begin so much before the tile: at a sector, wherever columns
  /// begin. Halves of sectors cost more than rows read twice.
  int vectors_before() const {
    constexpr int64_t SECTOR = 32;
    bool sectors = reinterpret_cast<uintptr_t>(p.out) % SECTOR == 0 && p.out_row_stride == 1 &&
                   p.out_col_stride * bytes % SECTOR == 0;
    for (int d = 0; d < p.batch.rank; ++d) sectors &= p.batch.stride[OUT][d] * bytes % SECTOR == 0;
    return sectors || p.out_row_stride != 1 || width == 1 ? 0 : SECTOR_VECTORS;
  }
};

}  // namespace

int64_t GatherTile::blocks(const Problem& problem) const {
  const int64_t width = 16 / static_cast<int64_t>(problem.element_bytes);
  if (rows != 0) return down * across * problem.batch.count();
  return ceil_div(problem.rows + before * width, int64_t{1} << log2_rows) *
         ceil_div(problem.cols, int64_t{1} << log2_cols) * ceil_div(problem.batch.count(), members);
}

GatherTile gather_tile(const Problem& problem, const Device& device) {
  const Cut cut(problem, device);
  GatherTile tile = cut.into_members()   ? cut.members()
                    : cut.into_columns() ? cut.columns()
                    : cut.into_rows()    ? cut.rows()
                                         : cut.any();
  if (tile.flat_out) {
    // A block that has a part of a matrix only never comes to its end.
    tile.turned_rows = FastDivmod(problem.rows);
    tile.turned_elements = FastDivmod(std::min<int64_t>(problem.rows * problem.cols, 1 << 30));
    if (!tile.flat_in) {
      const int64_t cols = std::min(problem.cols, int64_t{1} << tile.log2_cols);
      const int64_t all = ceil_div(cols, cut.width);
      const int64_t parts = GATHER_THREADS / problem.rows;
      tile.repeats = static_cast<int>(ceil_div(all, std::clamp<int64_t>(parts, 1, all)));
      tile.parts = static_cast<int>(ceil_div(all, tile.repeats));
    }
  }
  return tile;
}

Span readable(const Problem& p) {
  int64_t last = (p.rows - 1) * p.in_row_stride + (p.cols - 1) * p.in_col_stride;
  for (int d = 0; d < p.batch.rank; ++d) last += (p.batch.size[d] - 1) * p.batch.stride[IN][d];
  const auto* const begin = static_cast<const char*>(p.in);
  return {begin, begin + (last + 1) * static_cast<int64_t>(p.element_bytes)};
}

}  // namespace smem::transpose
