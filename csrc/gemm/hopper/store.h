// From the accumulators of a warpgroup to out. Every warp goes its own way: it turns its 16 rows,
// 64 columns at a time, in its own part of shared memory.
#pragma once

#include "device/stmatrix.h"
#include "device/tma.h"
#include "device/warpgroup.h"
#include "gemm/hopper/arguments.h"

namespace smem::gemm::hopper {
inline namespace SMEM_BUILD {

/// Where a warp's sums stand: the first of its 16 rows, the first column, and one past the last
/// row and column that are its tile's.
struct Corner {
  int64_t row, col, end_row, end_col;
  int batch;
};

template <typename T>
__device__ __forceinline__ uint32_t pack(float low, float high) {
  const Vector<T, 2> pair{{from_accumulator<T>(low), from_accumulator<T>(high)}};
  return reinterpret_cast<const uint32_t&>(pair);
}

/// Through the copy engine, which leaves out what lies outside out. `sums` are 16 x 64.
template <typename T>
struct BoxWriter {
  const Arguments<T>& args;
  unsigned char* staging;
  int slot = 0;

  __device__ __forceinline__ float bias_at(int64_t col) const {
    return col < args.epilogue.out.cols
               ? to_accumulator(args.epilogue.bias[col * args.epilogue.bias_stride])
               : 0.0f;
  }

  template <int COUNT>
  __device__ __forceinline__ void write(const float (&sums)[COUNT], int first,
                                        const Corner& corner) {
    const int lane = threadIdx.x % WARP;
    unsigned char* const rows = staging + slot * STAGING_SLOT;
    slot ^= 1;
    // The copy before the last one began in this slot.
    if (lane == 0) wait_for_store_reads<1>();
    __syncwarp();
    const int row = lane % STAGING_ROWS;
#pragma unroll
    for (int j = 0; j < STAGING_COLS / 8; j += 2) {
      float v[8];
#pragma unroll
      for (int i = 0; i < 8; ++i) v[i] = sums[first + 4 * j + i];
      if (args.epilogue.bias) {
        const int64_t col = corner.col + 8 * j + lane % 4 * 2;
        const float bias[4] = {bias_at(col), bias_at(col + 1), bias_at(col + 8), bias_at(col + 9)};
#pragma unroll
        for (int i = 0; i < 8; ++i) v[i] += bias[i / 4 * 2 + i % 2];
      }
      if (args.epilogue.activation == Activation::relu) {
#pragma unroll
        for (int i = 0; i < 8; ++i) v[i] = activate(Activation::relu, v[i]);
      }
      const int piece = j + lane / STAGING_ROWS;
      store_four_tiles(rows + row * ROW_BYTES + ((piece ^ row % 8) * 16), pack<T>(v[0], v[1]),
                       pack<T>(v[2], v[3]), pack<T>(v[4], v[5]), pack<T>(v[6], v[7]));
    }
    fence_for_async_reads();
    __syncwarp();
    if (lane == 0) {
      store_box(args.out,
                {static_cast<int>(corner.col), static_cast<int>(corner.row), corner.batch}, rows);
      end_store_group();
    }
  }
};

/// The place of a float among 16 x 64: rows a multiple of 32 banks long, turned so that neither
/// writing the accumulators nor reading along a row runs into conflicts.
__device__ __forceinline__ int staged(int row, int col) {
  return row * STAGING_COLS + (col ^ (row % 4) * 8);
}

/// Element by element, 8 neighbours a lane where out takes 16 bytes at once, else one.
template <typename T>
struct ElementWriter {
  float* staging;
  Epilogue<T> epilogue;
  bool wide;

  __device__ __forceinline__ ElementWriter(const Arguments<T>& args, unsigned char* staging,
                                           int member)
      : staging(reinterpret_cast<float*>(staging)),
        epilogue(epilogue_of_member(args.epilogue, args.strides, member)),
        wide(rows_are_vectors<8>(epilogue.out)) {}

  template <int WIDTH, int COUNT>
  __device__ __forceinline__ void stage(const float (&sums)[COUNT], int first) const {
    const int lane = threadIdx.x % WARP;
#pragma unroll
    for (int j = 0; j < WIDTH / 8; ++j) {
      const int col = 8 * j + lane % 4 * 2;
      auto* upper = reinterpret_cast<float2*>(staging + staged(lane / 4, col));
      auto* lower = reinterpret_cast<float2*>(staging + staged(lane / 4 + 8, col));
      *upper = {sums[first + 4 * j], sums[first + 4 * j + 1]};
      *lower = {sums[first + 4 * j + 2], sums[first + 4 * j + 3]};
    }
  }

  __device__ __forceinline__ void write_runs(const Corner& corner) const {
    const int lane = threadIdx.x % WARP;
#pragma unroll 1
    for (int i = 0; i < STAGING_ROWS / 4; ++i) {
      const int row = lane / 8 + 4 * i, col = lane % 8 * 8;
      if (corner.row + row >= corner.end_row || corner.col + col >= corner.end_col) continue;
      const auto* from = reinterpret_cast<const float4*>(staging + staged(row, col));
      const float4 low = from[0], high = from[1];
      const float sums[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
      epilogue.template store<8>(corner.row + row, corner.col + col, sums);
    }
  }

  template <typename Write>
  __device__ __forceinline__ void for_each(const Corner& corner, const Write& write) const {
    const int lane = threadIdx.x % WARP;
#pragma unroll 1
    for (int row = 0; row < STAGING_ROWS; ++row) {
      if (corner.row + row >= corner.end_row) break;
#pragma unroll
      for (int col = lane; col < STAGING_COLS; col += WARP) {
        if (corner.col + col < corner.end_col) {
          write(corner.row + row, corner.col + col, staging[staged(row, col)]);
        }
      }
    }
  }
};

}  // namespace SMEM_BUILD
}  // namespace smem::gemm::hopper
