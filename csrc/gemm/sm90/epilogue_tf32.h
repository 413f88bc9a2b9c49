// From the accumulators of a warp to out as floats. A lane's sums are neighbours in pairs. Where
// out allows it TMA takes boxes of 8 rows of 128 bytes: as stores, 8 rows of 32 bytes
// each, they would take four times as long as the SM needs to pass such bytes on.
#pragma once

#include "device/tma.h"
#include "device/warpgroup.h"
#include "gemm/sm90/epilogue_params.h"
#include "gemm/sm90/tile_config.h"

namespace smem::gemm::sm90 {
inline namespace SMEM_BUILD {

/// Where a lane's sums stand in the product: sum 4j at (x, y + 8j), the next one at y + 8j + 1, the
/// two that follow at next_x. Below end_x and end_y they are out's.
struct Place {
  int x, next_x, y, end_x, end_y;
};

/// Of a warp's 16 rows x: where those of its two boxes begin, and which two of them are a lane's.
struct BoxedRows {
  int first_x, second_x;
  int row, next_row;
};

/// `turned`: x counts out's columns and y its rows. Then next_x is x + 1.
template <int SUMS>
struct FloatWriter {
  const Epilogue<float>& epilogue;
  unsigned char* staging;  ///< the warp's 4 KB
  bool turned;

  /// Where out's columns are contiguous, there is no C, and no activation but relu.
  __device__ __forceinline__ void write_rows(float (&sums)[SUMS], const Place& place) const {
    const auto& out = epilogue.out;
    finish(sums, place);
    if (out.row_stride % 2 == 0 && out.cols % 2 == 0 && is_aligned<2>(out.data)) {
      store_rows<true>(sums, place);
    } else {
      store_rows<false>(sums, place);
    }
  }

  /// The same by TMA, rows of `map` being those of the product. What lies outside, it
  /// leaves out.
  __device__ __forceinline__ void write_boxes(float (&sums)[SUMS], const Place& place,
                                              const BoxedRows& rows, const CUtensorMap& map,
                                              int batch) const {
    constexpr int PART = FLOAT_BOX_COLS / 2, SLOT = 2 * FLOAT_BOX_ROWS * ROW_BYTES;
    const int lane = threadIdx.x % WARP, pair = lane % 4;
    wait_for_boxes<0>();
    finish(sums, place);
    const auto place_of = [&](int row) {
      return staging + row * ROW_BYTES + ((pair / 2 ^ row % FLOAT_BOX_ROWS) * 16 + pair % 2 * 8);
    };
    const auto first = reinterpret_cast<uintptr_t>(place_of(rows.row));
    const auto second = reinterpret_cast<uintptr_t>(place_of(rows.next_row));
#pragma unroll
    for (int part = 0; part < SUMS / PART; ++part) {
      const int y = place.y - 2 * pair + part * FLOAT_BOX_COLS;
      if (y >= place.end_y) continue;
      const int slot = part % 2 * SLOT;
      // The boxes before the last ones were in this slot.
      wait_for_boxes<1>();
#pragma unroll
      for (int i = 0; i < PART; i += 4) {
        const float* const four = &sums[part * PART + i];
        *reinterpret_cast<float2*>((first ^ i * 8) + slot) = {four[0], four[1]};
        *reinterpret_cast<float2*>((second ^ i * 8) + slot) = {four[2], four[3]};
      }
      fence_view_async_shared();
      __syncwarp();
      if (lane == 0) {
        tma_store(map, {y, rows.first_x, batch}, staging + slot);
        tma_store(map, {y, rows.second_x, batch}, staging + slot + SLOT / 2);
        tma_store_commit();
      }
    }
  }

  /// Through shared memory into a loop: as many copies of an activation would be much code.
  __device__ __forceinline__ void write_any(const float (&sums)[SUMS], const Place& place) const {
    constexpr int PART = 32;  // of a lane's sums, fills the staging
    float* const own = reinterpret_cast<float*>(staging) + threadIdx.x % WARP;
#pragma unroll 1
    for (int part = 0; part < SUMS; part += PART) {
#pragma unroll
      for (int from = 0; from < SUMS; from += PART) {
        if (from != part) continue;
#pragma unroll
        for (int i = 0; i < PART; ++i) own[i * WARP] = sums[from + i];
      }
#pragma unroll 1
      for (int i = 0; i < PART; i += 4) {
        const int y = place.y + 2 * (part + i);
        if (y >= place.end_y) break;
        const auto sum = [&](int n) { return own[(i + n) * WARP]; };
        if (turned) {
          store_any(y, place.x, sum(0), sum(2));
          store_any(y + 1, place.x, sum(1), sum(3));
        } else {
          store_any(place.x, y, sum(0), sum(1));
          store_any(place.next_x, y, sum(2), sum(3));
        }
      }
    }
  }

 private:
  /// Until at most COUNT of the warp's latest boxes are still to be read.
  template <int COUNT>
  __device__ __forceinline__ static void wait_for_boxes() {
    if (threadIdx.x % WARP == 0) tma_store_wait_read<COUNT>();
    __syncwarp();
  }

  __device__ __forceinline__ void finish(float (&sums)[SUMS], const Place& place) const {
    if (epilogue.alpha != 1) {
#pragma unroll
      for (float& sum : sums) sum = rounded_product(epilogue.alpha, sum);
    }
    if (epilogue.bias && turned) {
      add_bias_along_x(sums, place);
    } else if (epilogue.bias) {
      add_bias_along_y(sums, place);
    }
    if (epilogue.activation == Activation::relu) {
#pragma unroll
      for (float& sum : sums) sum = activate(Activation::relu, sum);
    }
  }

  __device__ __forceinline__ float bias(int col) const {
    return epilogue.bias[min(col, static_cast<int>(epilogue.out.cols) - 1) * epilogue.bias_stride];
  }

  __device__ __forceinline__ void add_bias_along_x(float (&sums)[SUMS], const Place& place) const {
    const float first = bias(place.x), second = bias(place.next_x);
#pragma unroll
    for (int i = 0; i < SUMS; ++i) sums[i] += i & 2 ? second : first;
  }

  /// Loaded once by the warp, and not by the eight lanes of a column each.
  __device__ __forceinline__ void add_bias_along_y(float (&sums)[SUMS], const Place& place) const {
    const int lane = threadIdx.x % WARP, within = lane % 4 * 2;
    auto* const columns = reinterpret_cast<float*>(staging);
    for (int i = lane; i < 2 * SUMS; i += WARP) columns[i] = bias(place.y - within + i);
    __syncwarp();
#pragma unroll
    for (int i = 0; i < SUMS; i += 4) {
      const float2 pair = *reinterpret_cast<const float2*>(columns + 2 * i + within);
      sums[i] += pair.x;
      sums[i + 1] += pair.y;
      sums[i + 2] += pair.x;
      sums[i + 3] += pair.y;
    }
    __syncwarp();
  }

  /// IN_PAIRS: neighbours in a row may be written as 8 bytes.
  template <bool IN_PAIRS>
  __device__ __forceinline__ void store_rows(const float (&sums)[SUMS], const Place& place) const {
    const int64_t pitch = epilogue.out.row_stride;
    const auto store = [](float* to, float first, float second, bool has_second) {
      if constexpr (IN_PAIRS) {
        *reinterpret_cast<float2*>(to) = {first, second};
      } else {
        to[0] = first;
        if (has_second) to[1] = second;
      }
    };
    if (turned) {
      if (place.x >= place.end_x) return;
      const bool has_next = place.next_x < place.end_x;
      float* to = epilogue.out.data + place.y * pitch + place.x;
#pragma unroll
      for (int i = 0; i < SUMS; i += 4, to += 8 * pitch) {
        const int y = place.y + 2 * i;
        if (y < place.end_y) store(to, sums[i], sums[i + 2], has_next);
        if (y + 1 < place.end_y) store(to + pitch, sums[i + 1], sums[i + 3], has_next);
      }
    } else {
      const bool has_first = place.x < place.end_x, has_second = place.next_x < place.end_x;
      float* const first = epilogue.out.data + place.x * pitch + place.y;
      float* const second = epilogue.out.data + place.next_x * pitch + place.y;
#pragma unroll
      for (int i = 0; i < SUMS; i += 4) {
        const int y = place.y + 2 * i;
        if (y >= place.end_y) continue;
        const bool has_next = y + 1 < place.end_y;
        if (has_first) store(first + 2 * i, sums[i], sums[i + 1], has_next);
        if (has_second) store(second + 2 * i, sums[i + 2], sums[i + 3], has_next);
      }
    }
  }

  __device__ __forceinline__ void store_any(int row, int col, float first, float second) const {
    const float pair[2] = {first, second};
    epilogue.store(row, col, pair);
  }
};

}  // namespace SMEM_BUILD
}  // namespace smem::gemm::sm90
