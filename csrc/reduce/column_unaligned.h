// Rows that begin anywhere, for reduce/column_multistage.h. Up to 32 lanes side by side, a panel,
// bring the aligned vectors that their part of a row lies in, each once, as they are; then each
// takes its elements from them at the row's shift. Words of a lane lie a panel apart, so that no
// bank is asked twice.
#pragma once

#include "device/bounded_copy.h"
#include "reduce/column_multistage.h"
#include "reduce/layout.h"

namespace smem::reduce {
inline namespace SMEM_BUILD {

constexpr int SECTOR_BYTES = 32;
/// Of a panel: they have two vectors a row of a stage to bring beside their own.
constexpr int MIN_PANEL_LANES = 2 * ROWS_PER_STAGE;

/// How panels are laid over the outputs.
struct UnalignedThreadMap {
  ColumnThreadMap block;
  int lanes;                       ///< of a panel, a power of two
  unsigned panels_per_inner_loop;  ///< side by side in a run of neighbouring outputs
  int64_t panels;
  Span readable;

  /// Of a row: a sector more than the lanes' vectors.
  int pitch() const { return 16 * lanes + SECTOR_BYTES; }
  size_t shared_bytes() const {
    return size_t{STAGES} * ROWS_PER_STAGE * pitch() * (THREADS / lanes);
  }
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

inline UnalignedThreadMap unaligned_thread_map(const Problem& problem, const Device& device) {
  const int64_t run = problem.outputs.size[problem.outputs.rank - 1];
  const int64_t vectors = ceil_div(run * static_cast<int64_t>(size_of(problem.in_dtype)), 16);
  UnalignedThreadMap shape{};
  shape.lanes =
      static_cast<int>(std::clamp<int64_t>(power_of_two_from(vectors), MIN_PANEL_LANES, 32));
  shape.panels_per_inner_loop = static_cast<unsigned>(ceil_div(vectors, shape.lanes));
  shape.panels = problem.output_count / run * shape.panels_per_inner_loop;
  shape.readable = readable(problem);
  shape.block = multistage_thread_map(problem, device, shape.panels * shape.lanes, shape.lanes,
                                      std::max(MAX_THREADS_X, shape.lanes));
  return shape;
}

/// The rows of a lane of a panel.
template <typename T>
class UnalignedRowLoader {
 public:
  static constexpr int W = VECTOR_WIDTH<T>;

  /// From row `first` on.
  __device__ __forceinline__ UnalignedRowLoader(const Problem& problem,
                                                const UnalignedThreadMap& shape, int64_t first)
      : readable_(shape.readable),
        panel_lanes_(shape.lanes),
        lane_(static_cast<int>(threadIdx.x) % shape.lanes),
        pitch_(16 * shape.lanes + SECTOR_BYTES),
        smem_base_(static_cast<int>(threadIdx.x) / shape.lanes * STAGES * ROWS_PER_STAGE * pitch_) {
    const int threads_x = shape.block.threads_x;
    const int64_t panel = int64_t{blockIdx.x % shape.block.grid_x} * (threads_x / panel_lanes_) +
                          static_cast<int>(threadIdx.x) % threads_x / panel_lanes_;
    if (panel >= shape.panels) return;
    const int64_t run = problem.outputs.rank > 1 ? panel / shape.panels_per_inner_loop : 0;
    const int64_t outputs = problem.outputs.size[problem.outputs.rank - 1];
    const int64_t column = (panel - run * shape.panels_per_inner_loop) * panel_lanes_ * W;
    first_output_ = run * outputs + column;
    column_count_ = static_cast<int>(std::min<int64_t>(outputs - column, panel_lanes_ * W));
    const char* const row0 = reinterpret_cast<const char*>(
        static_cast<const T*>(problem.in) + offsets_at(problem.outputs, first_output_).of[IN]);
    step_ = problem.reduced.rank > 0 ? problem.reduced.stride[IN][0] * int64_t{sizeof(T)} : 0;
    begin_ = row0 + first * step_;
    row_count_ = rows_left(first, problem.count);

    const int accesses = (column_count_ - 1) / ELEMENTS_PER_ACCESS + 1;
    bytes_ = accesses * ACCESS_BYTES + (SUBWORD ? 4 : 0);
#pragma unroll
    for (int p = 0; p < ACCESSES; ++p) {
      // In the place of a piece that there is not, the last one is read.
      access_offset_[p] = std::min(p * panel_lanes_ + lane_, accesses - 1) * ACCESS_BYTES;
    }
    // Rows may be so guarded_rows to the ends of what may be read that two sectors more may not.
    const int64_t guarded_rows = step_ >= MARGIN ? 1 : step_ > 0 ? MARGIN : problem.count;
    const char* const end = row0 + (problem.count - 1) * step_ + bytes_;
    unguarded_begin_ = rows_left(first, row0 - readable_.begin >= MARGIN ? 0 : guarded_rows);
    unguarded_end_ =
        rows_left(first, problem.count - (readable_.end - end >= MARGIN ? 0 : guarded_rows));
  }

  /// Of the lane's column c: whether there is one, and where it goes in out.
  __device__ __forceinline__ bool has(int c) const { return column(c) < column_count_; }
  __device__ __forceinline__ int64_t out_offset(const Problem& problem, int c) const {
    return offsets_at(problem.outputs, first_output_).of[OUT] +
           column(c) * problem.outputs.stride[OUT][problem.outputs.rank - 1];
  }

  /// What one lane brings, others read.
  __device__ __forceinline__ static void sync() { __syncwarp(); }

  __device__ __forceinline__ void prefetch(int row, int stage, Site site) const {
    const char* const begin = begin_ + row * step_;
    if (row < unguarded_begin_ || row + ROWS_PER_STAGE > unguarded_end_) {
      return prefetch_guarded(begin, row_count_ - row, stage, site);
    }
    if (16 * lane_ < bytes_ + SECTOR_BYTES) {
#pragma unroll
      for (int r = 0; r < ROWS_PER_STAGE; ++r) {
        const char* const at = begin + r * step_;
        prefetch_vector(at - sector_misalignment(at), smem_offset(stage, r), lane_, site);
      }
    }
    // What a row that begins misalignment its sector needs more: two vectors.
    if (lane_ >= 2 * ROWS_PER_STAGE) return;
    const char* const at = begin + lane_ / 2 * step_;
    const int misalignment = sector_misalignment(at), vector = panel_lanes_ + lane_ % 2;
    if (16 * vector < length(misalignment))
      prefetch_vector(at - misalignment, smem_offset(stage, lane_ / 2), vector, site);
  }

  template <typename Accum>
  __device__ __forceinline__ void add(Accum& accum, int row, int stage, Site site) const {
    const auto step = static_cast<uint32_t>(step_);
    const auto begin = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(begin_)) +
                       static_cast<uint32_t>(row) * step;
    const auto load_row = [&](int r) {
      return load_at(smem_offset(stage, r), static_cast<int>((begin + r * step) % SECTOR_BYTES),
                     site);
    };
    if (row + ROWS_PER_STAGE <= row_count_) {
      RowVector<T> loaded[ROWS_PER_STAGE];
#pragma unroll
      for (int r = 0; r < ROWS_PER_STAGE; ++r) loaded[r] = load_row(r);
#pragma unroll
      for (int r = 0; r < ROWS_PER_STAGE; ++r) accum.add(r, loaded[r]);
      return;
    }
#pragma unroll
    for (int r = 0; r < ROWS_PER_STAGE - 1; ++r) {
      if (row + r < row_count_) accum.add(r, load_row(r));
    }
  }

 private:
  /// A lane reads words, or elements where those are longer.
  static constexpr bool SUBWORD = sizeof(T) < 4;
  static constexpr int ELEMENTS_PER_ACCESS = SUBWORD ? 4 / sizeof(T) : 1,
                       ACCESSES = W / ELEMENTS_PER_ACCESS;
  static constexpr int ACCESS_BYTES = 16 / ACCESSES;
  static constexpr int MARGIN = 2 * SECTOR_BYTES;

  __device__ __forceinline__ int column(int c) const {
    return (c / ELEMENTS_PER_ACCESS * panel_lanes_ + lane_) * ELEMENTS_PER_ACCESS +
           c % ELEMENTS_PER_ACCESS;
  }
  /// Bytes that are needed from a row's sector on; the last of them lies in its smem_offset.
  __device__ __forceinline__ int length(int misalignment) const {
    return misalignment / 4 * 4 + bytes_;
  }
  __device__ __forceinline__ static int sector_misalignment(const char* row) {
    return static_cast<int>(reinterpret_cast<uintptr_t>(row) % SECTOR_BYTES);
  }
  /// In bytes of shared memory.
  __device__ __forceinline__ int smem_offset(int stage, int row) const {
    return smem_base_ + (stage * ROWS_PER_STAGE + row) * pitch_;
  }
  __device__ __forceinline__ static T* shared(int byte) {
    return dynamic_shared<T>() + byte / static_cast<int>(sizeof(T));
  }

  __device__ __forceinline__ static void prefetch_vector(const char* sector, int smem_offset,
                                                         int vector, Site site) {
    cp_async<W>(shared(smem_offset + 16 * vector), reinterpret_cast<const T*>(sector + 16 * vector),
                W, site);
  }
  /// The same at the first and the last element that may be read, of the rows that there are.
  __device__ __forceinline__ void prefetch_guarded(const char* row, int rows, int stage,
                                                   Site site) const {
#pragma unroll 1
    for (int r = 0; r < ROWS_PER_STAGE && r < rows; ++r, row += step_) {
      const int misalignment = sector_misalignment(row);
#pragma unroll 1
      for (int at = 16 * lane_; at < length(misalignment); at += 16 * panel_lanes_) {
        copy_readable(shared(smem_offset(stage, r) + at),
                      reinterpret_cast<const T*>(row - misalignment + at), readable_, site);
      }
    }
  }

  /// The lane's elements of a row that begins so many bytes misalignment its smem_offset; small
  /// ones from two words by a funnel shift.
  __device__ __forceinline__ RowVector<T> load_at(int smem_offset, int misalignment,
                                                  Site site) const {
    RowVector<T> row;
    constexpr int WORDS_PER_ACCESS = 4 / ACCESSES;
#pragma unroll
    for (int p = 0; p < ACCESSES; ++p) {
      if constexpr (SUBWORD) {
        const T* const at = shared(smem_offset + misalignment / 4 * 4 + access_offset_[p]);
        const auto* const words = reinterpret_cast<const uint32_t*>(at);
        const uint64_t low = load(words, site), high = load(words + 1, site);
        row.words.lane[p] = static_cast<uint32_t>((high << 32 | low) >> (misalignment % 4 * 8));
      } else {
        const auto words =
            load_words<1>(shared(smem_offset + misalignment + access_offset_[p]), site).words;
#pragma unroll
        for (int w = 0; w < WORDS_PER_ACCESS; ++w)
          row.words.lane[p * WORDS_PER_ACCESS + w] = words.lane[w];
      }
    }
    return row;
  }

  Span readable_;
  int panel_lanes_, lane_, pitch_, smem_base_;
  const char* begin_ = nullptr;  ///< the panel's first column
  int64_t step_ = 0;             ///< bytes from row to row
  int64_t first_output_ = 0;
  int row_count_ = 0;  ///< rows; none where there is no such panel
  int unguarded_begin_ = 0, unguarded_end_ = 0;
  int column_count_ = 0, bytes_ = 0, access_offset_[ACCESSES] = {};
};

}  // namespace SMEM_BUILD
}  // namespace smem::reduce
