// The transpose problem and the table of kernels that solve it.
//
//   out(col, row) = in(row, col)     for every member of a batch
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/launch.h"
#include "device/loop.h"

namespace smem::transpose {

enum Tensor : int { IN, OUT, TENSORS };

/// A rows x cols matrix to turn; strides in elements. `in_row_stride` is the step in `in` from one
/// row to the next, `out_row_stride` the step in `out` that belongs to it (1 where out is dense).
struct Problem {
  size_t element_bytes;  ///< 1, 2, 4, 8 or 16
  int64_t rows, cols;
  const void* in;
  int64_t in_row_stride, in_col_stride;
  void* out;
  int64_t out_row_stride, out_col_stride;
  Loop<TENSORS> batch;
};

/// A row of the kernel table.
struct Kernel {
  const char* name;
  const char* summary;
  const char* requires_;
  void (*launch)(const Problem&, const Device&);
  const void* (*function)(size_t element_bytes);
};

struct KernelTable {
  const Kernel* const* kernels;
  int count;
};

/// The table of the CUDA build, and that of the device a problem lies on: both hold the same rows
/// in the order of the ladder. Without CUDA there are the host's kernels only.
KernelTable device_kernels();
KernelTable kernels(bool on_host);

}  // namespace smem::transpose
