// Stores a warp's accumulators as float32, for tf32. The lanes of a warp hold pairs of adjacent
// elements. If out allows it, they leave by TMA in boxes of 8 rows of 128 bytes: plain stores would
// write 8 rows of 32 bytes each, and take four times as long as the SM needs for those bytes.
//
// The code is written for the product that the kernel computes, an X x Y matrix. It is out, or, if
// the plan has transposed the problem, out's transpose: then x counts out's columns and y its rows.
#pragma once

#include "device/tma.h"
#include "device/warpgroup.h"
#include "gemm/epilogue_params.h"
#include "gemm/sm90/shifted_rows.h"
#include "gemm/sm90/tile_config.h"

namespace smem::gemm::sm90::inline SMEM_BUILD {

/// Coordinates of a lane's accumulators: accumulator 4j is at (x, y + 8j), 4j + 1 at y + 8j + 1,
/// and the two after them are at the same y in row next_x. Those below end_x and end_y are stored.
struct LaneCoord {
  int x, next_x, y, end_x, end_y;
};

/// A warp's 16 rows are stored by two boxes of 8 rows, which begin at first_x and second_x.
/// smem_row and next_smem_row are the lane's two rows among the 16 staged ones.
struct BoxRows {
  int first_x, second_x;
  int smem_row, next_smem_row;
};

/// If `transposed`, next_x is x + 1.
template <int COUNT>
struct Tf32Writer {
  const Epilogue<float>& epilogue;
  unsigned char* staging;  ///< the warp's 4 KB
  bool transposed;

  /// Requires contiguous columns of out, no C, and no activation but relu.
  __device__ __forceinline__ void store_direct(float (&accum)[COUNT], const LaneCoord& coord,
                                               const BoxRows& rows,
                                               const StoredColumns& columns) const {
    const auto& out = epilogue.out;
    apply_epilogue(accum, coord);
    const bool fits_pairs = out.row_stride % 2 == 0 && out.cols % 2 == 0 && is_aligned<2>(out.data);
    const bool fits_sectors = out.row_stride % 8 == 0 && is_aligned<8>(out.data);
    const bool is_small =
        min(out.rows, out.cols) <= MOST_NARROW || out.rows * out.cols < MIN_STAGED_ELEMENTS;
    if (!is_small && !(fits_pairs && (transposed || fits_sectors))) {
      transposed ? store_transposed(accum, coord, rows)
                 : store_shifted(accum, coord, rows, columns);
    } else if (fits_pairs) {
      store_rows<true>(accum, coord);
    } else {
      store_rows<false>(accum, coord);
    }
  }

  /// Stores the same by TMA. The rows of `map` are those of the product; TMA does not write what is
  /// outside of the tensor.
  __device__ __forceinline__ void store_tma(float (&accum)[COUNT], const LaneCoord& coord,
                                            const BoxRows& rows, const CUtensorMap& map,
                                            int batch) const {
    const int lane = threadIdx.x % WARP;
    wait_for_stores<0>();
    apply_epilogue(accum, coord);
#pragma unroll
    for (int subtile = 0; subtile < COUNT / PER_SUBTILE; ++subtile) {
      const int y = coord.y - lane % 4 * 2 + subtile * FLOAT_BOX_COLS;
      if (y >= coord.end_y) continue;
      const int buffer = subtile % 2 * BUFFER;
      // The stores before the last ones read this buffer.
      wait_for_stores<1>();
      stage(accum, subtile, rows, buffer);
      fence_view_async_shared();
      __syncwarp();
      if (lane == 0) {
        tma_store(map, {y, rows.first_x, batch}, staging + buffer);
        tma_store(map, {y, rows.second_x, batch}, staging + buffer + BUFFER / 2);
        tma_store_commit();
      }
    }
  }

  /// Stores element by element. The accumulators go through shared memory into a rolled loop,
  /// because inlining the activation for each of them would be too much code.
  __device__ __forceinline__ void store_scalar(const float (&accum)[COUNT],
                                               const LaneCoord& coord) const {
    constexpr int STAGED = 32;  // accumulators per lane: 4 KB per warp
    float* const own = reinterpret_cast<float*>(staging) + threadIdx.x % WARP;
#pragma unroll 1
    for (int begin = 0; begin < COUNT; begin += STAGED) {
#pragma unroll
      for (int from = 0; from < COUNT; from += STAGED) {
        if (from != begin) continue;
#pragma unroll
        for (int i = 0; i < STAGED; ++i) own[i * WARP] = accum[from + i];
      }
#pragma unroll 1
      for (int i = 0; i < STAGED; i += 4) {
        const int y = coord.y + 2 * (begin + i);
        if (y >= coord.end_y) break;
        const auto value = [&](int n) { return own[(i + n) * WARP]; };
        if (transposed) {
          store_pair(y, coord.x, value(0), value(2));
          store_pair(y + 1, coord.x, value(1), value(3));
        } else {
          store_pair(coord.x, y, value(0), value(1));
          store_pair(coord.next_x, y, value(2), value(3));
        }
      }
    }
  }

 private:
  // A subtile is 16 x 32; its two boxes fill one of the two staging buffers.
  static constexpr int PER_SUBTILE = FLOAT_BOX_COLS / 2;  ///< accumulators of a lane
  static constexpr int BUFFER = 2 * FLOAT_BOX_ROWS * ROW_BYTES;

  /// Stages a subtile: rows of 128 bytes, whose vectors are swizzled as TMA expects them.
  __device__ __forceinline__ void stage(const float (&accum)[COUNT], int subtile,
                                        const BoxRows& rows, int buffer) const {
    const int pair = threadIdx.x % 4;
    const auto smem_address = [&](int row) {
      return reinterpret_cast<uintptr_t>(staging + row * ROW_BYTES +
                                         ((pair / 2 ^ row % FLOAT_BOX_ROWS) * 16 + pair % 2 * 8));
    };
    const auto first = smem_address(rows.smem_row);
    const auto second = smem_address(rows.next_smem_row);
#pragma unroll
    for (int i = 0; i < PER_SUBTILE; i += 4) {
      const float* const four = &accum[subtile * PER_SUBTILE + i];
      *reinterpret_cast<float2*>((first ^ i * 8) + buffer) = {four[0], four[1]};
      *reinterpret_cast<float2*>((second ^ i * 8) + buffer) = {four[2], four[3]};
    }
  }

  /// Element (row, col) of a staged subtile.
  __device__ __forceinline__ float staged(int row, int col, int buffer) const {
    return *reinterpret_cast<const float*>(staging + buffer + row * ROW_BYTES +
                                           (col / 4 ^ row % FLOAT_BOX_ROWS) * 16 + col % 4 * 4);
  }

  /// Returns when at most COUNT_LEFT of the warp's latest stores still read shared memory.
  template <int COUNT_LEFT>
  __device__ __forceinline__ static void wait_for_stores() {
    if (threadIdx.x % WARP == 0) tma_store_wait_read<COUNT_LEFT>();
    __syncwarp();
  }

  __device__ __forceinline__ void apply_epilogue(float (&accum)[COUNT],
                                                 const LaneCoord& coord) const {
    if (number_of(epilogue.alpha) != 1) {
#pragma unroll
      for (float& value : accum) value = rounded_product(number_of(epilogue.alpha), value);
    }
    if (epilogue.bias && transposed) {
      add_bias_along_x(accum, coord);
    } else if (epilogue.bias) {
      add_bias_along_y(accum, coord);
    }
    if (epilogue.activation == Activation::relu) {
#pragma unroll
      for (float& value : accum) value = activate(Activation::relu, value);
    }
  }

  __device__ __forceinline__ float bias(int col) const {
    return epilogue.bias[min(col, static_cast<int>(epilogue.out.cols) - 1) * epilogue.bias_stride];
  }

  __device__ __forceinline__ void add_bias_along_x(float (&accum)[COUNT],
                                                   const LaneCoord& coord) const {
    const float first = bias(coord.x), second = bias(coord.next_x);
#pragma unroll
    for (int i = 0; i < COUNT; ++i) accum[i] += i & 2 ? second : first;
  }

  /// The warp loads the bias once into shared memory: the eight lanes that share a column would
  /// each load it otherwise.
  __device__ __forceinline__ void add_bias_along_y(float (&accum)[COUNT],
                                                   const LaneCoord& coord) const {
    const int lane = threadIdx.x % WARP, within = lane % 4 * 2;
    auto* const columns = reinterpret_cast<float*>(staging);
    for (int i = lane; i < 2 * COUNT; i += WARP) columns[i] = bias(coord.y - within + i);
    __syncwarp();
#pragma unroll
    for (int i = 0; i < COUNT; i += 4) {
      const float2 pair = *reinterpret_cast<const float2*>(columns + 2 * i + within);
      accum[i] += pair.x;
      accum[i + 1] += pair.y;
      accum[i + 2] += pair.x;
      accum[i + 3] += pair.y;
    }
    __syncwarp();
  }

  /// IN_PAIRS: adjacent elements of a row may be written as 8 bytes.
  template <bool IN_PAIRS>
  __device__ __forceinline__ void store_rows(const float (&accum)[COUNT],
                                             const LaneCoord& coord) const {
    const int64_t pitch = epilogue.out.row_stride;
    const auto store = [](float* to, float first, float second, bool has_second) {
      if constexpr (IN_PAIRS) {
        *reinterpret_cast<float2*>(to) = {first, second};
      } else {
        to[0] = first;
        if (has_second) to[1] = second;
      }
    };
    if (transposed) {
      if (coord.x >= coord.end_x) return;
      const bool has_next = coord.next_x < coord.end_x;
      float* to = epilogue.out.data + coord.y * pitch + coord.x;
#pragma unroll
      for (int i = 0; i < COUNT; i += 4, to += 8 * pitch) {
        const int y = coord.y + 2 * i;
        if (y < coord.end_y) store(to, accum[i], accum[i + 2], has_next);
        if (y + 1 < coord.end_y) store(to + pitch, accum[i + 1], accum[i + 3], has_next);
      }
    } else {
      const bool has_first = coord.x < coord.end_x, has_second = coord.next_x < coord.end_x;
      float* const first = epilogue.out.data + coord.x * pitch + coord.y;
      float* const second = epilogue.out.data + coord.next_x * pitch + coord.y;
#pragma unroll
      for (int i = 0; i < COUNT; i += 4) {
        const int y = coord.y + 2 * i;
        if (y >= coord.end_y) continue;
        const bool has_next = y + 1 < coord.end_y;
        if (has_first) store(first + 2 * i, accum[i], accum[i + 1], has_next);
        if (has_second) store(second + 2 * i, accum[i + 2], accum[i + 3], has_next);
      }
    }
  }

  /// Stores rows that begin anywhere, by vectors. Elements or pairs of 8 rows, as the lanes hold
  /// them, are two to four times as many writes of L2's sectors: 68,434 x 1511 x 212 took 860 us
  /// instead of 312 by single elements of one row.
  __device__ __forceinline__ void store_shifted(const float (&accum)[COUNT], const LaneCoord& coord,
                                                const BoxRows& boxes,
                                                const StoredColumns& columns) const {
    using Rows = ShiftedRows<float>;
    static_assert(Rows::BYTES <= STAGING_BYTES && Rows::COLS == FLOAT_BOX_COLS &&
                      Rows::ROWS == 2 * FLOAT_BOX_ROWS,
                  "a subtile's rows fit a warp's staging area");
    const Rows rows{staging};
    const int within = threadIdx.x % 4 * 2;
    float* const first = epilogue.out.data + (coord.y - within);
    const auto out_row = [&](int row) {
      const int x =
          row < FLOAT_BOX_ROWS ? boxes.first_x + row : boxes.second_x + row - FLOAT_BOX_ROWS;
      return OutRow<float>{first + x * epilogue.out.row_stride, x < coord.end_x};
    };
    float* const upper = rows.staged(boxes.smem_row, out_row(boxes.smem_row).data, within);
    float* const lower =
        rows.staged(boxes.next_smem_row, out_row(boxes.next_smem_row).data, within);
#pragma unroll
    for (int subtile = 0; subtile < COUNT / PER_SUBTILE; ++subtile) {
      if (!Rows::is_used(subtile, columns)) break;
      rows.begin(subtile);
#pragma unroll
      for (int i = 0; i < PER_SUBTILE; i += 4) {
        const float* const four = &accum[subtile * PER_SUBTILE + i];
        upper[2 * i] = four[0];
        upper[2 * i + 1] = four[1];
        lower[2 * i] = four[2];
        lower[2 * i + 1] = four[3];
      }
      rows.store(out_row, columns, subtile);
    }
    __syncwarp();  // the staging area is free
  }

  /// Stores a transposed problem's rows, which begin anywhere: at a time 8 neighbouring elements of
  /// four rows of out.
  __device__ __forceinline__ void store_transposed(const float (&accum)[COUNT],
                                                   const LaneCoord& coord,
                                                   const BoxRows& rows) const {
    const int lane = threadIdx.x % WARP;
    const int64_t pitch = epilogue.out.row_stride;
#pragma unroll
    for (int subtile = 0; subtile < COUNT / PER_SUBTILE; ++subtile) {
      const int first_y = coord.y - lane % 4 * 2 + subtile * FLOAT_BOX_COLS;
      if (first_y >= coord.end_y) continue;
      const int buffer = subtile % 2 * BUFFER;
      stage(accum, subtile, rows, buffer);
      __syncwarp();
#pragma unroll 1
      for (int box = 0; box < 2; ++box) {
        const int x = (box == 0 ? rows.first_x : rows.second_x) + lane % 8;
        const int y = first_y + lane / 8;
        if (x >= coord.end_x || y >= coord.end_y) continue;
        const int count = (coord.end_y - y + 3) / 4;
        float* to = epilogue.out.data + y * pitch + x;
        // All loads come first: the compiler cannot know that the stores go elsewhere.
        float values[8];
#pragma unroll
        for (int i = 0; i < 8; ++i) {
          values[i] = staged(box * 8 + lane % 8, i * 4 + lane / 8, buffer);
        }
#pragma unroll
        for (int i = 0; i < 8; ++i, to += 4 * pitch) {
          if (i < count) *to = values[i];
        }
      }
    }
    __syncwarp();  // the staging area is free
  }

  __device__ __forceinline__ void store_pair(int row, int col, float first, float second) const {
    const Real<float> pair[2] = {first, second};
    epilogue.store(row, col, pair);
  }
};

}  // namespace smem::gemm::sm90::inline SMEM_BUILD
