// Warps that split columns of B on their way to those that multiply (few_rows.cu).
//
// The power of two of a column depends on all of it, and B is to be read once. So a column is split
// by the largest of its elements so far, and whoever multiplies scales what has been added when
// that grows: halves of numbers that they carry do not depend on the power of two, nor do sums of
// their products, but for numbers in the last binade of scale.h. Where a column has one that comes
// near to that, a warp reads all of the column, to know the power of two from then on. Of normally
// distributed numbers about 2^-25 do, most matrices of a large model's layer. A tile whose columns
// were split otherwise than scale.h has it, as its largest elements came late, or are far from 1,
// is computed again.
//
// This is most of the kernel's instructions, 9 an element; 20 bound it at 40% of the bandwidth.
#pragma once

#include "device/cp_async.h"
#include "device/mbarrier.h"
#include "gemm/halves/so_far.h"

namespace smem::gemm::halves {
inline namespace SMEM_BUILD {

using split::Extremes;
using split::Run;
using split::RUN;
using split::Scale;

/// Along K: a stage is four pieces, in each of which a column's 32 hi stand before its 32 lo.
constexpr int PIECES = 4, STAGE_K = PIECES * split::PIECE;
constexpr int PIECE_BYTES = 2 * split::PIECE * 2;
/// Of a column's stage: 16 bytes more than it has, so that eight columns lie in different banks.
constexpr int COLUMN_BYTES = PIECES * PIECE_BYTES + 16;
/// Columns that a group of warps splits: the rows of an instruction on the tensor cores.
constexpr int COLUMNS = 16;

/// B's columns lie along K: 8 lanes share one, each with 4 elements of every piece.
struct AlongK {
  static constexpr int WARPS = 4;                      ///< of a group
  static constexpr int VECTORS = PIECES;               ///< of 16 bytes a thread and stage
  static constexpr int LINES = 1;                      ///< columns of a thread
  static constexpr int ELEMENTS = RUN;                 ///< of a column and piece, neighbours
  static constexpr int FIRST_STEP = 1, LAST_STEP = 4;  ///< between lanes that share columns

  int column, along;  ///< the thread's first column, and its elements' place in a piece

  /// Two columns that are stored at once are four apart, in other banks.
  __device__ __forceinline__ AlongK(int warp, int lane)
      : column(warp + lane / 8 * 4), along(lane % 8 * RUN) {}
  /// A vector's place along K after the first one's, and in memory.
  __device__ __forceinline__ static constexpr int k_of(int vector) { return vector * split::PIECE; }
  __device__ __forceinline__ static int64_t offset_of(int vector, int64_t) { return k_of(vector); }
  /// Element e of a line in a piece.
  template <typename Runs>
  __device__ __forceinline__ static auto& element(Runs& runs, int, int piece, int e) {
    return runs[piece].lane[e];
  }
};

/// B's columns lie side by side: 16 lanes share four, each with 2 elements of every piece.
struct AcrossK {
  static constexpr int WARPS = 2;
  static constexpr int VECTORS = 2 * PIECES;
  static constexpr int LINES = RUN;
  static constexpr int ELEMENTS = 2;
  static constexpr int FIRST_STEP = 2, LAST_STEP = 16;

  int column, along;

  __device__ __forceinline__ AcrossK(int warp, int lane)
      : column(warp * 8 + lane % 2 * RUN), along(lane / 2 * 2) {}
  __device__ __forceinline__ static constexpr int k_of(int vector) {
    return vector / 2 * split::PIECE + vector % 2;
  }
  __device__ __forceinline__ static int64_t offset_of(int vector, int64_t stride) {
    return k_of(vector) * stride;
  }
  template <typename Runs>
  __device__ __forceinline__ static auto& element(Runs& runs, int line, int piece, int e) {
    return runs[2 * piece + e].lane[line];
  }
};

/// A thread of those that split a tile of columns. LOADS: stages under way from memory, 8 KB of a
/// group of columns each.
template <typename Lie, int COLUMN_GROUPS, int LOADS>
struct Splitter {
  static constexpr int THREADS = COLUMN_GROUPS * Lie::WARPS * 32;
  static constexpr int RAW_BYTES = LOADS * Lie::VECTORS * THREADS * int{sizeof(Run)};

  __device__ __forceinline__ Splitter(const split::Split& b, int64_t member, int64_t first_column,
                                      int stages, Run* raw)
      : b(b),
        stages(stages),
        lie(threadIdx.x / 32 % Lie::WARPS, threadIdx.x % 32),
        column(threadIdx.x / 32 / Lie::WARPS * COLUMNS + lie.column),
        line(first_column + column),
        first_line((b.members > 1 ? member : 0) * b.lines),
        begin(split::Part(b, b.members > 1 ? static_cast<uint32_t>(member) : 0).from),
        raw(raw + threadIdx.x) {}

  /// Begins at the first stage.
  __device__ __forceinline__ void rewind() {
    next = 0;
    from = begin + line * b.line_stride + lie.along * b.stride;
    for (int stage = 0; stage < LOADS; ++stage) load_next();
  }

  /// Splits a stage into `to`, a column COLUMN_BYTES, and leaves in `factors` what sums so far are
  /// to be multiplied with. KNOWN: after `measure`.
  template <bool KNOWN>
  __device__ __forceinline__ void split_stage(int stage, unsigned char* to, float* factors,
                                              Barrier& empty, uint32_t parity) {
    Run runs[Lie::VECTORS];
    take(stage, runs);
    float factor[Lie::LINES];
    if constexpr (!KNOWN) take_in(runs, stage, factor);
    empty.wait(parity);
    to += column * COLUMN_BYTES + lie.along * int{sizeof(half)};
#pragma unroll
    for (int i = 0; i < Lie::LINES; ++i, to += COLUMN_BYTES) {
#pragma unroll
      for (int p = 0; p < PIECES; ++p) {
        using Part = Vector<half, Lie::ELEMENTS>;
        const auto elements = elements_of(runs, i, p);
        Part hi, lo;
        if constexpr (KNOWN) {
          const split::Halves<Lie::ELEMENTS> halves(elements, scales[i]);
          hi = halves.hi;
          lo = halves.lo;
        } else {
          split_elements(elements, so_far[i].up, hi, lo);
        }
        *reinterpret_cast<Part*>(to + p * PIECE_BYTES) = hi;
        *reinterpret_cast<Part*>(to + p * PIECE_BYTES + PIECE_BYTES / 2) = lo;
      }
      if (KNOWN && scales[i].mark == split::MENDED) store_rests(runs, stage, i, scales[i]);
      if (lie.along == 0) factors[column + i] = KNOWN ? 1 : factor[i];
    }
  }

  /// After the last stage: stores the columns' scales, and says whether they hold.
  __device__ __forceinline__ bool finish() {
    bool hold = true;
#pragma unroll
    for (int i = 0; i < Lie::LINES; ++i) {
      SoFar& all = so_far[i];
#pragma unroll
      for (int step = Lie::FIRST_STEP; step <= Lie::LAST_STEP; step *= 2) {
        all.twice_least_less_one =
            min(all.twice_least_less_one, __shfl_xor_sync(~0u, all.twice_least_less_one, step));
      }
      hold &= all.holds();
      store_scale(i, {all.largest == 0 ? 0 : all.up, all.mark});
    }
    return hold;
  }

  /// Reads the columns for their scales alone, and stores these.
  __device__ __forceinline__ void measure() {
    Extremes extremes[Lie::LINES];
    rewind();
    for (int stage = 0; stage < stages; ++stage) {
      Run runs[Lie::VECTORS];
      take(stage, runs);
#pragma unroll
      for (int i = 0; i < Lie::LINES; ++i) {
#pragma unroll
        for (int p = 0; p < PIECES; ++p) {
          for (const float element : elements_of(runs, i, p).lane) extremes[i].add(element);
        }
      }
    }
#pragma unroll
    for (int i = 0; i < Lie::LINES; ++i) {
      const Extremes all = extremes[i].over_lanes(2 * Lie::LAST_STEP, Lie::FIRST_STEP);
      scales[i] = split::scale_of(all);
      store_scale(i, scales[i]);
    }
  }

 private:
  const split::Split& b;
  int stages;
  Lie lie;
  int column;    ///< the thread's first in the tile ...
  int64_t line;  ///< ... and in its member of B, whose first line and elements these are:
  int64_t first_line;
  const float* begin;
  Run* raw;  ///< the thread's places: of vector v of stage s at (s * VECTORS + v) * THREADS
  int next;  ///< stage to load ...
  const float* from;  ///< ... and the thread's first element there
  SoFar so_far[Lie::LINES];
  Scale scales[Lie::LINES];

  __device__ __forceinline__ Run* place(int stage, int vector) const {
    return raw + (stage % LOADS * Lie::VECTORS + vector) * THREADS;
  }

  /// Elements of the thread's columns from a stage's first on. Vectors are inside or not, as a
  /// whole.
  __device__ __forceinline__ int left_at(int stage) const {
    return line < b.lines ? static_cast<int>(b.length) - lie.along - stage * STAGE_K : 0;
  }

  /// Begins to load the next stage, if there is one.
  __device__ __forceinline__ void load_next() {
    if (next < stages) {
      const int left = left_at(next);
#pragma unroll
      for (int v = 0; v < Lie::VECTORS; ++v) {
        const bool inside = Lie::k_of(v) < left;
        copy_async<RUN>(reinterpret_cast<float*>(place(next, v)),
                        inside ? from + Lie::offset_of(v, b.stride) : begin, inside ? RUN : 0);
      }
    }
    commit_copies();
    ++next;
    from += STAGE_K * b.stride;
  }

  /// A stage's elements, whose places the next one takes.
  __device__ __forceinline__ void take(int stage, Run (&runs)[Lie::VECTORS]) {
    wait_for_groups<LOADS - 1>();
#pragma unroll
    for (int v = 0; v < Lie::VECTORS; ++v) runs[v] = *place(stage, v);
    load_next();
  }

  __device__ __forceinline__ static Vector<float, Lie::ELEMENTS> elements_of(
      const Run (&runs)[Lie::VECTORS], int i, int piece) {
    Vector<float, Lie::ELEMENTS> elements;
#pragma unroll
    for (int e = 0; e < Lie::ELEMENTS; ++e) elements.lane[e] = Lie::element(runs, i, piece, e);
    return elements;
  }

  /// Takes in a stage's elements, of which it leaves out short ones; `factor`: by what the columns'
  /// scales change.
  __device__ __forceinline__ void take_in(Run (&runs)[Lie::VECTORS], int stage,
                                          float (&factor)[Lie::LINES]) {
    uint32_t twice_least_less_one[Lie::LINES];
    int before[Lie::LINES];
    bool are_doubtful = false;
#pragma unroll
    for (int i = 0; i < Lie::LINES; ++i) {
      before[i] = so_far[i].up;
      twice_least_less_one[i] = take_in_column(runs, i);
      are_doubtful |= so_far[i].is_doubtful(twice_least_less_one[i]);
    }
    if (__any_sync(~0u, are_doubtful)) look_ahead(runs, stage, twice_least_less_one);
#pragma unroll
    for (int i = 0; i < Lie::LINES; ++i) {
      SoFar& all = so_far[i];
      if (!all.is_known) {
        all.twice_least_less_one = min(all.twice_least_less_one, twice_least_less_one[i]);
      }
      factor[i] = split::power_of_two(max(all.up - before[i], -126));
    }
  }

  /// Scales by a stage's elements of a column; returns twice the thread's least, less one.
  __device__ __forceinline__ uint32_t take_in_column(const Run (&runs)[Lie::VECTORS], int i) {
    SoFar& all = so_far[i];
    // As signed numbers positive ones are largest, as unsigned ones negative ones.
    uint32_t largest = all.largest, twice_least_less_one = ~0u;
    int positive = 0;
#pragma unroll
    for (int p = 0; p < PIECES; ++p) {
#pragma unroll
      for (int e = 0; e < Lie::ELEMENTS; e += 2) {
        const uint32_t one = __float_as_uint(Lie::element(runs, i, p, e));
        const uint32_t other = __float_as_uint(Lie::element(runs, i, p, e + 1));
        largest = __vimax3_u32(largest, one, other);
        positive = __vimax3_s32(positive, static_cast<int>(one), static_cast<int>(other));
        twice_least_less_one = __vimin3_u32(twice_least_less_one, one + one - 1, other + other - 1);
      }
    }
    all.largest = max(largest & ~(1u << 31), max(all.largest, static_cast<uint32_t>(positive)));
#pragma unroll
    for (int step = Lie::FIRST_STEP; step <= Lie::LAST_STEP; step *= 2) {
      all.largest = max(all.largest, __shfl_xor_sync(~0u, all.largest, step));
    }
    all.scale_again();
    return twice_least_less_one;
  }

  /// Learns of columns with doubtful elements all that there is, and leaves out those that are
  /// short. By a whole warp.
  __device__ __forceinline__ void look_ahead(Run (&runs)[Lie::VECTORS], int stage,
                                             const uint32_t (&twice_least_less_one)[Lie::LINES]) {
#pragma unroll
    for (int i = 0; i < Lie::LINES; ++i) {
      SoFar& all = so_far[i];
      unsigned asking =
          __ballot_sync(~0u, !all.is_known && all.is_doubtful(twice_least_less_one[i]));
      while (asking) {
        const int asked = __shfl_sync(~0u, column, __ffs(asking) - 1);
        const Extremes rest = extremes_of_rest(line - column + asked + i, stage);
        if (column == asked) all.learn(rest);
        asking &= ~__ballot_sync(~0u, column == asked);
      }
    }
    const float* const at = begin + line * b.line_stride + (lie.along + stage * STAGE_K) * b.stride;
#pragma unroll
    for (int v = 0; v < Lie::VECTORS; ++v) {
      const bool inside = Lie::k_of(v) < left_at(stage);
      runs[v] = inside ? load_vector<RUN>(at + Lie::offset_of(v, b.stride)) : Run{};
    }
#pragma unroll
    for (int i = 0; i < Lie::LINES; ++i) {
      const SoFar& all = so_far[i];
      if (all.mark != split::MENDED) continue;
      const Scale scale{all.up, all.mark};
      store_rests(runs, stage, i, scale);
#pragma unroll
      for (int p = 0; p < PIECES; ++p) {
#pragma unroll
        for (int e = 0; e < Lie::ELEMENTS; ++e) {
          float& element = Lie::element(runs, i, p, e);
          if (scale.is_short(element)) element = 0;
        }
      }
    }
  }

  /// Of a line's elements from a stage's first on, by a whole warp.
  __device__ __forceinline__ Extremes extremes_of_rest(int64_t line, int stage) const {
    constexpr int AT_ONCE = RUN * Lie::VECTORS;  // in the registers of `runs`, loaded again after
    const int lane = threadIdx.x % 32, length = static_cast<int>(b.length);
    const float* from = begin + line * b.line_stride + (stage * STAGE_K + lane) * b.stride;
    Extremes extremes;
#pragma unroll 1
    for (int first = stage * STAGE_K + lane; first < length; first += 32 * AT_ONCE) {
      float elements[AT_ONCE];
#pragma unroll
      for (int i = 0; i < AT_ONCE; ++i, from += 32 * b.stride) {
        elements[i] = first + 32 * i < length ? load(from) : 0.0f;
      }
#pragma unroll
      for (const float element : elements) extremes.add(element);
    }
    return extremes.over_lanes(32);
  }

  /// As Halves does, for elements that are carried.
  __device__ __forceinline__ static void split_elements(
      const Vector<float, Lie::ELEMENTS>& elements, int up, Vector<half, Lie::ELEMENTS>& hi,
      Vector<half, Lie::ELEMENTS>& lo) {
    constexpr float LIFT = 1 << split::LO_SHIFT;
    const float scale = split::power_of_two(up), lifted = split::power_of_two(up + split::LO_SHIFT);
#pragma unroll
    for (int e = 0; e < Lie::ELEMENTS; e += 2) {
      const float one = elements.lane[e], other = elements.lane[e + 1];
      const half2 high = __floats2half2_rn(one * scale, other * scale);
      const float2 held = __half22float2(high);
      const half2 low =
          __floats2half2_rn(fmaf(-LIFT, held.x, one * lifted), fmaf(-LIFT, held.y, other * lifted));
      hi.lane[e] = __low2half(high);
      hi.lane[e + 1] = __high2half(high);
      lo.lane[e] = __low2half(low);
      lo.lane[e + 1] = __high2half(low);
    }
  }

  /// By one lane of those that share the column.
  __device__ __forceinline__ void store_scale(int i, Scale scale) const {
    if (lie.along == 0 && line + i < b.lines) split::store_scale(b, first_line + line + i, scale);
  }

  /// Stores what halves leave of a column, if it is in this stage.
  __device__ __forceinline__ void store_rests(const Run (&runs)[Lie::VECTORS], int stage, int i,
                                              Scale scale) const {
#pragma unroll
    for (int p = 0; p < PIECES; ++p) {
#pragma unroll
      for (int e = 0; e < Lie::ELEMENTS; ++e) {
        const int64_t k = int64_t{stage} * STAGE_K + p * split::PIECE + lie.along + e;
        split::store_rest(b, first_line + line + i, k, Lie::element(runs, i, p, e), scale);
      }
    }
  }
};

}  // namespace SMEM_BUILD
}  // namespace smem::gemm::halves
