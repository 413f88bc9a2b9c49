// Tensor maps: descriptions of a matrix, or a batch of them, in global memory for TMA.
#pragma once

#include "device/dtype.h"
#include "device/tensor_map.h"

namespace smem::gemm::sm90::inline SMEM_BUILD {

/// Dimension x is contiguous. The strides of the others are in elements and must be multiples of 16
/// bytes.
struct TensorShape {
  DType dtype;
  const void* data;  ///< aligned to 16 bytes
  int64_t x, y, z;
  int64_t y_stride, z_stride;
  bool as_tf32 = false;  ///< float32 elements are rounded to tf32 as they are loaded
};

/// A map with boxes of box_x by box_y elements. Rows of 128 bytes are swizzled in shared memory.
/// Shorter rows follow each other without gaps, unless `row_pitch` is 64 or 128: then they are
/// swizzled, too, and so many bytes apart.
CUtensorMap make_tensor_map(const TensorShape& shape, int box_x, int box_y, int row_pitch = 0);

}  // namespace smem::gemm::sm90::inline SMEM_BUILD
