// The tile of `gathered`: a function of the problem and the device alone.
#include "transpose/gather_tile.h"

#include <algorithm>
#include <bit>

#include "transpose/tiling.h"

namespace smem::transpose {

namespace {

/// What a block reads and writes, each: five blocks fit on a multiprocessor, 160 KiB on their way.
constexpr int64_t TILE_BYTES = 32 * 1024;
/// A tile's runs, if the matrix has them: shorter ones waste more of the sectors at their ends.
constexpr int64_t RUN_BYTES_IN = 256;
/// What a tile must have for 8 lanes to write 128 bytes in a row, and to be worth a block.
constexpr int64_t LEAST_RUN_BYTES = 128;
/// Lines up to this long are taken as one flat run.
constexpr int64_t FLAT_BYTES = 128;
/// Output begins and ends at sectors of 32 bytes.
constexpr int SECTOR_VECTORS = 2;

int log2_at_least(int64_t count) {
  return std::bit_width(static_cast<uint64_t>(std::max<int64_t>(count, 1) - 1));
}
int log2_at_most(int64_t count) {
  return std::bit_width(static_cast<uint64_t>(std::max<int64_t>(count, 1))) - 1;
}

/// One matrix after the other without gaps, on both sides.
bool members_follow(const Problem& p) {
  return p.batch.rank == 1 && p.batch.stride[IN][0] == p.rows * p.cols &&
         p.batch.stride[OUT][0] == p.rows * p.cols;
}

/// Vectors that a run of so many elements, beginning anywhere, lies in.
int64_t vectors_of(int64_t elements, int64_t width) { return (elements + 2 * width - 3) / width + 1; }

void lay_flat(GatherTile& tile, int64_t elements, int64_t width) {
  tile.slots = 1;
  tile.stacks = Divisor(1);
  tile.pitch = Divisor(vectors_of(elements, width));
}

void lay_rows(GatherTile& tile, int64_t rows, int64_t stacks, int64_t cols, int64_t width) {
  tile.slots = static_cast<int>(rows);
  tile.stacks = Divisor(stacks);
  tile.pitch = Divisor(vectors_of(cols, width) | 1);  // odd: rows begin in different banks
}

}  // namespace

int64_t GatherTile::blocks(const Problem& problem) const {
  const int64_t width = 16 / static_cast<int64_t>(problem.element_bytes);
  return ceil_div(problem.rows + before * width, int64_t{1} << log2_rows) *
         ceil_div(problem.cols, int64_t{1} << log2_cols) *
         ceil_div(problem.batch.count(), members);
}

GatherTile gather_tile(const Problem& p, const Device& device) {
  const auto bytes = static_cast<int64_t>(p.element_bytes), width = 16 / bytes;
  const Access write = write_access(p);
  const int64_t busy = 2 * device.multiprocessors, batch = p.batch.count();
  const bool dense_in = p.in_col_stride == 1 && p.in_row_stride == p.cols;
  const bool dense_out = p.out_row_stride == 1 && p.out_col_stride == p.rows;

  GatherTile tile{};
  tile.members = 1;
  if (dense_in && dense_out && members_follow(p) && p.rows * p.cols * bytes <= TILE_BYTES &&
      batch >= busy) {
    tile.flat_in = tile.flat_out = true;
    tile.log2_rows = log2_at_least(p.rows);
    tile.log2_cols = log2_at_least(p.cols);
    tile.members = static_cast<int>(
        std::min(TILE_BYTES / (p.rows * p.cols * bytes), batch / busy));
    lay_flat(tile, p.rows * p.cols * tile.members, width);
  } else if (dense_out && p.rows * bytes <= FLAT_BYTES) {
    tile.flat_out = true;
    tile.log2_rows = log2_at_least(p.rows);
    tile.log2_cols = std::min(log2_at_most(TILE_BYTES / (p.rows * bytes)), log2_at_least(p.cols));
    while (tile.blocks(p) < busy && bytes << tile.log2_cols > LEAST_RUN_BYTES) --tile.log2_cols;
    lay_rows(tile, p.rows, 1, int64_t{1} << tile.log2_cols, width);
  } else {
    tile.flat_in = dense_in && p.cols * bytes <= FLAT_BYTES;
    tile.before = write == SHIFTED ? SECTOR_VECTORS : 0;
    const int64_t rows = p.rows + tile.before * width;
    const int most_rows = log2_at_least(rows), most_cols = log2_at_least(p.cols);
    const int least_rows = std::min(most_rows, log2_at_least(LEAST_RUN_BYTES / bytes));
    const int least_cols = std::min(most_cols, log2_at_least(LEAST_RUN_BYTES / bytes));
    tile.log2_cols = std::min(most_cols, log2_at_least(RUN_BYTES_IN / bytes));
    const int64_t across = tile.flat_in ? p.cols * bytes : bytes << tile.log2_cols;
    // A row in shared memory has up to 32 bytes more, which count where rows are short.
    tile.log2_rows =
        std::min(most_rows, log2_at_most(TILE_BYTES / (across < LEAST_RUN_BYTES && !tile.flat_in
                                                           ? across + 32
                                                           : across)));
    if (!tile.flat_in) {
      const int more = log2_at_most(TILE_BYTES / bytes) - tile.log2_rows;
      if (tile.log2_rows == most_rows) tile.log2_cols = std::min(most_cols, more);
    }
    while (tile.blocks(p) < busy) {
      if (tile.log2_rows >= tile.log2_cols && tile.log2_rows > least_rows) {
        --tile.log2_rows;
      } else if (!tile.flat_in && tile.log2_cols > least_cols) {
        --tile.log2_cols;
      } else if (tile.log2_rows > least_rows) {
        --tile.log2_rows;
      } else {
        break;
      }
    }
    tile.log2_rows = std::max(tile.log2_rows, log2_of(static_cast<int>(width)));
    const int64_t high = (int64_t{1} << tile.log2_rows) + tile.before * width;
    if (tile.flat_in) {
      // Rows W apart begin in different banks where a row is an odd number of elements.
      tile.rotate = p.cols % 2 == 0;
      lay_flat(tile, high * p.cols, width);
    } else {
      lay_rows(tile, high, high / width, int64_t{1} << tile.log2_cols, width);
    }
  }
  if (tile.flat_out) {
    tile.turned_rows = Divisor(p.rows);
    tile.turned_elements = Divisor(std::min<int64_t>(p.rows * p.cols, 1 << 30));
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
