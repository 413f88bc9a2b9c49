// The split of a float32 operand into two fp16 numbers per element, hi and lo, so that tensor cores
// can multiply with float32's accuracy.
//
// An operand is seen as an mn x k matrix: A itself, or the transpose of B. In all files of the
// split a "row" is a row of this matrix, that is a row of A or a column of B. Each row has a power
// of two:
//
//   x = (hi + lo / 2^12) * 2^exponent     to a relative error below 2^-23
//
// The product of two rows is hi·hi + (hi·lo + lo·hi) / 2^12, times both powers of two. The idea is
// Ootomo and Yokota's; a power of two per row keeps the elements within fp16's narrow range.
//
// hi and lo alternate along a row every K_BLOCK elements:
//
//   | hi 0..31 | lo 0..31 | hi 32..63 | lo 32..63 | ...
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/launch.h"

namespace smem::gemm::fp16x3::split {

/// lo is the remainder that hi leaves of an element, times 2^LO_SHIFT.
constexpr int LO_SHIFT = 12;

/// Elements along K after which hi and lo alternate. A k block is 128 bytes, which is one row of a
/// swizzled TMA box and one step of the product. The last k block of a row is padded with zeros.
constexpr int K_BLOCK = 32;

/// Whether hi and lo represent a row, by the rule in scale.h.
enum SplitStatus : uint8_t {
  REPRESENTABLE,
  ONE_OUTLIER,  ///< all elements but one, which is too small and is stored separately
  FALLBACK,     ///< hi and lo cannot represent the row: float32 FMAs must compute its products
};

/// An operand to split: `batch_count` matrices of mn x k elements. Strides are in elements and may
/// have any value.
struct SplitOperand {
  const float* src;
  int64_t batch_count, mn, k;
  int64_t batch_stride, mn_stride, k_stride;

  /// With split-K, each slice of a row is split as if it were a row, with a scale of its own. The
  /// last slice may be shorter. The k slices of a matrix follow each other as matrices do.
  int64_t k_slice_length = k, k_slices = 1;

  // The results, k slice after k slice, row after row. A row has row_pitch() fp16 numbers and
  // begins at a multiple of 16 bytes; those of a FALLBACK row are zeros.
  void* hi_lo = nullptr;
  int32_t* exponent = nullptr;
  uint8_t* status = nullptr;     ///< a SplitStatus
  int64_t* outlier_k = nullptr;  ///< position of a ONE_OUTLIER row's outlier; 0 in other rows
  float* outlier = nullptr;      ///< the outlier itself; 0 in other rows
  void* minmax = nullptr;        ///< scratch memory, if SplitWorkspace has bytes for it

  constexpr int64_t padded_k() const { return round_up(k_slice_length, K_BLOCK); }
  constexpr int64_t row_pitch() const { return 2 * padded_k(); }
  constexpr int64_t total_k_slices() const { return batch_count * k_slices; }
  constexpr int64_t total_rows() const { return total_k_slices() * mn; }
};

/// The results of a split in one allocation: offsets in bytes, which are multiples of 256.
struct SplitWorkspace {
  size_t hi_lo, exponent, status, outlier_k, outlier, minmax;
  size_t bytes;         ///< in total
  size_t minmax_bytes;  ///< 0 if the split needs no scratch memory

  explicit SplitWorkspace(const SplitOperand& operand);
  /// Returns the operand with its results in the `bytes` at `memory`, which is a multiple of 256.
  SplitOperand bind(SplitOperand operand, void* memory) const;
};

/// Whether neighbours along MN are closer in memory than neighbours along K.
bool is_mn_major(const SplitOperand& operand);

/// Splits in one launch, or in two if the operand is MN-major and its K very long. The workspace
/// needs no initialisation. With `launch_with_pdl` the split may run beside the previous kernel,
/// whose results it does not need; a kernel that waits for this split has waited for that kernel
/// too.
void launch_split(const SplitOperand& operand, const Device& device, bool launch_with_pdl = false);

}  // namespace smem::gemm::fp16x3::split
