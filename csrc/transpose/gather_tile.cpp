// The tile of `gathered`: a function of the problem and the device alone.
#include "transpose/gather_tile.h"

#include <algorithm>
#include <bit>

#include "transpose/tiling.h"

namespace smem::transpose {

namespace {

/// What a block reads and writes, each: five blocks fit on a multiprocessor, 160 KiB on their way.
constexpr int64_t TILE_BYTES = 32 * 1024;
/// The columns of a tile, if the matrix has them: as near to a square in bytes as 32 KiB allow,
/// since where runs begin anywhere they cost up to a sector more at their ends.
constexpr int64_t tile_cols(int64_t element_bytes) {
  return element_bytes == 1 ? 256 : element_bytes <= 4 ? 128 : 64;
}
/// What a small matrix is cut into: 8 lanes write 128 bytes in a row.
constexpr int64_t LEAST_RUN_BYTES = 128;
/// Rows of the input, and of the output, up to this long are taken as one flat run.
constexpr int64_t FLAT_BYTES_IN = 128, FLAT_BYTES_OUT = 256;

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
  tile.stacks = Divisor(1);
  tile.pitch = Divisor(7 + vectors_of(elements, width));
}

/// A row begins anywhere in a sector; odd steps put rows into different banks.
void lay_rows(GatherTile& tile, int64_t rows, int64_t stacks, int64_t cols, int64_t width) {
  tile.slots = static_cast<int>(rows);
  tile.stacks = Divisor(stacks);
  tile.pitch = Divisor((1 + vectors_of(cols, width)) | 1);
}

/// The problem with what its tiles depend on.
struct Cut {
  const Problem& p;
  int64_t bytes, width, busy;  ///< `busy`: blocks that keep the device busy
  bool dense_in, dense_out;

  Cut(const Problem& problem, const Device& device)
      : p(problem),
        bytes(static_cast<int64_t>(p.element_bytes)),
        width(16 / bytes),
        busy(2 * device.multiprocessors),
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

  bool into_columns() const { return dense_out && p.rows * bytes <= FLAT_BYTES_OUT; }
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

  GatherTile any() const {
    GatherTile tile{};
    tile.members = 1;
    tile.flat_in = dense_in && p.cols * bytes <= FLAT_BYTES_IN;
    tile.before = write_access(p) == SHIFTED ? SECTOR_VECTORS : 0;
    const int64_t more = tile.before * width;
    const int most_rows = std::max(log2_at_least(p.rows + more), log2_at_least(width));
    const int most_cols = log2_at_least(p.cols);
    tile.log2_cols = std::min(most_cols, log2_at_least(tile_cols(bytes)));
    // A row in shared memory has up to 32 bytes more, which count where rows are short.
    const int64_t run = bytes << tile.log2_cols;
    const int64_t row_bytes = tile.flat_in            ? p.cols * bytes
                              : run < LEAST_RUN_BYTES ? run + 32
                                                      : run;
    tile.log2_rows = std::min(most_rows, log2_at_most(TILE_BYTES / row_bytes));
    if (!tile.flat_in && tile.log2_rows == most_rows) {
      const int64_t rows = (int64_t{1} << most_rows) + more;
      tile.log2_cols =
          std::clamp(log2_at_most(TILE_BYTES / bytes / rows), tile.log2_cols, most_cols);
    }
    shrink(tile, std::min(most_rows, log2_at_least(LEAST_RUN_BYTES / bytes)),
           std::min(most_cols, log2_at_least(LEAST_RUN_BYTES / bytes)));
    const int64_t rows = (int64_t{1} << tile.log2_rows) + more;
    if (tile.flat_in) {
      tile.rotate = p.cols % 2 == 0;
      lay_flat(tile, rows * p.cols, width);
    } else {
      lay_rows(tile, rows, rows / width, int64_t{1} << tile.log2_cols, width);
    }
    return tile;
  }

  /// Halves the tile, its longer side first, until there is work for all multiprocessors.
  void shrink(GatherTile& tile, int least_rows, int least_cols) const {
    for (; tile.blocks(p) < busy;) {
      const bool rows = tile.log2_rows > least_rows;
      const bool cols = !tile.flat_in && tile.log2_cols > least_cols;
      if (!rows && !cols) return;
      --(rows && (!cols || tile.log2_rows >= tile.log2_cols) ? tile.log2_rows : tile.log2_cols);
    }
  }
};

}  // namespace

int64_t GatherTile::blocks(const Problem& problem) const {
  const int64_t width = 16 / static_cast<int64_t>(problem.element_bytes);
  return ceil_div(problem.rows + before * width, int64_t{1} << log2_rows) *
         ceil_div(problem.cols, int64_t{1} << log2_cols) * ceil_div(problem.batch.count(), members);
}

GatherTile gather_tile(const Problem& problem, const Device& device) {
  const Cut cut(problem, device);
  GatherTile tile = cut.into_members()   ? cut.members()
                    : cut.into_columns() ? cut.columns()
                                         : cut.any();
  if (tile.flat_out) {
    // A block that has a part of a matrix only never comes to its end.
    tile.turned_rows = Divisor(problem.rows);
    tile.turned_elements = Divisor(std::min<int64_t>(problem.rows * problem.cols, 1 << 30));
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
