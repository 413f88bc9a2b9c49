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
/// `vectorized` (H200).
constexpr int64_t SMALL_BYTES = 2 << 20;
/// The bytes of a row and of a column in a tile of `swizzled`.
constexpr int64_t SWIZZLED_SIDE_BYTES = 128;
/// The side of a tile of `padded`, in elements: TILE of ladder/tile32.h.
constexpr int64_t PADDED_SIDE = 32;

int64_t element_count(const Problem& problem) {
  return problem.rows * problem.cols * problem.batch.count();
}

int64_t total_bytes(const Problem& problem) {
  return element_count(problem) * static_cast<int64_t>(problem.element_bytes);
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

/// "2 bytes per element"
std::string bytes_text(const Problem& problem) {
  const size_t bytes = problem.element_bytes;
  return std::to_string(bytes) + (bytes == 1 ? " byte" : " bytes") + " per element";
}

Choice make_choice(const char* kernel, const std::string& reason) {
  return {.kernel = index_of(host_kernels(), kernel), .reason = reason};
}

Choice copy_of_small_matrices(const Problem& problem) {
  return make_choice("strided_copy", "matrices of " + std::to_string(problem.rows) + "x" +
                                         std::to_string(problem.cols) +
                                         " fill too little of the tiles");
}

/// The constants of the cost model of the kernels for rows that begin anywhere. Fitted to the times
/// of all of them on 254 random problems in CUDA graphs on an H100 (bench/NOTES.md).
struct CostModel {
  double padded_start = 2.0, copy_start = 2.0, unaligned_start = 2.4;  ///< us of a launch
  double padded_block = 0.36;             ///< us of an SM, for elements of 1 and 2 bytes
  double padded_wide_block = 0.5;         ///< the same for larger ones
  double padded_bandwidth = 2.4e6;        ///< bytes/us that `padded` reads and writes at most
  double copy_traffic = 0.25e-6;          ///< us per byte of copy_traffic
  double copy_element = 1.0e-6;           ///< us per element, at least
  double unaligned_block = 0.7;           ///< us of an SM per block of `unaligned`, ...
  double flat_in_block = 0.3;             ///< ... or per block that reads one segment, and ...
  double unaligned_smem = 0.075e-3;       ///< ... per byte of its shared memory, ...
  double unaligned_wide_smem = 0.045e-3;  ///< ... for elements of more than 2 bytes
  double unaligned_min_blocks = 1.5;      ///< that an SM has to itself: the time of a block alone
};

/// What `strided_copy` moves, as bytes: what is read several times costs L2_SHARE where L2 may hold
/// the tensor; and a warp's access to a line takes LINE_BYTES.
constexpr double L2_BYTES = 32 << 20, L2_SHARE = 0.5, LINE_BYTES = 5;
constexpr int64_t SECTOR = 32, LINE = 128, WARP = 32;

double copy_traffic(const Problem& problem) {
  const CopyOrder order(problem);
  const auto bytes = static_cast<int64_t>(problem.element_bytes);
  const auto total = static_cast<double>(total_bytes(problem));
  const auto elements = static_cast<double>(element_count(problem));
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

/// The predicted times in us.
double copy_us(const Problem& problem) {
  const CostModel model;
  const auto elements = static_cast<double>(element_count(problem));
  return model.copy_start +
         std::max(model.copy_traffic * copy_traffic(problem), model.copy_element * elements);
}

double padded_us(const Problem& problem, const Device& device) {
  const CostModel model;
  const auto blocks =
      static_cast<double>(ceil_div(problem.rows, PADDED_SIDE) *
                          ceil_div(problem.cols, PADDED_SIDE) * problem.batch.count());
  const double block = problem.element_bytes <= 2 ? model.padded_block : model.padded_wide_block;
  const double traffic = 2 * static_cast<double>(total_bytes(problem)) / model.padded_bandwidth;
  return model.padded_start + std::max(block * blocks / device.sm_count, traffic);
}

double unaligned_us(const Problem& problem, const Device& device, const UnalignedTile& tile) {
  const CostModel model;
  const double per_sm = static_cast<double>(tile.blocks(problem)) / device.sm_count;
  const double smem = problem.element_bytes <= 2 ? model.unaligned_smem : model.unaligned_wide_smem;
  const bool reads_segment = tile.flat_in && !tile.flat_out;
  const double block = (reads_segment ? model.flat_in_block : model.unaligned_block) +
                       smem * static_cast<double>(tile.shared_bytes());
  return model.unaligned_start + std::max(per_sm, model.unaligned_min_blocks) * block;
}

/// For rows of which one side, or both, cannot be accessed by aligned vectors: the kernel with the
/// lowest predicted time.
Choice choose_unaligned(const Problem& problem, const Device& device, AccessPattern read,
                        AccessPattern write) {
  const double copy = copy_us(problem), padded = padded_us(problem, device);
  if (read == STRIDED || write == STRIDED) {
    if (copy <= padded) return copy_of_small_matrices(problem);
    return make_choice("padded", "no 16 contiguous bytes on both sides");
  }
  const UnalignedTile tile = unaligned_tile(problem, device);
  const double unaligned = unaligned_us(problem, device, tile);
  if (copy <= std::min(padded, unaligned)) return copy_of_small_matrices(problem);
  std::string reason = padded <= unaligned ? tile_text(PADDED_SIDE, PADDED_SIDE) : tile_text(tile);
  reason += ", " + bytes_text(problem);
  if (read == UNALIGNED) reason += "; rows of x begin off multiples of 16 bytes";
  if (write == UNALIGNED) reason += "; rows of the result begin off multiples of 16 bytes";
  return make_choice(padded <= unaligned ? "padded" : "unaligned", reason);
}

}  // namespace

Choice choose(const Problem& problem, const Device& device) {
  const size_t bytes = problem.element_bytes;
  if (problem.is_strided_copy()) {
    const std::string segment = std::to_string(problem.rows * static_cast<int64_t>(bytes));
    return make_choice("strided_copy", "segments of " + segment + " bytes stay contiguous");
  }
  const AccessPattern read = read_access(problem), write = write_access(problem);
  if (read != ALIGNED || write != ALIGNED) {
    return choose_unaligned(problem, device, read, write);
  }
  const std::string size = ", " + bytes_text(problem);
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

}  // namespace smem::transpose
