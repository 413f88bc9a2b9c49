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
  int row, col, end_row, end_col, batch;
};

template <typename T>
__device__ __forceinline__ uint32_t pack(float low, float high) {
  const Vector<T, 2> pair{{from_accumulator<T>(low), from_accumulator<T>(high)}};
  return reinterpret_cast<const uint32_t&>(pair);
}

/// Through the copy engine, which leaves out what lies outside out. The code is short on purpose:
/// where nothing of it is in a cache, every 128 bytes of instructions come from DRAM.
template <typename T>
struct BoxWriter {
  const Arguments<T>& args;
  unsigned char* staging;
  int slot = 0;

  /// The bias is contiguous, a pair is aligned, and so is N: a pair lies inside or outside.
  template <int COUNT>
  __device__ __forceinline__ void add_bias(float (&sums)[COUNT], const Corner& corner) const {
    const T* bias = args.epilogue.bias;
    const int first = corner.col + static_cast<int>(threadIdx.x % 4 * 2);
    const int last = static_cast<int>(args.epilogue.out.cols) - 2;
#pragma unroll
    for (int i = 0; i < COUNT; i += 4) {
      const int col = min(first + 2 * i, last);
      const auto pair = load_vector<2>(bias + col);
      const float low = to_accumulator(pair.lane[0]), high = to_accumulator(pair.lane[1]);
      sums[i] += low;
      sums[i + 1] += high;
      sums[i + 2] += low;
      sums[i + 3] += high;
    }
  }

  template <int COUNT>
  __device__ __forceinline__ void relu(float (&sums)[COUNT]) const {
#pragma unroll
    for (float& sum : sums) sum = activate(Activation::relu, sum);
  }

  /// Where lane 16h + r finds the 16 bytes of row r that are piece 2i + h, for `write`. Boxes of 64
  /// columns have rows of 128 bytes, swizzled; narrower ones lie one behind the other.
  struct Pieces {
    uint32_t at[STAGING_COLS / 16];
  };
  __device__ __forceinline__ Pieces pieces() const {
    const int lane = threadIdx.x % WARP, row = lane % STAGING_ROWS, log = args.log_box_pieces;
    const uint32_t swizzle = 1 << log == STAGING_COLS / 8 ? row % 8 * 16 : 0;
    Pieces result;
#pragma unroll
    for (int i = 0; i < STAGING_COLS / 16; ++i) {
      const int piece = 2 * i + lane / STAGING_ROWS, box = piece >> log,
                within = piece - (box << log);
      result.at[i] = (((box * STAGING_ROWS + row) << log) + within) * 16 ^ swizzle;
    }
    return result;
  }

  /// The 16 x 64 elements whose pairs begin at `first`.
  template <int COUNT>
  __device__ __forceinline__ void write(const uint32_t (&pairs)[COUNT], int first,
                                        const Pieces& pieces, const Corner& corner) {
    const int lane = threadIdx.x % WARP;
    unsigned char* const rows = staging + slot * STAGING_SLOT;
    slot ^= 1;
    // The copy before the last one began in this slot.
    if (lane == 0) wait_for_store_reads<1>();
    __syncwarp();
#pragma unroll
    for (int i = 0; i < STAGING_COLS / 16; ++i) {
      const uint32_t* tile = pairs + first + 4 * i;
      store_four_tiles(shared_address(rows) + pieces.at[i], tile[0], tile[1], tile[2], tile[3]);
    }
    fence_for_async_reads();
    __syncwarp();
    if (lane == 0) {
      const int cols = 8 << args.log_box_pieces;
      const int end = min(corner.end_col - corner.col, STAGING_COLS);
#pragma unroll 1
      for (int col = 0; col < end; col += cols) {
        store_box(args.out, {corner.col + col, corner.row, corner.batch},
                  rows + col * STAGING_ROWS * static_cast<int>(sizeof(T)));
      }
      end_store_group();
    }
  }
};

/// The place of a float among 16 x 64: rows a multiple of 32 banks long, turned so that neither
/// writing the accumulators nor reading along a row runs into conflicts.
__device__ __forceinline__ int staged(int row, int col) {
  return row * STAGING_COLS + (col ^ (row % 4) * 8);
}

/// Element by element, whatever out's strides.
template <typename T>
struct ElementWriter {
  float* staging;
  Epilogue<T> epilogue;

  __device__ __forceinline__ ElementWriter(const Arguments<T>& args, unsigned char* staging,
                                           int member)
      : staging(reinterpret_cast<float*>(staging)),
        epilogue(epilogue_of_member(args.epilogue, args.strides, member)) {}

  /// The 16 x 64 sums from `first` on.
  template <int COUNT>
  __device__ __forceinline__ void stage(const float (&sums)[COUNT], int first) const {
    const int lane = threadIdx.x % WARP;
#pragma unroll
    for (int j = 0; j < STAGING_COLS / 8; ++j) {
      const int col = 8 * j + lane % 4 * 2;
      auto* upper = reinterpret_cast<float2*>(staging + staged(lane / 4, col));
      auto* lower = reinterpret_cast<float2*>(staging + staged(lane / 4 + 8, col));
      *upper = {sums[first + 4 * j], sums[first + 4 * j + 1]};
      *lower = {sums[first + 4 * j + 2], sums[first + 4 * j + 3]};
    }
  }

  __device__ __forceinline__ void write(const Corner& corner) const {
    if (epilogue.out_unrounded || epilogue.pre.data) {
      write_any(corner);
      // Apart, because the activations of four rows at a time would be much code, and without one
      // it is the loads of C that take the time.
    } else if (epilogue.activation == Activation::none) {
      Epilogue<T> plain = epilogue;
      plain.activation = Activation::none;
      write_rows<4>(plain, corner);
    } else {
      write_rows<1>(epilogue, corner);
    }
  }

  __device__ __forceinline__ void write_partials(const Corner& corner, float* partials) const {
    const int rows = rows_of(corner), cols = cols_of(corner);
    const int64_t pitch = epilogue.out.cols;
    float* to = partials + corner.row * pitch + corner.col;
#pragma unroll 4
    for (int row = 0; row < rows; ++row) {
      for (int col = threadIdx.x % WARP; col < cols; col += WARP) {
        to[row * pitch + col] = staging[staged(row, col)];
      }
    }
  }

 private:
  __device__ __forceinline__ static int rows_of(const Corner& corner) {
    return min(corner.end_row - corner.row, STAGING_ROWS);
  }
  __device__ __forceinline__ static int cols_of(const Corner& corner) {
    return min(corner.end_col - corner.col, STAGING_COLS);
  }

  /// Unrounded sums, and what the activation is applied to: a lane takes two neighbours.
  __device__ __forceinline__ void write_any(const Corner& corner) const {
    const int rows = rows_of(corner), cols = cols_of(corner), col = threadIdx.x % WARP * 2;
#pragma unroll 1
    for (int row = 0; row < rows; ++row) {
      const float* const from = staging + staged(row, col);
      const float pair[2] = {from[0], from[1]};
      if (col + 1 < cols) {
        epilogue.store(corner.row + row, corner.col + col, pair);
      } else if (col < cols) {
        epilogue.store(corner.row + row, corner.col + col, pair[0]);
      }
    }
  }

  /// A lane writes two neighbours, as one word where they are contiguous. In a row that begins
  /// between two words, pairs begin one column earlier, and the first lane, which has no column
  /// before its own, takes the last.
  template <int UNROLL>
  __device__ __forceinline__ void write_rows(const Epilogue<T>& z, const Corner& corner) const {
    const int lane = threadIdx.x % WARP, rows = rows_of(corner), cols = cols_of(corner);
    const int64_t step = z.out.col_stride;
#pragma unroll UNROLL
    for (int row = 0; row < rows; ++row) {
      T* const to = z.out.data + (corner.row + row) * z.out.row_stride + corner.col * step;
      const bool between = step == 1 && !is_aligned<2>(to);
      const int left = 2 * lane - between, first = left < 0 ? STAGING_COLS - 1 : left;
      const int second = left + 1;
      const bool has_first = first < cols, has_second = second < cols;
      const auto value = [&](int col) {
        return from_accumulator<T>(
            z.element(corner.row + row, corner.col + col, staging[staged(row, col)]));
      };
      Vector<T, 2> pair;
      if (has_first) pair.lane[0] = value(first);
      if (has_second) pair.lane[1] = value(second);
      if (step == 1 && left >= 0 && has_second) {
        store_global_vector<2>(to + first, pair);
      } else {
        if (has_first) to[first * step] = pair.lane[0];
        if (has_second) to[second * step] = pair.lane[1];
      }
    }
  }
};

}  // namespace SMEM_BUILD
}  // namespace smem::gemm::hopper
