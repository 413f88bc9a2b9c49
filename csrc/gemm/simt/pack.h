// Operands turned, or aligned, into the workspace: then the larger tiles' blocks copy runs of 16
// bytes, and no element by itself. At 4096^3 it costs 1% and brings 5 to 18%.
#pragma once

#include "device/launch.h"
#include "device/tile.h"

namespace smem::gemm::simt {
inline namespace SMEM_BUILD {

constexpr int PACK_TILE = 32, PACK_ROWS = 8;

template <typename T>
struct Packing {
  Matrix<const T> from;  ///< X(e, k) of the first member of the batch
  T* to;                 ///< X(e, k) at k * pitch + e, zeros where e is beyond X
  int64_t pitch;
  int64_t members, member_stride;  ///< from X to the next

  int64_t member_blocks() const { return pitch / PACK_TILE * ceil_div(from.cols, PACK_TILE); }
  int64_t blocks() const { return members * member_blocks(); }
};

/// One operand, or both by one launch.
template <typename T>
struct Packings {
  Packing<T> first, second;
  unsigned first_blocks, first_member_blocks, second_member_blocks;
};

template <typename T>
__global__ void __launch_bounds__(PACK_TILE* PACK_ROWS)
    simt_pack_kernel(const __grid_constant__ Packings<T> packings) {
  __shared__ Tile<T, PACK_TILE, PACK_TILE + 1> tile;
  const bool is_first = blockIdx.x < packings.first_blocks;
  const Packing<T> packing = is_first ? packings.first : packings.second;
  const unsigned index = blockIdx.x - (is_first ? 0 : packings.first_blocks);
  const unsigned blocks = is_first ? packings.first_member_blocks : packings.second_member_blocks;
  const unsigned member = index / blocks, block = index % blocks;
  Matrix<const T> X = packing.from;
  X.data += member * packing.member_stride;
  T* const to = packing.to + member * (packing.pitch * X.cols);
  const auto tiles_e = static_cast<unsigned>(packing.pitch / PACK_TILE);
  const int64_t e0 = block % tiles_e * PACK_TILE, k0 = block / tiles_e * PACK_TILE;
  const int x = threadIdx.x % PACK_TILE, y = threadIdx.x / PACK_TILE;
  const bool along_k = X.col_stride == 1;  // lanes read along what is contiguous
#pragma unroll
  for (int i = 0; i < PACK_TILE; i += PACK_ROWS) {
    const int e = along_k ? y + i : x, k = along_k ? x : y + i;
    tile(k, e) = X.at_or_zero(e0 + e, k0 + k);
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < PACK_TILE; i += PACK_ROWS) {
    const int64_t e = e0 + x, k = k0 + y + i;
    if (k < X.cols) store(to + k * packing.pitch + e, T(tile(y + i, x)));
  }
}

template <typename T>
void pack(const Packing<T>& first, const Packing<T>& second, const Device& device) {
  launch("simt pack", simt_pack_kernel<T>,
         Geometry{first.blocks() + second.blocks(), dim3(PACK_TILE * PACK_ROWS)}, device,
         Packings<T>{first, second, static_cast<unsigned>(first.blocks()),
                     static_cast<unsigned>(first.member_blocks()),
                     static_cast<unsigned>(second.member_blocks())});
}

}  // namespace SMEM_BUILD
}  // namespace smem::gemm::simt
