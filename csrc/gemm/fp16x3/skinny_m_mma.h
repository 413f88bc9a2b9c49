// The consumers of skinny_m_kernel.h: the products of a tile, and their epilogue.
//
// Operands are swapped: 16 columns of B are the m16 of mma.m16n8k16, and 8 rows of A its n8.
#pragma once

#include "device/mma.h"
#include "device/speculative_load.h"
#include "gemm/fp16x3/fallback_element.h"
#include "gemm/fp16x3/lane_output.h"
#include "gemm/fp16x3/linear_combination.h"
#include "gemm/fp16x3/skinny_m_params.h"

namespace smem::gemm::fp16x3::skinny_m::inline SMEM_BUILD {

/// The accumulators of a warp, for 16 columns and ROW_TILES times 8 rows. Accumulator i of a lane
/// is in column lane / 4, or 8 further, and in row 2 (lane % 4), or the next one.
template <typename Config>
struct TileMma {
  using Accum = float[Config::ROW_TILES][4];
  using Producer = typename Config::Producer;

  Accum cross_accum = {}, accum = {}, totals = {};
  int packed_scales[2];  ///< RowScales of the lane's two columns

  /// Multiplies and adds all of the tile's k slice, in the order of promotion.h.
  __device__ __forceinline__ void multiply(int stages, int k_blocks,
                                           const SkinnyMSmem<Config>& smem, int column_group,
                                           int first_row, int first_col,
                                           typename Config::Pipeline& pipeline) {
    const int lane = threadIdx.x % WARP;
    const uint32_t b_offset = (column_group * GROUP_COLS + lane % 16) * Producer::COLUMN_PITCH +
                              ((lane / 16) ^ (Producer::SPLITS ? 0 : lane % 8)) * 16;
    // TMA's swizzle: the index of a row's 16-byte vector is XORed with the row.
    const uint32_t a_offset =
        (first_row + lane % 8) * K_BLOCK_BYTES + ((lane / 8) ^ (lane % 8)) * 16;
    for (int stage = 0; stage < stages; ++stage, pipeline.next()) {
      smem.full[pipeline.stage].wait(pipeline.parity);
      if constexpr (Producer::SPLITS) {
        const float* const factors =
            smem.factors(pipeline.stage) + column_group * GROUP_COLS + lane / 4;
        rescale(factors[0], factors[8]);
      }
      const uint32_t b = shared_address(smem.b(pipeline.stage)) + b_offset;
      const uint32_t a = shared_address(smem.a(pipeline.stage)) + a_offset;
      const int col = first_col + lane / 4;
      if (LOADS_WHOLE_STAGES && (stage + 1) * STAGE_K_BLOCKS <= k_blocks) {
        multiply_whole_stage(a, b, stage, col);
      } else {
#pragma unroll
        for (int i = 0; i < STAGE_K_BLOCKS; ++i) {
          const int k_block = stage * STAGE_K_BLOCKS + i;
          if (k_block >= k_blocks) break;
          multiply_k_block(a + i * Config::A_K_BLOCK_BYTES, b + i * Producer::K_BLOCK_PITCH);
          if ((i + 1) % PROMOTION_INTERVAL == 0 || k_block + 1 == k_blocks) {
            promote_group(k_block / PROMOTION_INTERVAL % PROMOTION_GROUPS, col);
          }
        }
      }
      if constexpr (Producer::SPLITS) {
        const int* const scales =
            smem.packed_scales(pipeline.stage) + column_group * GROUP_COLS + lane / 4;
        packed_scales[0] = speculative_load(scales);
        packed_scales[1] = speculative_load(scales + 8);
      }
      smem.empty[pipeline.stage].arrive();
    }
  }

  __device__ __forceinline__ float value(int row_tile, int i) const {
    return combine(totals[row_tile][i], accum[row_tile][i], cross_accum[row_tile][i]);
  }

 private:
  /// Multiplies the accumulators of the lane's two columns by the factors of their scales' changes.
  __device__ __forceinline__ void rescale(float first, float second) {
#pragma unroll
    for (int t = 0; t < Config::ROW_TILES; ++t) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float factor = i & 2 ? second : first;
        cross_accum[t][i] *= factor;
        accum[t][i] *= factor;
        totals[t][i] *= factor;
      }
    }
  }

  /// `col` is the lane's first column.
  __device__ __forceinline__ void promote_group(int group, int col) {
#pragma unroll
    for (int t = 0; t < Config::ROW_TILES; ++t) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (promotion_group(col + (i & 2) * 4) == group) promote(totals[t][i], accum[t][i]);
      }
    }
  }

  /// The address of the 16-byte vector that is `vec` vectors after the one at `address` in its
  /// column of B. TMA has swizzled hi and lo that were split before.
  __device__ __forceinline__ static uint32_t vec_after(uint32_t address, uint32_t vec) {
    return Producer::SPLITS ? address + vec * 16 : address ^ (vec * 16);
  }

  static constexpr uint32_t LO = K_BLOCK_BYTES / 2;  ///< from hi to lo, in bytes

  /// hi and lo of a k block of the warp's columns.
  struct ColumnFragments {
    unsigned hi[2][4], lo[2][4];

    __device__ __forceinline__ explicit ColumnFragments(uint32_t b) {
      constexpr uint32_t K16_VECS = 2;
#pragma unroll
      for (int k16 = 0; k16 < 2; ++k16) {
        ldmatrix<false>(hi[k16], vec_after(b, k16 * K16_VECS));
        ldmatrix<false>(lo[k16], vec_after(b, k16 * K16_VECS + LO / 16));
      }
    }
  };

  /// hi and lo of a k block of 8 rows.
  struct RowFragments {
    unsigned hi[4], lo[4];

    __device__ __forceinline__ RowFragments(uint32_t a, int row_tile) {
      ldmatrix<false>(hi, a + row_tile * MMA_ROWS * K_BLOCK_BYTES);
      ldmatrix<false>(lo, (a ^ LO) + row_tile * MMA_ROWS * K_BLOCK_BYTES);
    }
  };

  __device__ __forceinline__ void multiply_fragments(const ColumnFragments& cols,
                                                     const RowFragments& rows, int row_tile) {
    float k_block_accum[4] = {};
#pragma unroll
    for (int k16 = 0; k16 < 2; ++k16) {
      const unsigned hi[] = {rows.hi[2 * k16], rows.hi[2 * k16 + 1]};
      mma_sync<half>(k_block_accum, cols.hi[k16], hi[0], hi[1]);
      mma_sync<half>(cross_accum[row_tile], cols.lo[k16], hi[0], hi[1]);
      mma_sync<half>(cross_accum[row_tile], cols.hi[k16], rows.lo[2 * k16], rows.lo[2 * k16 + 1]);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) accum[row_tile][i] += k_block_accum[i];
  }

  /// `a` and `b` are the lane's addresses for ldmatrix.
  __device__ __forceinline__ void multiply_k_block(uint32_t a, uint32_t b) {
    const ColumnFragments cols(b);
#pragma unroll
    for (int t = 0; t < Config::ROW_TILES; ++t) multiply_fragments(cols, RowFragments(a, t), t);
  }

  /// All fragments of a stage before the first product, which hides ldmatrix' latency. Where warps
  /// split B, these bind.
  static constexpr bool LOADS_WHOLE_STAGES = !Producer::SPLITS && Config::ROW_TILES == 1;

  __device__ __forceinline__ void multiply_whole_stage(uint32_t a, uint32_t b, int stage, int col) {
    static_assert(STAGE_K_BLOCKS == 4, "the k blocks of a stage are written out");
    const ColumnFragments cols[] = {ColumnFragments(b),
                                    ColumnFragments(b + Producer::K_BLOCK_PITCH),
                                    ColumnFragments(b + 2 * Producer::K_BLOCK_PITCH),
                                    ColumnFragments(b + 3 * Producer::K_BLOCK_PITCH)};
    const RowFragments rows[] = {RowFragments(a, 0), RowFragments(a + Config::A_K_BLOCK_BYTES, 0),
                                 RowFragments(a + 2 * Config::A_K_BLOCK_BYTES, 0),
                                 RowFragments(a + 3 * Config::A_K_BLOCK_BYTES, 0)};
#pragma unroll
    for (int i = 0; i < STAGE_K_BLOCKS; ++i) {
      multiply_fragments(cols[i], rows[i], 0);
      if ((i + 1) % PROMOTION_INTERVAL == 0) {
        promote_group((stage * STAGE_K_BLOCKS + i) / PROMOTION_INTERVAL % PROMOTION_GROUPS, col);
      }
    }
  }
};

/// The packed RowScale of a row whose split is in memory.
__device__ __forceinline__ int packed_scale_at(const SplitMetadata& metadata, int row) {
  return RowScale{-metadata.exponent[row], static_cast<split::SplitStatus>(metadata.status[row])}
      .pack();
}

/// Those of the lane's rows, from the warp's first row on.
template <int COUNT>
__device__ __forceinline__ void load_row_scales(const SplitMetadata& a, int first_row, int rows,
                                                int (&row_scales)[COUNT]) {
#pragma unroll
  for (int i = 0; i < COUNT; ++i) {
    const int row = first_row + i / 2 * MMA_ROWS + threadIdx.x % 4 * 2 + i % 2;
    row_scales[i] = packed_scale_at(a, min(row, rows - 1));
  }
}

/// Where a lane's accumulators go, and the exponents by which they are scaled: accumulator i of row
/// tile t to column i / 2 and, from `row` on, to row 8 t + i % 2.
template <int ROWS>
struct LaneTile {
  int row;
  int64_t cols[2];
  int row_exponents[ROWS], col_exponents[2];

  /// Stores them by an epilogue that adds a bias at most before the activation. The sum of two
  /// exponents is a normal number's. `pre` may be null.
  template <typename Mma>
  __device__ __forceinline__ void store(const Mma& mma, const Matrix<float>& out, float* pre,
                                        const float (&bias)[2], Activation activation) const {
    const bool has_relu = activation == Activation::relu;
    const bool has_relu_at_most = !pre && (has_relu || activation == Activation::none);
    LaneOutput output{out.at(row, cols[0]),
                      out.row_stride,
                      (cols[1] - cols[0]) * out.col_stride,
                      static_cast<int>(out.rows) - row,
                      (cols[0] < out.cols) + (cols[1] < out.cols),
                      false};
    if (pre) pre += output.to - out.data;
#pragma unroll
    for (int t = 0; t < ROWS / 2; ++t) {
      Vector<float, 4> values;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int exponent = row_exponents[t * 2 + i % 2] + col_exponents[i / 2];
        float& value = values.lane[i];
        value = rounded_product(mma.value(t, i), split::power_of_two(exponent)) + bias[i / 2];
        if (has_relu_at_most && has_relu) value = activate(Activation::relu, value);
      }
      if (has_relu_at_most) {
        output.store(values);
      } else {
        store_activated(output, pre, values, activation);
      }
      output.rows -= MMA_ROWS;
      output.to += MMA_ROWS * out.row_stride;
      if (pre) pre += MMA_ROWS * out.row_stride;
    }
  }

  /// Stores them by any epilogue, with the products of outliers if `is_special`, but not those of
  /// FALLBACK rows and columns. The loop is rolled, because copies would be much code.
  template <typename Mma>
  __device__ __forceinline__ void store_any(const Mma& mma, const Epilogue<float>& epilogue,
                                            const SplitMetadata& a, const SplitMetadata& b,
                                            bool is_special) const {
    // Copies, which are indexed, so that the originals can be in registers.
    float values[ROWS * 2];
    int exponents[ROWS];
#pragma unroll
    for (int i = 0; i < ROWS * 2; ++i) values[i] = mma.value(i / 4, i % 4);
#pragma unroll
    for (int r = 0; r < ROWS; ++r) exponents[r] = row_exponents[r];
#pragma unroll 1
    for (int i = 0; i < ROWS * 2; ++i) {
      const int element_row = row + i / 4 * MMA_ROWS + i % 2, c = i / 2 % 2;
      const int64_t col = cols[c];
      if (!epilogue.out.contains(element_row, col)) continue;
      float value = scale_by_exponent(values[i], exponents[i / 4 * 2 + i % 2] + col_exponents[c]);
      if (is_special) {
        if (a.status[element_row] == FALLBACK || b.status[col] == FALLBACK) continue;
        value = add_outlier_products(a, element_row, b, col, value);
      }
      epilogue.store(element_row, col, value);
    }
  }
};

/// Applies the epilogue to a warp's accumulators and stores them, except those of FALLBACK rows and
/// columns, which it flags. With split-K it stores all of them to the slice's partials instead.
/// `mma` has the warp's first row, and a lane's columns and their packed RowScales; `row_scales`
/// are those of the lane's rows.
template <typename Config, typename Mma>
__device__ __forceinline__ void write(const Mma& mma, const SkinnyMParams& params,
                                      const TileKSlice<Config>& slice, int first_row,
                                      const int64_t (&cols)[2],
                                      const int (&row_scales)[Config::ROW_TILES * 2],
                                      uint32_t& has_fallback) {
  constexpr int ROWS = Config::ROW_TILES * 2;
  const bool is_partial = Config::BLayout::SPLIT_K && params.partials;
  LaneTile<ROWS> tile{
      first_row + static_cast<int>(threadIdx.x % 4) * 2, {cols[0], cols[1]}, {}, {}};
  int status = split::REPRESENTABLE;
  bool are_small = true;
  const auto exponent_of = [&](int packed_scale) {
    const auto scale = RowScale::unpack(packed_scale);
    status |= scale.status;
    if (is_partial) return 0;
    are_small = are_small && is_small_exponent(scale.scale_exponent);
    return -scale.scale_exponent;
  };
#pragma unroll
  for (int r = 0; r < ROWS; ++r) tile.row_exponents[r] = exponent_of(row_scales[r]);
#pragma unroll
  for (int c = 0; c < 2; ++c) tile.col_exponents[c] = exponent_of(mma.packed_scales[c]);
  if (status & FALLBACK) has_fallback = 1;
  const auto epilogue = epilogue_at_batch(params.epilogue, params.strides, slice.batch);
  const bool is_special = __any_sync(~0u, status != split::REPRESENTABLE);
  const bool is_common = !is_special && __all_sync(~0u, are_small) && only_adds_bias(epilogue);
  if (!is_partial && !is_common) {
    return tile.store_any(mma, epilogue, metadata_at(params.a_metadata, slice.batch),
                          metadata_at(params.b_metadata, slice.batch), is_special);
  }
  float bias[2];
#pragma unroll
  for (int c = 0; c < 2; ++c) {
    const bool has_bias = !is_partial && epilogue.bias && cols[c] < epilogue.out.cols;
    // -0 is the neutral element of addition.
    bias[c] = has_bias ? epilogue.bias[cols[c] * epilogue.bias_stride] : -0.0f;
  }
  Matrix<float> out = epilogue.out;
  if (is_partial) {
    out = {params.partials + int64_t{slice.index} * params.rows * out.cols, params.rows, out.cols,
           out.cols, 1};
  }
  tile.store(mma, out, is_partial ? nullptr : epilogue.pre.data, bias,
             is_partial ? Activation::none : epilogue.activation);
}

/// Computes the elements of a tile's FALLBACK rows and columns by FMAs, in the order of the SIMT
/// kernels, one element per thread. Called by all threads of the block.
template <typename Config>
__device__ __forceinline__ void compute_fallback(const SkinnyMParams& params, unsigned tile) {
  const TileKSlice<Config> slice(params, tile);
  const int64_t first_col = int64_t{tile - slice.index * params.tiles} * Config::TILE_N;
  const SplitMetadata a = metadata_at(params.a_metadata, slice.batch, slice.k_slice);
  const SplitMetadata b = metadata_at(params.b_metadata, slice.batch, slice.k_slice);
  const auto epilogue = epilogue_at_batch(params.epilogue, params.strides, slice.batch);
  const int cols = static_cast<int>(min(int64_t{Config::TILE_N}, epilogue.out.cols - first_col));
  for (int i = static_cast<int>(threadIdx.x); i < params.rows * cols;
       i += Config::FALLBACK_THREADS) {
    const int row = i / cols;
    const int64_t col = first_col + i % cols;
    if (a.status[row] != FALLBACK && b.status[col] != FALLBACK) continue;
    const float total = fallback_element</*ROLLED=*/false>(a, row, b, col, slice.length);
    if (Config::BLayout::SPLIT_K && params.partials) {
      params.partials[(int64_t{slice.index} * params.rows + row) * epilogue.out.cols + col] = total;
    } else {
      epilogue.store(row, col, total);
    }
  }
}

}  // namespace smem::gemm::fp16x3::skinny_m::inline SMEM_BUILD
