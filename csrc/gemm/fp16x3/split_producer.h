// Warps that split columns of B on their way to those that multiply (skinny_m_kernel.h).
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
#include "gemm/fp16x3/b_layout.h"
#include "gemm/fp16x3/running_scale.h"

namespace smem::gemm::fp16x3 {
inline namespace SMEM_BUILD {

using split::Extremes;
using split::Run;
using split::Scale;

/// A thread of those that split a tile of columns. LOADS: stages under way from memory, 8 KB of a
/// group of columns each.
template <typename Lie, int COLUMN_GROUPS, int LOADS>
struct Splitter {
  static constexpr int THREADS = COLUMN_GROUPS * Lie::WARPS * 32;
  static constexpr int RAW_BYTES = LOADS * Lie::VECTORS * THREADS * int{sizeof(Run)};
  static constexpr int COLS = COLUMN_GROUPS * COLUMNS;

  /// `tiles`: of a part. `stages`: of K, if that is one part.
  __device__ __forceinline__ Splitter(const split::Split& b, unsigned tiles, int stages, Run* raw)
      : b(b),
        tiles(tiles),
        stages(stages),
        lie(threadIdx.x / 32 % Lie::WARPS, threadIdx.x % 32),
        column(threadIdx.x / 32 / Lie::WARPS * COLUMNS + lie.column),
        raw(raw + threadIdx.x) {}

  /// Begins to load: of all parts' tiles every `step`th from `tile` on, below `end`. What is
  /// taken of them must be all.
  __device__ __forceinline__ void load_from(unsigned tile, unsigned step, unsigned end) {
    loading = tile;
    loading_step = step;
    loading_end = end;
    slot = 0;
    go_to_loading();
    for (int i = 0; i < LOADS; ++i) {
      load_next();
      if (++slot == LOADS) slot = 0;
    }
  }

  /// Begins with the next tile that is loaded.
  __device__ __forceinline__ void begin_tile(unsigned tile) {
    at = line_of(tile);
#pragma unroll
    for (SoFar& all : so_far) all = {};
  }

  /// Splits a stage into `to`, a column COLUMN_BYTES, and leaves in `factors` what sums so far are
  /// to be multiplied with. KNOWN: after `measure`.
  template <bool KNOWN>
  __device__ __forceinline__ void split_stage(int stage, unsigned char* to, float* factors,
                                              Barrier& empty, uint32_t parity) {
    Run runs[Lie::VECTORS];
    take(runs);
    float factor[Lie::LINES];
    if constexpr (KNOWN) {
#pragma unroll
      for (int i = 0; i < Lie::LINES; ++i) leave_out_short(runs, stage, i, scales[i]);
    } else {
      take_in(runs, stage, factor);
    }
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
      if (lie.along == 0) factors[column + i] = KNOWN ? 1 : factor[i];
    }
  }

  /// After the last stage: stores the columns' scales, in `codes` too, and says whether the
  /// thread's hold. KNOWN: as for split_stage.
  template <bool KNOWN>
  __device__ __forceinline__ bool finish(int* codes) {
    bool hold = true;
#pragma unroll
    for (int i = 0; i < Lie::LINES; ++i) {
      if constexpr (!KNOWN) {
        SoFar& all = so_far[i];
#pragma unroll
        for (int step = Lie::FIRST_STEP; step <= Lie::LAST_STEP; step *= 2) {
          all.twice_least_less_one =
              min(all.twice_least_less_one, __shfl_xor_sync(~0u, all.twice_least_less_one, step));
        }
        hold &= all.holds();
        scales[i] = {all.largest == 0 ? 0 : all.up, all.mark};
      }
      if (lie.along > 0) continue;
      codes[column + i] = scales[i].code();
      if (at.line + i < b.lines) split::store_scale(b, at.first_line + at.line + i, scales[i]);
    }
    return hold;
  }

  /// Reads a tile's columns for their scales alone.
  __device__ __forceinline__ void measure(unsigned tile, int stages) {
    Extremes extremes[Lie::LINES];
    load_from(tile, 1, tile + 1);
    for (int stage = 0; stage < stages; ++stage) {
      Run runs[Lie::VECTORS];
      take(runs);
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
      scales[i] = split::scale_of(extremes[i].over_lanes(2 * Lie::LAST_STEP, Lie::FIRST_STEP));
    }
  }

 private:
  /// The thread's first column of a tile.
  struct Line {
    int64_t line;        ///< in its part of B, whose ...
    int64_t first_line;  ///< ... first line, elements and length these are
    const float* begin;
    int length;
  };

  const split::Split& b;
  unsigned tiles;
  int stages;
  Lie lie;
  int column;  ///< the thread's first in a tile
  Run* raw;    ///< the thread's places: of vector v of slot s at (s * VECTORS + v) * THREADS
  Line at;
  SoFar so_far[Lie::LINES];
  Scale scales[Lie::LINES];

  // What is loaded next: into which slot, which is the one that has been under way for longest, ...
  int slot;
  unsigned loading, loading_step, loading_end;  ///< ... of which tile, ...
  const float* from;                            ///< ... the thread's first element there, ...
  int left;     ///< ... and the elements along K from there on, if its columns exist,
  int to_load;  ///< in so many stages

  __device__ __forceinline__ Line line_of(unsigned tile) const {
    const unsigned index = tile / tiles;
    const int64_t line = int64_t{tile - index * tiles} * COLS + column,
                  first_line = index * b.lines;
    if constexpr (Lie::IN_PARTS) {
      const split::Part part(b, index);
      return {line, first_line, part.from, static_cast<int>(part.length)};
    }
    return {line, first_line, b.from + index * b.member_stride, 0};
  }

  /// Along K, in the part.
  __device__ __forceinline__ int length_at(const Line& at) const {
    return Lie::IN_PARTS ? at.length : static_cast<int>(b.length);
  }

  __device__ __forceinline__ Run* place(int vector) const {
    return raw + (slot * Lie::VECTORS + vector) * THREADS;
  }

  __device__ __forceinline__ void go_to_loading() {
    const Line to = line_of(loading);
    from = to.begin + to.line * b.line_stride + lie.along * b.stride;
    left = to.line < b.lines ? length_at(to) - lie.along : 0;
    to_load = Lie::IN_PARTS ? ceil_div(to.length, STAGE_K) : stages;
  }

  /// Begins to load the next stage, if there is one.
  __device__ __forceinline__ void load_next() {
    if (loading < loading_end) {
#pragma unroll
      for (int v = 0; v < Lie::VECTORS; ++v) {
#pragma unroll
        for (int e = 0; e < RUN; e += Lie::WIDTH) {
          const bool inside = Lie::k_of(v) + e < left;
          cp_async<Lie::WIDTH>(place(v)->lane + e,
                                 inside ? from + Lie::offset_of(v, b.stride) + e : b.from,
                                 inside ? Lie::WIDTH : 0);
        }
      }
      from += STAGE_K * b.stride;
      left -= STAGE_K;
      if (--to_load == 0) {
        loading += loading_step;
        go_to_loading();
      }
    }
    cp_async_commit();
  }

  /// The next stage's elements, whose places another one takes.
  __device__ __forceinline__ void take(Run (&runs)[Lie::VECTORS]) {
    cp_async_wait<LOADS - 1>();
#pragma unroll
    for (int v = 0; v < Lie::VECTORS; ++v) runs[v] = *place(v);
    load_next();
    if (++slot == LOADS) slot = 0;
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
        const Extremes rest = extremes_of_rest(at.line - column + asked + i, stage);
        if (column == asked) all.learn(rest);
        asking &= ~__ballot_sync(~0u, column == asked);
      }
    }
    const int first = lie.along + stage * STAGE_K;
    const int left = at.line < b.lines ? length_at(at) - first : 0;
    const float* const again = at.begin + at.line * b.line_stride + first * b.stride;
#pragma unroll
    for (int v = 0; v < Lie::VECTORS; ++v) {
#pragma unroll
      for (int e = 0; e < RUN; e += Lie::WIDTH) {
        using Loaded = Vector<float, Lie::WIDTH>;
        *reinterpret_cast<Loaded*>(runs[v].lane + e) =
            Lie::k_of(v) + e < left
                ? load_vector<Lie::WIDTH>(again + Lie::offset_of(v, b.stride) + e)
                : Loaded{};
      }
    }
#pragma unroll
    for (int i = 0; i < Lie::LINES; ++i) {
      leave_out_short(runs, stage, i, {so_far[i].up, so_far[i].mark});
    }
  }

  /// Of a line's elements from a stage's first on, by a whole warp.
  __device__ __forceinline__ Extremes extremes_of_rest(int64_t line, int stage) const {
    constexpr int AT_ONCE = RUN * Lie::VECTORS;  // in the registers of `runs`, loaded again after
    const int lane = threadIdx.x % 32, length = length_at(at);
    const float* from = at.begin + line * b.line_stride + (stage * STAGE_K + lane) * b.stride;
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

  /// Stores what halves leave of a MENDED column, if it is in this stage, and takes it out.
  __device__ __forceinline__ void leave_out_short(Run (&runs)[Lie::VECTORS], int stage, int i,
                                                  Scale scale) const {
    if (scale.mark != split::MENDED) return;
    const int64_t first = int64_t{stage} * STAGE_K + lie.along;
#pragma unroll
    for (int p = 0; p < PIECES; ++p) {
#pragma unroll
      for (int e = 0; e < Lie::ELEMENTS; ++e) {
        float& element = Lie::element(runs, i, p, e);
        if (split::store_rest(b, at.first_line + at.line + i, first + p * split::PIECE + e, element,
                              scale)) {
          element = 0;
        }
      }
    }
  }
};

}  // namespace SMEM_BUILD
}  // namespace smem::gemm::fp16x3
