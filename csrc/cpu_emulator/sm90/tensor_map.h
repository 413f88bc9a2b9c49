// CUtensorMap and the driver's function that encodes one, for the emulator. As cuda.h, of which
// this has what the kernels here use: tiled maps of at most three dimensions.
#pragma once

#include <cstdint>

namespace smem {

using cuuint32_t = uint32_t;
using cuuint64_t = uint64_t;

enum CUresult { CUDA_SUCCESS = 0, CUDA_ERROR_INVALID_VALUE = 1 };
enum CUtensorMapDataType {
  CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
  CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
  CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
  CU_TENSOR_MAP_DATA_TYPE_TFLOAT32,
};
/// The value is the number of address bits that the swizzle changes.
enum CUtensorMapSwizzle {
  CU_TENSOR_MAP_SWIZZLE_NONE,
  CU_TENSOR_MAP_SWIZZLE_32B,
  CU_TENSOR_MAP_SWIZZLE_64B,
  CU_TENSOR_MAP_SWIZZLE_128B,
};
enum CUtensorMapInterleave { CU_TENSOR_MAP_INTERLEAVE_NONE };
enum CUtensorMapL2promotion { CU_TENSOR_MAP_L2_PROMOTION_L2_128B };
enum CUtensorMapFloatOOBfill { CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE };

struct CUtensorMap {
  unsigned char* data;
  CUtensorMapDataType type;
  CUtensorMapSwizzle swizzle;
  int64_t size[3];    ///< in elements; the first dimension is contiguous
  int64_t stride[3];  ///< in bytes
  int box[3];         ///< in elements

  int element_bytes() const {
    return type == CU_TENSOR_MAP_DATA_TYPE_FLOAT16 || type == CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 ? 2
                                                                                               : 4;
  }
  int row_bytes() const { return box[0] * element_bytes(); }
  /// From row to row of a box in shared memory. Rows that are shorter than the swizzle are padded.
  int row_pitch() const {
    return swizzle == CU_TENSOR_MAP_SWIZZLE_NONE ? row_bytes() : 16 << swizzle;
  }
  int rows() const { return box[1] * box[2]; }
  int box_bytes() const { return row_bytes() * rows(); }
};

/// Refuses what the driver refuses, of what the kernels here ask for.
inline CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank,
                                       void* data, const cuuint64_t* sizes,
                                       const cuuint64_t* strides, const cuuint32_t* box,
                                       const cuuint32_t* element_strides, CUtensorMapInterleave,
                                       CUtensorMapSwizzle swizzle, CUtensorMapL2promotion,
                                       CUtensorMapFloatOOBfill) {
  constexpr cuuint64_t LARGEST_SIZE = cuuint64_t{1} << 32, LARGEST_STRIDE = cuuint64_t{1} << 40;
  constexpr cuuint32_t LARGEST_BOX = 256;
  *map = {static_cast<unsigned char*>(data), type, swizzle, {}, {}, {}};
  bool is_valid = rank == 3 && reinterpret_cast<uintptr_t>(data) % 16 == 0;
  for (cuuint32_t d = 0; is_valid && d < rank; ++d) {
    const cuuint64_t stride = d == 0 ? 0 : strides[d - 1];
    is_valid = sizes[d] >= 1 && sizes[d] <= LARGEST_SIZE && stride % 16 == 0 &&
               stride < LARGEST_STRIDE && box[d] >= 1 && box[d] <= LARGEST_BOX &&
               element_strides[d] == 1;
    map->size[d] = static_cast<int64_t>(sizes[d]);
    map->stride[d] = static_cast<int64_t>(stride);
    map->box[d] = static_cast<int>(box[d]);
  }
  is_valid = is_valid && map->row_bytes() % 16 == 0 && map->row_bytes() <= map->row_pitch();
  return is_valid ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace smem
