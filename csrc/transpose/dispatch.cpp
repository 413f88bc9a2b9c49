// Which kernel `auto` runs: a pure function of the problem and the device.
#include "transpose/dispatch.h"

#include <algorithm>

#include "transpose/copy_order.h"
#include "transpose/tiling.h"
#include "transpose/unaligned_tile.h"

namespace smem::transpose {

namespace {

/// Up to this size a transpose ends before several vectors per thread pay off. 1 MiB of 1-byte
/// elements takes 5.7 us by `swizzled`, which has one vector per thread, and 6.9 us by
/// `vectorized`; if rows begin anywhere, 7.5 us by `padded`, which moves single elements, and 11.2
/// us by `unaligned` (H200).
constexpr int64_t SMALL_BYTES = 2 << 20;
/// The bytes of a row and of a column in a tile of `swizzled`.
constexpr int64_t SWIZZLED_SIDE_BYTES = 128;
/// The side of a tile of `padded`, in elements: TILE of ladder/tile32.h.
constexpr int64_t PADDED_SIDE = 32;

int64_t total_bytes(const Problem& problem) {
  return problem.rows * problem.cols * problem.batch.count() *
         static_cast<int64_t>(problem.element_bytes);
}

bool is_small(const Problem& problem) {
  const auto bytes = static_cast<int64_t>(problem.element_bytes);
  return total_bytes(problem) <= SMALL_BYTES &&
         std::min(problem.rows, problem.cols) * bytes >= SWIZZLED_SIDE_BYTES;
}

std::string tile_text(int64_t rows, int64_t cols) {
  return "tiles of " + std::to_string(rows) + "x" + std::to_string(cols);
}

std::string tile_text(const UnalignedTile& tile) {
  if (tile.matrices_per_block > 1) {
    return std::to_string(tile.matrices_per_block) + " matrices per block";
  }
  if (tile.rows != 0) return tile_text(tile.rows, tile.cols);
  return tile_text(int64_t{1} << tile.log2_rows, int64_t{1} << tile.log2_cols);
}

Choice make_choice(const char* kernel, const std::string& reason) {
  return {.kernel = index_of(host_kernels(), kernel), .reason = reason};
}

Choice copy_of_small_matrices(const Problem& problem) {
  return make_choice("strided_copy", "matrices of " + std::to_string(problem.rows) + "x" +
                                         std::to_string(problem.cols) + " are too small for tiles");
}

/// Times, as bytes that DRAM moves meanwhile: a block of a kernel with tiles takes at least as long
/// as BLOCK_BYTES, if it is not one of the first of its SM; what is read several times costs
/// L2_SHARE where L2 may hold the tensor; and a warp's access to a line takes LINE_BYTES. Fitted on
/// an H100: of 126 random problems strided_copy is chosen for 14, and faster for all of these.
constexpr double BLOCK_BYTES = 24 * 1024, L2_BYTES = 32 << 20, L2_SHARE = 0.5, LINE_BYTES = 5;
constexpr int64_t FIRST_BLOCKS_PER_SM = 4, SECTOR = 32, LINE = 128, WARP = 32;

/// The time that strided_copy takes, in these bytes.
double copy_time(const Problem& problem) {
  const CopyOrder order(problem);
  const auto bytes = static_cast<int64_t>(problem.element_bytes);
  const auto total = static_cast<double>(total_bytes(problem));
  const double elements = total / static_cast<double>(bytes);
  const auto of_block = order.segment(
      int64_t{STRIDED_COPY_THREADS} * strided_copy_elements(problem.element_bytes), SECTOR / bytes);
  const double read = static_cast<double>(of_block.spanned * bytes + SECTOR - bytes) /
                      static_cast<double>(of_block.needed * bytes);
  const double again = std::max(read - 1, 0.0) * (total <= L2_BYTES ? L2_SHARE : 1);
  const auto of_warp = order.segment(WARP, LINE / bytes);
  const double lines =
      ceil_div(of_warp.spanned * bytes, LINE) / static_cast<double>(of_warp.needed);
  return total * (2 + again) + elements * std::min(lines, 1.0) * LINE_BYTES;
}

/// Whether strided_copy is faster than a kernel with `blocks` tiles: rows and columns may be so
/// short that starting the blocks of small tiles costs more than reading sectors several times.
bool prefer_strided_copy(const Problem& problem, const Device& device, int64_t blocks) {
  const auto bytes = static_cast<double>(total_bytes(problem));
  const int64_t later = std::max<int64_t>(0, blocks - FIRST_BLOCKS_PER_SM * device.sm_count);
  return copy_time(problem) < 0.75 * (2 * bytes + static_cast<double>(later) * BLOCK_BYTES);
}

}  // namespace

Choice choose(const Problem& problem, const Device& device) {
  const size_t bytes = problem.element_bytes;
  if (problem.is_strided_copy()) {
    const std::string segment = std::to_string(problem.rows * static_cast<int64_t>(bytes));
    return make_choice("strided_copy", "segments of " + segment + " bytes stay contiguous");
  }
  const AccessPattern read = read_access(problem), write = write_access(problem);
  if (read == STRIDED || write == STRIDED) {
    const int64_t blocks = ceil_div(problem.rows, PADDED_SIDE) *
                           ceil_div(problem.cols, PADDED_SIDE) * problem.batch.count();
    if (prefer_strided_copy(problem, device, blocks)) return copy_of_small_matrices(problem);
    return make_choice("padded", "no 16 contiguous bytes on both sides");
  }
  const std::string size =
      ", " + std::to_string(bytes) + (bytes == 1 ? " byte" : " bytes") + " per element";
  if (read == ALIGNED && write == ALIGNED) {
    if (bytes <= 4 && is_small(problem)) {
      return make_choice("swizzled", "no more than 2 MiB" + size);
    }
    if (use_register_transpose(problem)) {
      return make_choice("vectorized", tile_text(register_transpose_tile_rows(bytes),
                                                 register_transpose_tile_cols(bytes)) +
                                           ", in registers" + size);
    }
    const VectorizedTile tile = vectorized_tile(problem, device);
    return make_choice("vectorized", tile_text(tile.rows(bytes), tile.cols(bytes)) + size);
  }
  if (bytes <= 2 && is_small(problem)) {
    return make_choice("padded", "no more than 2 MiB, in rows that begin anywhere" + size);
  }
  const UnalignedTile tile = unaligned_tile(problem, device);
  if (prefer_strided_copy(problem, device, tile.blocks(problem)))
    return copy_of_small_matrices(problem);
  std::string reason = tile_text(tile) + size;
  if (read == UNALIGNED) reason += "; rows of x begin off multiples of 16 bytes";
  if (write == UNALIGNED) reason += "; rows of the result begin off multiples of 16 bytes";
  return make_choice("unaligned", reason);
}

}  // namespace smem::transpose
