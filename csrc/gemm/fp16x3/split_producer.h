// The producer of skinny_m_kernel.h: warps that load columns of B in float32, split them into hi
// and lo, and store these to shared memory for the warps that multiply.
//
// The speculation. A column's power of two depends on its largest element, but B is to be read only
// once. So a stage is split with the power of two of the largest element so far (RunningScale):
//
//   1. When amax grows, the column's scale_exponent falls by d. The producer passes the factor 2^-d
//      with the stage, and the consumers multiply their accumulators by it first.
//   2. Invariant: the bits of the result are those of a split by the final scale. hi and lo of a
//      represented element do not depend on the power of two, nor do the accumulators, except for
//      elements whose scaled exponent is MIN_EXPONENT (scale.h), as lo is rounded more coarsely
//      among fp16's subnormal numbers.
//   3. When an element comes near to that (may_become_outlier), the warp reads the rest of the
//      column ahead. From then on the column's scale is final: its elements are split as scale.h
//      says, and an outlier is stored and zeroed. About 2^-25 of normally distributed elements make
//      a warp read ahead; most matrices of a large model's layer have a few.
//   4. At the end of a tile, is_valid() checks each column: the scale is the final one, and nothing
//      that was split before step 3 is outside the range under it. This fails if the largest
//      elements came late, or are so far from 1 that the exponent was clamped. Then the tile is
//      flagged in RecomputeFlags and computed again: `measure` reads its columns for their final
//      scales, and split_stage<FINAL = true> splits by these.
//
// Data flow of a thread, LOAD_STAGES deep:
//
//   B --cp.async--> raw ring (raw_ring.h) --> registers --> amax, split --> stage of hi, lo
//   (shared)
//
// This code makes most of the kernel's instructions, 9 per element. At 20 they limited the kernel
// to 40% of the memory bandwidth. LOAD_STAGES and the thread maps in b_layout.h may be changed
// without a change of the results.
#pragma once

#include <type_traits>

#include "device/mbarrier.h"
#include "gemm/fp16x3/raw_ring.h"
#include "gemm/fp16x3/running_scale.h"

namespace smem::gemm::fp16x3::inline SMEM_BUILD {

using split::RowScale;

/// A producer thread for a tile of COLUMN_GROUPS groups of columns. LOAD_STAGES stages are in
/// flight from memory, 8 KB per group each.
template <typename BLayout, int COLUMN_GROUPS, int LOAD_STAGES>
struct SplitProducer {
  using Ring =
      std::conditional_t<BLayout::IS_ROW_RING, RowRing<BLayout, COLUMN_GROUPS, LOAD_STAGES>,
                         VectorRing<BLayout, COLUMN_GROUPS, LOAD_STAGES>>;
  static constexpr int RAW_BYTES = Ring::BYTES;
  static constexpr bool SPLITS = true;
  static constexpr int THREADS = COLUMN_GROUPS * BLayout::WARPS * 32;
  static constexpr int ARRIVALS = THREADS;  ///< on `full`, per stage
  static constexpr int TILE_N = COLUMN_GROUPS * GROUP_COLS;
  /// From one column to the next in a stage, and from one k block to the next.
  static constexpr int COLUMN_PITCH = COLUMN_BYTES, K_BLOCK_PITCH = K_BLOCK_BYTES;
  static constexpr int STAGE_BYTES = TILE_N * COLUMN_PITCH;

  /// `tiles` per k slice; `stages` along K if there is one slice. `raw` is the ring's memory.
  __device__ __forceinline__ SplitProducer(const split::SplitOperand& b, unsigned tiles, int stages,
                                           unsigned char* raw)
      : b(b),
        tiles(tiles),
        stages(stages),
        layout(threadIdx.x / 32 % BLayout::WARPS, threadIdx.x % 32),
        column(threadIdx.x / 32 / BLayout::WARPS * GROUP_COLS + layout.column),
        ring(b, layout, raw) {}

  /// Starts to load every `step`-th tile from `tile` on, below `end`; tiles are counted over all k
  /// slices. All stages of these tiles must be consumed before the next call.
  __device__ __forceinline__ void prefetch(unsigned tile, unsigned step, unsigned end) {
    load_tile = tile;
    load_tile_step = step;
    load_tile_end = end;
    raw_stage = 0;
    begin_load_tile();
    for (int i = 0; i < LOAD_STAGES; ++i) {
      load_next_stage();
      if (++raw_stage == LOAD_STAGES) raw_stage = 0;
    }
  }

  /// Starts with the next tile that was prefetched.
  __device__ __forceinline__ void begin_tile(unsigned tile) {
    current = position_of(tile);
    ring.begin_reads(current.src, current.col);
#pragma unroll
    for (RunningScale& scale : running) scale = {};
  }

  /// Splits the next stage into `dst`, COLUMN_BYTES per column, when the barrier `empty` allows it.
  /// Stores to `factors` by what the consumers must multiply each column's accumulators. FINAL:
  /// `measure` has found the scales.
  template <bool FINAL>
  __device__ __forceinline__ void split_stage(int stage, unsigned char* dst, float* factors,
                                              Barrier& empty, uint32_t parity) {
    FloatVec vecs[BLayout::VECS];
    consume_raw_stage(vecs);
    float factor[BLayout::COLS];
    if constexpr (FINAL) {
#pragma unroll
      for (int c = 0; c < BLayout::COLS; ++c) extract_outlier(vecs, stage, c, scales[c]);
    } else {
      update_scales(vecs, stage, factor);
    }
    empty.wait(parity);
    dst += column * COLUMN_BYTES + layout.k * int{sizeof(half)};
#pragma unroll
    for (int c = 0; c < BLayout::COLS; ++c, dst += COLUMN_BYTES) {
#pragma unroll
      for (int k_block = 0; k_block < STAGE_K_BLOCKS; ++k_block) {
        using HalfVec = Vector<half, BLayout::ELEMENTS>;
        const auto elements = elements_of(vecs, c, k_block);
        HalfVec hi, lo;
        if constexpr (FINAL) {
          const split::HiLo<BLayout::ELEMENTS> result(elements, scales[c]);
          hi = result.hi;
          lo = result.lo;
        } else {
          split_represented(elements, running[c].scale_exponent, hi, lo);
        }
        *reinterpret_cast<HalfVec*>(dst + k_block * K_BLOCK_BYTES) = hi;
        *reinterpret_cast<HalfVec*>(dst + k_block * K_BLOCK_BYTES + K_BLOCK_BYTES / 2) = lo;
      }
      if (layout.k == 0) factors[column + c] = FINAL ? 1 : factor[c];
    }
  }

  /// To be called after the last stage of a tile. Stores the scales of the columns, also packed to
  /// `packed_scales` for the consumers. Returns whether those of the thread's columns are valid.
  template <bool FINAL>
  __device__ __forceinline__ bool finish_tile(int* packed_scales) {
    bool are_valid = true;
#pragma unroll
    for (int c = 0; c < BLayout::COLS; ++c) {
      if constexpr (!FINAL) {
        RunningScale& scale = running[c];
#pragma unroll
        for (int mask = BLayout::FIRST_XOR; mask <= BLayout::LAST_XOR; mask *= 2) {
          scale.amin_key = min(scale.amin_key, __shfl_xor_sync(~0u, scale.amin_key, mask));
        }
        are_valid &= scale.is_valid();
        scales[c] = {scale.amax == 0 ? 0 : scale.scale_exponent, scale.status};
      }
      if (layout.k > 0) continue;
      packed_scales[column + c] = scales[c].pack();
      if (current.col + c < b.mn) {
        split::store_row_scale(b, current.slice_first_row + current.col + c, scales[c]);
      }
    }
    return are_valid;
  }

  /// Reads the columns of a tile only to find their final scales.
  __device__ __forceinline__ void measure(unsigned tile, int stages) {
    AbsMinMax minmax[BLayout::COLS];
    prefetch(tile, 1, tile + 1);
    begin_tile(tile);
    for (int stage = 0; stage < stages; ++stage) {
      FloatVec vecs[BLayout::VECS];
      consume_raw_stage(vecs);
#pragma unroll
      for (int c = 0; c < BLayout::COLS; ++c) {
#pragma unroll
        for (int k_block = 0; k_block < STAGE_K_BLOCKS; ++k_block) {
          for (const float element : elements_of(vecs, c, k_block).lane) minmax[c].include(element);
        }
      }
    }
#pragma unroll
    for (int c = 0; c < BLayout::COLS; ++c) {
      scales[c] =
          split::row_scale_of(minmax[c].warp_reduce(2 * BLayout::LAST_XOR, BLayout::FIRST_XOR));
    }
  }

 private:
  /// Where a tile is in B, for this thread.
  struct TilePosition {
    int64_t col;              ///< the thread's first column
    int64_t slice_first_row;  ///< the number of the k slice's first column among the results
    const float* src;         ///< the k slice's first element
    int length;               ///< of the k slice, with split-K
  };

  const split::SplitOperand& b;
  unsigned tiles;
  int stages;
  BLayout layout;
  int column;  ///< the thread's first in a tile
  Ring ring;
  TilePosition current;
  RunningScale running[BLayout::COLS];
  RowScale scales[BLayout::COLS];

  // What is loaded next.
  int raw_stage;  ///< the oldest stage in flight, which the next load replaces
  unsigned load_tile, load_tile_step, load_tile_end;
  int load_stages_left;  ///< in the tile

  __device__ __forceinline__ TilePosition position_of(unsigned tile) const {
    const unsigned slice_index = tile / tiles;
    const int64_t col = int64_t{tile - slice_index * tiles} * TILE_N + column,
                  slice_first_row = slice_index * b.mn;
    if constexpr (BLayout::SPLIT_K) {
      const split::KSlice slice(b, slice_index);
      return {col, slice_first_row, slice.src, static_cast<int>(slice.length)};
    }
    return {col, slice_first_row, b.src + slice_index * b.batch_stride, 0};
  }

  /// The length of K, or of the k slice.
  __device__ __forceinline__ int length_of(const TilePosition& position) const {
    return BLayout::SPLIT_K ? position.length : static_cast<int>(b.k);
  }

  __device__ __forceinline__ void begin_load_tile() {
    const TilePosition position = position_of(load_tile);
    ring.begin_copies(position.src, length_of(position), position.col);
    load_stages_left = BLayout::SPLIT_K ? ceil_div(position.length, STAGE_K) : stages;
  }

  /// Starts to load the next stage, if there is one.
  __device__ __forceinline__ void load_next_stage() {
    if (load_tile < load_tile_end) {
      ring.copy(raw_stage);
      if (--load_stages_left == 0) {
        load_tile += load_tile_step;
        begin_load_tile();
      }
    }
    cp_async_commit();
  }

  /// Waits for the oldest stage in flight, moves it to `vecs`, and loads another one in its place.
  __device__ __forceinline__ void consume_raw_stage(FloatVec (&vecs)[BLayout::VECS]) {
    cp_async_wait<LOAD_STAGES - 1>();
    ring.read(raw_stage, vecs);
    load_next_stage();
    if (++raw_stage == LOAD_STAGES) raw_stage = 0;
  }

  __device__ __forceinline__ static Vector<float, BLayout::ELEMENTS> elements_of(
      const FloatVec (&vecs)[BLayout::VECS], int c, int k_block) {
    Vector<float, BLayout::ELEMENTS> elements;
#pragma unroll
    for (int e = 0; e < BLayout::ELEMENTS; ++e) {
      elements.lane[e] = BLayout::element(vecs, c, k_block, e);
    }
    return elements;
  }

  /// Updates the running scales by a stage's elements, makes them final and extracts outliers where
  /// that is necessary (step 3 above). `factor`: the factors of the scales' changes.
  __device__ __forceinline__ void update_scales(FloatVec (&vecs)[BLayout::VECS], int stage,
                                                float (&factor)[BLayout::COLS]) {
    uint32_t amin_key[BLayout::COLS];
    int previous_exponent[BLayout::COLS];
    bool may_have_outlier = false;
#pragma unroll
    for (int c = 0; c < BLayout::COLS; ++c) {
      previous_exponent[c] = running[c].scale_exponent;
      amin_key[c] = update_column(vecs, c);
      may_have_outlier |= running[c].may_become_outlier(amin_key[c]);
    }
    if (__any_sync(~0u, may_have_outlier)) finalize_scales(vecs, stage, amin_key);
#pragma unroll
    for (int c = 0; c < BLayout::COLS; ++c) {
      RunningScale& scale = running[c];
      if (!scale.is_final) scale.amin_key = min(scale.amin_key, amin_key[c]);
      // The factor must be a normal number. If the scale falls by more than 126 binades, either the
      // accumulators are zero or is_valid() will fail.
      factor[c] = split::power_of_two(max(scale.scale_exponent - previous_exponent[c], -126));
    }
  }

  /// Updates a column's scale. Returns the smallest magnitude key of the thread's elements.
  __device__ __forceinline__ uint32_t update_column(const FloatVec (&vecs)[BLayout::VECS], int c) {
    RunningScale& scale = running[c];
    MagnitudeRange range;
#pragma unroll
    for (int k_block = 0; k_block < STAGE_K_BLOCKS; ++k_block) {
#pragma unroll
      for (int e = 0; e < BLayout::ELEMENTS; e += 2) {
        range.include(BLayout::element(vecs, c, k_block, e),
                      BLayout::element(vecs, c, k_block, e + 1));
      }
    }
    scale.amax = max(scale.amax, range.amax());
#pragma unroll
    for (int mask = BLayout::FIRST_XOR; mask <= BLayout::LAST_XOR; mask *= 2) {
      scale.amax = max(scale.amax, __shfl_xor_sync(~0u, scale.amax, mask));
    }
    scale.update();
    return range.amin_key;
  }

  /// By a whole warp: reads the rest of each column that may have an outlier in this stage, makes
  /// its scale final, and extracts the outliers of the stage.
  __device__ __forceinline__ void finalize_scales(FloatVec (&vecs)[BLayout::VECS], int stage,
                                                  const uint32_t (&amin_key)[BLayout::COLS]) {
#pragma unroll
    for (int c = 0; c < BLayout::COLS; ++c) {
      RunningScale& scale = running[c];
      unsigned requests =
          __ballot_sync(~0u, !scale.is_final && scale.may_become_outlier(amin_key[c]));
      while (requests) {
        const int requested = __shfl_sync(~0u, column, __ffs(requests) - 1);
        const int64_t col = current.col - column + requested + c;
        const AbsMinMax rest = minmax_from<VEC_SIZE * BLayout::VECS>(
            current.src + col * b.mn_stride, b.k_stride, stage * STAGE_K, length_of(current));
        if (column == requested) scale.finalize(rest);
        requests &= ~__ballot_sync(~0u, column == requested);
      }
    }
    // minmax_from needs the registers of `vecs`, so the stage's elements are read again.
    const int k_begin = layout.k + stage * STAGE_K;
    const int k_left = current.col < b.mn ? length_of(current) - k_begin : 0;
    const float* const src = current.src + current.col * b.mn_stride + k_begin * b.k_stride;
#pragma unroll
    for (int v = 0; v < BLayout::VECS; ++v) {
#pragma unroll
      for (int e = 0; e < VEC_SIZE; e += BLayout::COPY_ELEMENTS) {
        using Loaded = Vector<float, BLayout::COPY_ELEMENTS>;
        *reinterpret_cast<Loaded*>(vecs[v].lane + e) =
            BLayout::k_of(v, e) < k_left
                ? load_vector<BLayout::COPY_ELEMENTS>(src + BLayout::offset_of(v, e, b.k_stride))
                : Loaded{};
      }
    }
#pragma unroll
    for (int c = 0; c < BLayout::COLS; ++c) {
      extract_outlier(vecs, stage, c, {running[c].scale_exponent, running[c].status});
    }
  }

  /// If the column's status is ONE_OUTLIER and the outlier is in this stage, stores and zeroes it.
  __device__ __forceinline__ void extract_outlier(FloatVec (&vecs)[BLayout::VECS], int stage, int c,
                                                  RowScale scale) const {
    if (scale.status != split::ONE_OUTLIER) return;
    const int64_t k_begin = int64_t{stage} * STAGE_K + layout.k;
#pragma unroll
    for (int k_block = 0; k_block < STAGE_K_BLOCKS; ++k_block) {
#pragma unroll
      for (int e = 0; e < BLayout::ELEMENTS; ++e) {
        float& element = BLayout::element(vecs, c, k_block, e);
        if (split::store_if_outlier(b, current.slice_first_row + current.col + c,
                                    k_begin + k_block * split::K_BLOCK + e, element, scale)) {
          element = 0;
        }
      }
    }
  }
};

}  // namespace smem::gemm::fp16x3::inline SMEM_BUILD
