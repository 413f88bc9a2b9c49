// The products of a tile of skinny_m_kernel.h, and their way to out.
//
// Operands are swapped: 16 columns of B are the rows of mma's A, and rows of A the columns of its
// B.
#pragma once

#include "device/mma.h"
#include "gemm/fp16x3/skinny_m_params.h"
#include "gemm/fp16x3/linear_combination.h"

namespace smem::gemm::fp16x3::few {
inline namespace SMEM_BUILD {

/// What a warp that multiplies adds up: of 16 columns and 8 ROW_TILES rows. Sum i of a lane is
/// column lane / 4, or the one 8 further, and row 2 (lane % 4), or the next.
template <typename Shape>
struct Products {
  using Sums = float[Shape::ROW_TILES][4];

  Sums small = {}, sums = {}, totals = {};
  int codes[2];  ///< of the columns' scales

  /// Multiplies and adds all of K.
  __device__ __forceinline__ void add_all(int stages, int steps, const Shared<Shape>& shared,
                                          int group, int first_row, int first_col,
                                          typename Shape::Turn& turn) {
    const int lane = threadIdx.x % WARP;
    const uint32_t b_place = (group * COLUMNS + lane % 16) * COLUMN_BYTES + lane / 16 * 16;
    // TMA's swizzle: the 16-byte part of a row is XORed with the row.
    const uint32_t a_place = (first_row + lane % 8) * PIECE_BYTES + ((lane / 8) ^ (lane % 8)) * 16;
    for (int stage = 0; stage < stages; ++stage, turn.next()) {
      shared.full[turn.stage].wait(turn.parity);
      const float* const factors = shared.factors(turn.stage) + group * COLUMNS + lane / 4;
      scale(factors[0], factors[8]);
      const uint32_t b = shared_address(shared.b(turn.stage)) + b_place;
      const uint32_t a = shared_address(shared.a(turn.stage)) + a_place;
#pragma unroll
      for (int p = 0; p < PIECES; ++p) {
        const int step = stage * PIECES + p;
        if (step >= steps) break;
        add_piece(a + p * Shape::A_PIECE_BYTES, b + p * PIECE_BYTES);
        if ((p + 1) % TURN == 0 || step + 1 == steps) {
          add_to_totals(step / TURN % GROUPS, first_col + lane / 4);
        }
      }
      const int* const columns = shared.codes(turn.stage) + group * COLUMNS + lane / 4;
      codes[0] = columns[0];
      codes[1] = columns[8];
      shared.empty[turn.stage].arrive();
    }
  }

  __device__ __forceinline__ float value(int tile, int i) const {
    return value_of(totals[tile][i], sums[tile][i], small[tile][i]);
  }

 private:
  __device__ __forceinline__ void scale(float upper, float lower) {
#pragma unroll
    for (int t = 0; t < Shape::ROW_TILES; ++t) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float factor = i & 2 ? lower : upper;
        small[t][i] *= factor;
        sums[t][i] *= factor;
        totals[t][i] *= factor;
      }
    }
  }

  /// `col`: of the lane's first sums.
  __device__ __forceinline__ void add_to_totals(int group, int col) {
#pragma unroll
    for (int t = 0; t < Shape::ROW_TILES; ++t) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (group_of(col + (i & 2) * 4) == group) add_to_total(totals[t][i], sums[t][i]);
      }
    }
  }

  /// The addresses are the lane's, for ldmatrix.
  __device__ __forceinline__ void add_piece(uint32_t a, uint32_t b) {
    constexpr uint32_t K16 = 32, LOW = PIECE_BYTES / 2;
    unsigned b_hi[2][4], b_lo[2][4];
#pragma unroll
    for (int k16 = 0; k16 < 2; ++k16) {
      ldmatrix<false>(b_hi[k16], b + k16 * K16);
      ldmatrix<false>(b_lo[k16], b + k16 * K16 + LOW);
    }
#pragma unroll
    for (int t = 0; t < Shape::ROW_TILES; ++t) {
      unsigned a_hi[4], a_lo[4];
      ldmatrix<false>(a_hi, a + t * TILE_ROWS * PIECE_BYTES);
      ldmatrix<false>(a_lo, (a ^ LOW) + t * TILE_ROWS * PIECE_BYTES);
      float chain[4] = {};
#pragma unroll
      for (int k16 = 0; k16 < 2; ++k16) {
        mma_sync<half>(chain, b_hi[k16], a_hi[2 * k16], a_hi[2 * k16 + 1]);
        mma_sync<half>(small[t], b_lo[k16], a_hi[2 * k16], a_hi[2 * k16 + 1]);
        mma_sync<half>(small[t], b_hi[k16], a_lo[2 * k16], a_lo[2 * k16 + 1]);
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) sums[t][i] += chain[i];
    }
  }
};

/// A warp's sums to out, but for EXACT lines, which it notes; IN_PARTS to the parts' sums, all of
/// them. `rows`: codes of their scales.
template <typename Shape>
__device__ __forceinline__ void write(const Products<Shape>& products, const Arguments& args,
                                      const PartOfTile<Shape>& of, int first_row, int64_t first_col,
                                      const int (&rows)[Shape::ROW_TILES * 2], Notes& notes) {
  constexpr int SUMS = Shape::ROW_TILES * 4;
  constexpr bool IN_PARTS = Shape::Lie::IN_PARTS;
  const auto epilogue = sm90::epilogue_at_batch(args.epilogue, args.strides, of.member);
  const int lane = threadIdx.x % WARP;
  const auto row_of = [&](int i) { return first_row + i / 4 * TILE_ROWS + lane % 4 * 2 + i % 2; };
  const auto col_of = [&](int i) { return first_col + lane / 4 + (i & 2) * 4; };
  float values[SUMS];
  bool are_special = false;
#pragma unroll
  for (int i = 0; i < SUMS; ++i) {
    const auto row = Scale::of_code(rows[i / 4 * 2 + i % 2]);
    const auto col = Scale::of_code(products.codes[i / 2 % 2]);
    values[i] = products.value(i / 4, i % 4);
    if (!IN_PARTS || !args.partials) {
      values[i] = scaled(values[i], -(row.binades_up + col.binades_up));
    }
    if (IN_PARTS && (row.mark == EXACT || col.mark == EXACT)) notes.has_exact = 1;
    are_special |= row.mark != split::CARRIED || col.mark != split::CARRIED;
  }
  if (IN_PARTS && args.partials) {
    const int64_t cols = epilogue.out.cols;
#pragma unroll
    for (int i = 0; i < SUMS; ++i) {
      const int64_t row = row_of(i), col = col_of(i);
      if (row < args.rows && col < cols) {
        args.partials[(int64_t{of.index} * args.rows + row) * cols + col] = values[i];
      }
    }
    return;
  }
  are_special = __any_sync(~0u, are_special);
  if (!are_special && is_plain(epilogue)) {
#pragma unroll
    for (int i = 0; i < SUMS; ++i) {
      const int row = row_of(i);
      const int64_t col = col_of(i);
      if (!epilogue.out.contains(row, col)) continue;
      epilogue.out(row, col) = plain_element(epilogue, col, values[i]);
    }
    return;
  }
  const Lines a = lines_of(args.a_lines, of.member), b = lines_of(args.b_lines, of.member);
  // A loop, because so many copies of the activations would be much code.
#pragma unroll 1
  for (int i = 0; i < SUMS; ++i) {
    const int row = row_of(i);
    const int64_t col = col_of(i);
    if (row >= epilogue.out.rows || col >= epilogue.out.cols) continue;
    if (are_special && (a.mark[row] == EXACT || b.mark[col] == EXACT)) {
      notes.has_exact = 1;
    } else {
      epilogue.store(row, col, are_special ? mended(a, row, b, col, values[i]) : values[i]);
    }
  }
}

/// A tile's EXACT lines as SIMT kernels do it, an element a thread. By all threads of the block.
template <typename Shape>
__device__ __forceinline__ void compute_exact_lines(const Arguments& args, unsigned tile) {
  const PartOfTile<Shape> of(args, tile);
  const int64_t first_col = int64_t{tile - of.index * args.tiles} * Shape::COLS;
  const Lines a = lines_of(args.a_lines, of.member, of.part);
  const Lines b = lines_of(args.b_lines, of.member, of.part);
  const auto epilogue = sm90::epilogue_at_batch(args.epilogue, args.strides, of.member);
  const int cols = static_cast<int>(min(int64_t{Shape::COLS}, epilogue.out.cols - first_col));
  for (int i = static_cast<int>(threadIdx.x); i < args.rows * cols; i += Shape::THREADS) {
    const int row = i / cols;
    const int64_t col = first_col + i % cols;
    if (a.mark[row] != EXACT && b.mark[col] != EXACT) continue;
    Walk<const float> along_a{a.from + row * a.line_stride, a.stride};
    Walk<const float> along_b{b.from + col * b.line_stride, b.stride};
    ChunkedSums<Accumulator<float>> sum;
    for_each_step<1>(of.length, sum, [&](int64_t) {
      const float of_a = along_a.next(), of_b = along_b.next();
      sum.add_product(to_accumulator(of_a), to_accumulator(of_b));
    });
    if (Shape::Lie::IN_PARTS && args.partials) {
      args.partials[(int64_t{of.index} * args.rows + row) * epilogue.out.cols + col] = sum.value();
    } else {
      epilogue.store(row, col, sum.value());
    }
  }
}

}  // namespace SMEM_BUILD
}  // namespace smem::gemm::fp16x3::few
