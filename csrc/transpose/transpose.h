// The transpose problem, and the table of kernels that solve it.
//
//   out(col, row) = in(row, col)     for every matrix of a batch
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/kernel_table.h"
#include "device/launch.h"
#include "device/offset_calculator.h"

namespace smem::transpose {

enum Tensor : int { IN, OUT, TENSORS };

/// A batch of rows x cols matrices. Strides are in elements and belong to the indices of `in`:
/// `in_row_stride` is the step in `in` from one row to the next, `out_row_stride` the step in `out`
/// for the same pair of elements (1 where out is dense).
struct Problem {
  size_t element_bytes;  ///< 1, 2, 4, 8 or 16
  int64_t rows, cols;
  const void* in;
  int64_t in_row_stride, in_col_stride;
  void* out;
  int64_t out_row_stride, out_col_stride;
  OffsetCalculator<TENSORS> batch;

  /// Whether the rows index has the smallest stride in both tensors. Then no data is transposed:
  /// each column of `in` is one contiguous (or densest) segment in both, and is copied as such.
  bool is_strided_copy() const {
    return cols == 1 || in_col_stride == 0 || (in_row_stride != 0 && in_row_stride < in_col_stride);
  }
};

/// A row of the kernel table.
struct Kernel {
  const char* name;
  const char* summary;
  const char* requires_;
  void (*launch)(const Problem&, const Device&);
  /// The kernel's function for an element size, for cudaFuncGetAttributes.
  const void* (*function)(size_t element_bytes);
  const char* (*symbol)(size_t element_bytes);  ///< symbol_of that function (device/symbol.h)
};

using KernelTable = smem::KernelTable<Kernel>;

/// The tables of the two builds hold the same rows, in the order of the ladder. A build without
/// CUDA has no device table.
KernelTable device_kernels();
KernelTable host_kernels();
KernelTable kernels(Build build);

}  // namespace smem::transpose
