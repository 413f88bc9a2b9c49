// From the accumulators of a warpgroup to out, rounded. Every warp goes its own way: it turns its
// 16 rows, 64 columns at a time, in its own part of shared memory.
#pragma once

#include "device/stmatrix.h"
#include "device/tma.h"
#include "device/warpgroup.h"
#include "gemm/sm90/params.h"

namespace smem::gemm::sm90 {
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

/// Writes parts of 16 x 64 elements: through TMA, which leaves out what lies outside
/// out; or, where the engine cannot, row by row. The code is short on purpose: where nothing of it
/// is in a cache, every 128 bytes of instructions come from DRAM.
template <typename T>
struct PartWriter {
  const Arguments<T>& args;
  unsigned char* staging;
  int slot = 0;

  /// Where lane 16h + r finds the 16 bytes of row r that are piece 2i + h, for `stage`. Boxes of 64
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

  /// The 16 x 64 elements whose pairs begin at `first`, to a tensor laid out as out.
  template <int COUNT>
  __device__ __forceinline__ void write_boxes(const uint32_t (&pairs)[COUNT], int first,
                                              const Pieces& pieces, const Corner& corner,
                                              const CUtensorMap& map) {
    const unsigned char* const rows = stage(pairs, first, pieces);
    fence_view_async_shared();
    __syncwarp();
    if (threadIdx.x % WARP == 0) {
      const int cols = 8 << args.log_box_pieces;
      const int end = min(corner.end_col - corner.col, STAGING_COLS);
#pragma unroll 1
      for (int col = 0; col < end; col += cols) {
        tma_store(map, {corner.col + col, corner.row, corner.batch},
                  rows + col * STAGING_ROWS * static_cast<int>(sizeof(T)));
      }
      tma_store_commit();
    }
  }

  /// The same to out, row by row. A lane writes two neighbours as a word. In a row that begins
  /// between two words, pairs begin one column earlier, and lane 0, which has no column before its
  /// own, takes the last. Where the rows' pitch is odd, every other row does: these are written
  /// after the others, so that a lane's place does not change from row to row.
  template <int COUNT>
  __device__ __forceinline__ void write_rows(const uint32_t (&pairs)[COUNT], int first_pair,
                                             const Pieces& pieces, const Corner& corner) {
    const auto& out = args.epilogue.out;
    const int rows = min(corner.end_row - corner.row, STAGING_ROWS);
    const int cols = min(corner.end_col - corner.col, STAGING_COLS);
    const int step = out.row_stride % 2 == 0 ? 1 : 2;
    const uint32_t from = shared_address(stage(pairs, first_pair, pieces));
    T* line = out.data + corner.batch * args.strides.out + corner.row * out.row_stride + corner.col;
    __syncwarp();
    for (int begin = 0; begin < step; ++begin, line += out.row_stride) {
      const int left = static_cast<int>(threadIdx.x % WARP * 2) - !is_aligned<2>(line);
      const int first = left & (STAGING_COLS - 1), second = left + 1;
      const bool is_word = left >= 0 && second < cols;
      const bool has_first = !is_word && first < cols, has_second = !is_word && second < cols;
      const auto element = [&](int row, int col) {
        constexpr int PITCH = STAGING_COLS * ELEMENT_BYTES;
        return load_half(from + row * PITCH + (col * ELEMENT_BYTES ^ row % 8 * 16));
      };
      constexpr int AT_ONCE = 4;
      T* to = line;
#pragma unroll 1
      for (int row = begin; row < rows; row += AT_ONCE * step) {
        uint16_t low[AT_ONCE], high[AT_ONCE];
#pragma unroll
        for (int i = 0; i < AT_ONCE; ++i) {
          low[i] = element(row + i * step, first);
          high[i] = element(row + i * step, second);
        }
#pragma unroll
        for (int i = 0; i < AT_ONCE; ++i, to += step * out.row_stride) {
          const bool inside = row + i * step < rows;
          if (inside && is_word) {
            *reinterpret_cast<uint32_t*>(to + first) = low[i] | uint32_t{high[i]} << 16;
          }
          if (inside && has_first) reinterpret_cast<uint16_t*>(to)[first] = low[i];
          if (inside && has_second) reinterpret_cast<uint16_t*>(to)[second] = high[i];
        }
      }
    }
  }

 private:
  template <int COUNT>
  __device__ __forceinline__ const unsigned char* stage(const uint32_t (&pairs)[COUNT], int first,
                                                        const Pieces& pieces) {
    unsigned char* const rows = staging + slot * STAGING_SLOT;
    slot ^= 1;
    // The copy before the last one began in this slot.
    if (threadIdx.x % WARP == 0) tma_store_wait_read<1>();
    __syncwarp();
#pragma unroll
    for (int i = 0; i < STAGING_COLS / 16; ++i) {
      const uint32_t* tile = pairs + first + 4 * i;
      stmatrix_x4(shared_address(rows) + pieces.at[i], tile[0], tile[1], tile[2], tile[3]);
    }
    return rows;
  }

  __device__ __forceinline__ static uint16_t load_half(uint32_t address) {
    uint16_t half;
    asm volatile("ld.shared.u16 %0, [%1];" : "=h"(half) : "r"(address) : "memory");
    return half;
  }
};

}  // namespace SMEM_BUILD
}  // namespace smem::gemm::sm90
