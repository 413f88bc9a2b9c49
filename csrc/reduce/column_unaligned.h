// Rows that begin anywhere, for reduce/column_multistage.h. Up to 32 lanes side by side, a strip, bring the
// aligned vectors that their part of a row lies in, each once, as they are; then each takes its
// elements from them at the row's shift. Words of a lane lie a strip apart, so that no bank is
// asked twice.
#pragma once

#include "device/bounded_copy.h"
#include "reduce/column_multistage.h"
#include "reduce/layout.h"

namespace smem::reduce {
inline namespace SMEM_BUILD {

constexpr int SECTOR_BYTES = 32;
/// Of a strip: they have two vectors a row of a stage to bring beside their own.
constexpr int LEAST_LANES = 2 * STAGE_ROWS;

/// How strips are laid over the outputs.
struct StripShape {
  ColumnsShape block;
  int lanes;              ///< of a strip, a power of two
  unsigned strips_a_run;  ///< side by side in a run of neighbouring outputs
  int64_t strips;
  Span readable;

  /// Of a row: a sector more than the lanes' vectors.
  int pitch() const { return 16 * lanes + SECTOR_BYTES; }
  size_t shared_bytes() const { return size_t{STAGES} * STAGE_ROWS * pitch() * (THREADS / lanes); }
};

inline Span readable(const Problem& problem) {
  int64_t last = 0;
  const auto reach = [&](const auto& loop) {
    for (int d = 0; d < loop.rank; ++d) last += (loop.size[d] - 1) * loop.stride[IN][d];
  };
  reach(problem.outputs);
  reach(problem.reduced);
  const auto* const begin = static_cast<const char*>(problem.in);
  return {begin, begin + (last + 1) * static_cast<int64_t>(size_of(problem.in_dtype))};
}

inline StripShape strip_shape(const Problem& problem, const Device& device) {
  const int64_t run = problem.outputs.size[problem.outputs.rank - 1];
  const int64_t vectors = ceil_div(run * static_cast<int64_t>(size_of(problem.in_dtype)), 16);
  StripShape shape{};
  shape.lanes = static_cast<int>(std::clamp<int64_t>(power_of_two_from(vectors), LEAST_LANES, 32));
  shape.strips_a_run = static_cast<unsigned>(ceil_div(vectors, shape.lanes));
  shape.strips = problem.output_count / run * shape.strips_a_run;
  shape.readable = readable(problem);
  shape.block = ring_shape(problem, device, shape.strips * shape.lanes, shape.lanes,
                           std::max(WIDEST, shape.lanes));
  return shape;
}

/// The rows of a lane of a strip.
template <typename T>
class ShiftedRows {
 public:
  static constexpr int W = VECTOR_WIDTH<T>;

  /// From row `first` on.
  __device__ __forceinline__ ShiftedRows(const Problem& problem, const StripShape& shape,
                                         int64_t first)
      : readable_(shape.readable),
        lanes_(shape.lanes),
        lane_(static_cast<int>(threadIdx.x) % shape.lanes),
        pitch_(16 * shape.lanes + SECTOR_BYTES),
        slots_(static_cast<int>(threadIdx.x) / shape.lanes * STAGES * STAGE_ROWS * pitch_) {
    const int across = shape.block.threads_across;
    const int64_t strip = int64_t{blockIdx.x % shape.block.tiles} * (across / lanes_) +
                          static_cast<int>(threadIdx.x) % across / lanes_;
    if (strip >= shape.strips) return;
    const int64_t run = problem.outputs.rank > 1 ? strip / shape.strips_a_run : 0;
    const int64_t outputs = problem.outputs.size[problem.outputs.rank - 1];
    const int64_t column = (strip - run * shape.strips_a_run) * lanes_ * W;
    first_output_ = run * outputs + column;
    columns_ = static_cast<int>(std::min<int64_t>(outputs - column, lanes_ * W));
    const char* const row0 = reinterpret_cast<const char*>(
        static_cast<const T*>(problem.in) + offsets_at(problem.outputs, first_output_).of[IN]);
    step_ = problem.reduced.rank > 0 ? problem.reduced.stride[IN][0] * int64_t{sizeof(T)} : 0;
    begin_ = row0 + first * step_;
    count_ = rows_from(first, problem.count);

    const int pieces = (columns_ - 1) / PIECE + 1;
    bytes_ = pieces * PIECE_BYTES + (SMALL ? 4 : 0);
#pragma unroll
    for (int p = 0; p < PIECES; ++p) {
      // In the place of a piece that there is not, the last one is read.
      pieces_[p] = std::min(p * lanes_ + lane_, pieces - 1) * PIECE_BYTES;
    }
    // Rows may be so near to the ends of what may be read that two sectors more may not.
    const int64_t near = step_ >= MARGIN ? 1 : step_ > 0 ? MARGIN : problem.count;
    const char* const end = row0 + (problem.count - 1) * step_ + bytes_;
    inside_begin_ = rows_from(first, row0 - readable_.begin >= MARGIN ? 0 : near);
    inside_end_ = rows_from(first, problem.count - (readable_.end - end >= MARGIN ? 0 : near));
  }

  /// Of the lane's column c: whether there is one, and where it goes in out.
  __device__ __forceinline__ bool has(int c) const { return column(c) < columns_; }
  __device__ __forceinline__ int64_t place(const Problem& problem, int c) const {
    return offsets_at(problem.outputs, first_output_).of[OUT] +
           column(c) * problem.outputs.stride[OUT][problem.outputs.rank - 1];
  }

  /// What one lane brings, others read.
  __device__ __forceinline__ static void sync() { __syncwarp(); }

  __device__ __forceinline__ void prefetch(int row, int stage, Site site) const {
    const char* const begin = begin_ + row * step_;
    if (row < inside_begin_ || row + STAGE_ROWS > inside_end_) {
      return prefetch_partial(begin, count_ - row, stage, site);
    }
    if (16 * lane_ < bytes_ + SECTOR_BYTES) {
#pragma unroll
      for (int r = 0; r < STAGE_ROWS; ++r) {
        const char* const at = begin + r * step_;
        prefetch_vector(at - past_sector(at), slot(stage, r), lane_, site);
      }
    }
    // What a row that begins past its sector needs more: two vectors.
    if (lane_ >= 2 * STAGE_ROWS) return;
    const char* const at = begin + lane_ / 2 * step_;
    const int past = past_sector(at), vector = lanes_ + lane_ % 2;
    if (16 * vector < length(past)) prefetch_vector(at - past, slot(stage, lane_ / 2), vector, site);
  }

  template <typename Sums>
  __device__ __forceinline__ void add(Sums& sums, int row, int stage, Site site) const {
    const auto step = static_cast<uint32_t>(step_);
    const auto begin = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(begin_)) +
                       static_cast<uint32_t>(row) * step;
    const auto load_row = [&](int r) {
      return load_at(slot(stage, r), static_cast<int>((begin + r * step) % SECTOR_BYTES), site);
    };
    if (row + STAGE_ROWS <= count_) {
      RowVector<T> loaded[STAGE_ROWS];
#pragma unroll
      for (int r = 0; r < STAGE_ROWS; ++r) loaded[r] = load_row(r);
#pragma unroll
      for (int r = 0; r < STAGE_ROWS; ++r) sums.add(r, loaded[r]);
      return;
    }
#pragma unroll
    for (int r = 0; r < STAGE_ROWS - 1; ++r) {
      if (row + r < count_) sums.add(r, load_row(r));
    }
  }

 private:
  /// A lane reads words, or elements where those are longer.
  static constexpr bool SMALL = sizeof(T) < 4;
  static constexpr int PIECE = SMALL ? 4 / sizeof(T) : 1, PIECES = W / PIECE;
  static constexpr int PIECE_BYTES = 16 / PIECES;
  static constexpr int MARGIN = 2 * SECTOR_BYTES;

  __device__ __forceinline__ int column(int c) const {
    return (c / PIECE * lanes_ + lane_) * PIECE + c % PIECE;
  }
  /// Bytes that are needed from a row's sector on; the last of them lies in its slot.
  __device__ __forceinline__ int length(int past) const { return past / 4 * 4 + bytes_; }
  __device__ __forceinline__ static int past_sector(const char* row) {
    return static_cast<int>(reinterpret_cast<uintptr_t>(row) % SECTOR_BYTES);
  }
  /// In bytes of shared memory.
  __device__ __forceinline__ int slot(int stage, int row) const {
    return slots_ + (stage * STAGE_ROWS + row) * pitch_;
  }
  __device__ __forceinline__ static T* shared(int byte) {
    return dynamic_shared<T>() + byte / static_cast<int>(sizeof(T));
  }

  __device__ __forceinline__ static void prefetch_vector(const char* sector, int slot, int vector,
                                                      Site site) {
    cp_async<W>(shared(slot + 16 * vector), reinterpret_cast<const T*>(sector + 16 * vector), W,
                  site);
  }
  /// The same at the first and the last element that may be read, of the rows that there are.
  __device__ __forceinline__ void prefetch_partial(const char* row, int rows, int stage,
                                             Site site) const {
#pragma unroll 1
    for (int r = 0; r < STAGE_ROWS && r < rows; ++r, row += step_) {
      const int past = past_sector(row);
#pragma unroll 1
      for (int at = 16 * lane_; at < length(past); at += 16 * lanes_) {
        copy_readable(shared(slot(stage, r) + at), reinterpret_cast<const T*>(row - past + at),
                      readable_, site);
      }
    }
  }

  /// The lane's elements of a row that begins so many bytes past its slot; small ones from two
  /// words by a funnel shift.
  __device__ __forceinline__ RowVector<T> load_at(int slot, int past, Site site) const {
    RowVector<T> row;
    constexpr int WORDS = 4 / PIECES;
#pragma unroll
    for (int p = 0; p < PIECES; ++p) {
      if constexpr (SMALL) {
        const T* const at = shared(slot + past / 4 * 4 + pieces_[p]);
        const auto* const words = reinterpret_cast<const uint32_t*>(at);
        const uint64_t low = load(words, site), high = load(words + 1, site);
        row.words.lane[p] = static_cast<uint32_t>((high << 32 | low) >> (past % 4 * 8));
      } else {
        const auto words = load_words<1>(shared(slot + past + pieces_[p]), site).words;
#pragma unroll
        for (int w = 0; w < WORDS; ++w) row.words.lane[p * WORDS + w] = words.lane[w];
      }
    }
    return row;
  }

  Span readable_;
  int lanes_, lane_, pitch_, slots_;
  const char* begin_ = nullptr;  ///< the strip's first column
  int64_t step_ = 0;             ///< bytes from row to row
  int64_t first_output_ = 0;
  int count_ = 0;  ///< rows; none where there is no such strip
  int inside_begin_ = 0, inside_end_ = 0;
  int columns_ = 0, bytes_ = 0, pieces_[PIECES] = {};
};

}  // namespace SMEM_BUILD
}  // namespace smem::reduce
