// Which kernel `auto` runs: a pure function of the problem and the device.
#include "transpose/dispatch.h"

#include <algorithm>

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

bool is_small(const Problem& problem) {
  const auto bytes = static_cast<int64_t>(problem.element_bytes);
  return problem.rows * problem.cols * problem.batch.count() * bytes <= SMALL_BYTES &&
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

}  // namespace

Choice choose(const Problem& problem, const Device& device) {
  const size_t bytes = problem.element_bytes;
  if (problem.is_strided_copy()) {
    const std::string segment = std::to_string(problem.rows * static_cast<int64_t>(bytes));
    return make_choice("strided_copy", "segments of " + segment + " bytes stay contiguous");
  }
  const AccessPattern read = read_access(problem), write = write_access(problem);
  if (read == STRIDED || write == STRIDED) {
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
  std::string reason = tile_text(unaligned_tile(problem, device)) + size;
  if (read == UNALIGNED) reason += "; rows of x begin off multiples of 16 bytes";
  if (write == UNALIGNED) reason += "; rows of the result begin off multiples of 16 bytes";
  return make_choice("unaligned", reason);
}

}  // namespace smem::transpose
