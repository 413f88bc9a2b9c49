// What a thread has of lines that lie side by side: 8 elements of each of 4 lines. It reads 16
// bytes at a time, turns them by naming registers, and writes 16 bytes of hi and of lo for each
// line.
//
// Four lanes share the same elements of 16 lines, and eight read 4 lines' elements in a row, so
// that a line's halves are written as 64 bytes of hi and 64 of lo: whole sectors.
#pragma once

#include "gemm/fp16x3/scale.h"

namespace smem::gemm::fp16x3::split {
inline namespace SMEM_BUILD {

/// Lines that threads share, and lanes that are beside each other across them.
constexpr int LINES = 16, ACROSS = LINES / RUN;
constexpr int OWN = 8;  ///< elements of a line that a thread has: 16 bytes of hi, and of lo
static_assert(32 / ACROSS * OWN % PIECE == 0, "a warp has whole pieces");

template <bool WIDE>
class Share {
 public:
  /// Of a part's lines from `line` on, the elements from `first` on.
  __device__ __forceinline__ Share(const Split& split, const Part& part, int64_t index,
                                   int64_t line, int first)
      : split_(split),
        line_stride_(WIDE ? 1 : split.line_stride),
        from_(part.from + line * line_stride_),
        stored_(index * split.lines + line),
        lines_left_(split.lines - line),
        first_(first),
        length_(static_cast<int>(part.length)) {
#pragma unroll
    for (int i = 0; i < OWN; ++i) {
      runs_[i] = load_run<WIDE>(from_ + (first + i) * split.stride, line_stride_,
                                first + i < length_ ? lines_left_ : 0);
    }
  }

  /// Those of all lanes that share the lines.
  __device__ __forceinline__ void find_extremes(Extremes (&of_lines)[RUN]) const {
#pragma unroll
    for (int i = 0; i < OWN * RUN; ++i) of_lines[i % RUN].add(runs_[i / RUN].lane[i % RUN]);
#pragma unroll
    for (Extremes& of_line : of_lines) of_line = of_line.over_lanes(32, ACROSS);
  }

  /// `codes`: of the lines' scales.
  __device__ __forceinline__ void store_halves(Vector<int, RUN> codes,
                                               int64_t padded_length) const {
    half* const to =
        static_cast<half*>(split_.halves) + stored_ * 2 * padded_length + place_of(first_);
#pragma unroll
    for (int l = 0; l < RUN; ++l) {
      if (l >= lines_left_ || first_ >= padded_length) continue;
      const Scale scale = Scale::of_code(codes.lane[l]);
      if (first_ == 0) store_scale(split_, stored_ + l, scale);
      Vector<float, OWN> elements;
#pragma unroll
      for (int i = 0; i < OWN; ++i) elements.lane[i] = runs_[i].lane[l];
      const Halves<OWN> halves(elements, scale);
      store_global_vector<OWN>(to + l * 2 * padded_length, halves.hi);
      store_global_vector<OWN>(to + l * 2 * padded_length + PIECE, halves.lo);
    }
    // Loops, and read again: seldom, and as straight code twice all that stands before.
#pragma unroll 1
    for (int l = 0; l < RUN; ++l) {
      const Scale scale = Scale::of_code(codes.lane[0]);
#pragma unroll
      for (int next = 1; next < RUN; ++next) codes.lane[next - 1] = codes.lane[next];
      if (l >= lines_left_ || scale.mark != MENDED) continue;
#pragma unroll 1
      for (int i = first_; i < first_ + OWN && i < length_; ++i) {
        const float element = load(from_ + l * line_stride_ + i * split_.stride);
        store_rest(split_, stored_ + l, i, element, scale);
      }
    }
  }

 private:
  const Split& split_;
  int64_t line_stride_;
  const float* from_;
  int64_t stored_, lines_left_;  ///< of the first line: its place among results, lines from it on
  int first_, length_;
  Run runs_[OWN];
};

}  // namespace SMEM_BUILD
}  // namespace smem::gemm::fp16x3::split
