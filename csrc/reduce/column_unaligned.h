// Columns whose rows begin at any address, for the pipeline of reduce/column_multistage.h.
//
// A panel is the group of neighbouring columns that 8, 16 or 32 lanes of a warp process together.
//
//   row in memory   ...|........|........|........|........|...   aligned 16-byte vectors
//   panel                   [==========================]
//   shared memory      |........|........|........|........|    the same vectors, by cp.async
//   lane l reads       word l, word l + lanes, ...                at the row's misalignment
//
// The lanes copy each of the aligned vectors that hold the panel's part of a row once. After that
// every lane reads its elements at the row's misalignment: neighbouring lanes read neighbouring
// words, so there are no bank conflicts. Only __syncwarp separates the copies from the reads.
//
// Order of additions: reduce/reduction_tree.h. The copies must stay inside of `readable`: nothing
// before the first element of x and nothing after its last one may be read.
#pragma once

#include "device/bounded_copy.h"
#include "reduce/column_multistage.h"
#include "reduce/layout.h"

namespace smem::reduce::inline SMEM_BUILD {

constexpr int SECTOR_BYTES = 32;
/// Fewest lanes per panel: the two vectors per row that exceed the lanes' own ones are copied by
/// two lanes for each row of a stage.
constexpr int MIN_PANEL_LANES = 2 * ROWS_PER_STAGE;
/// The cost model: what a panel's row takes beside its lanes' vectors, in vectors. Fitted together
/// with MULTISTAGE_RAMP_STAGES.
constexpr int PANEL_ROW_VECTORS = 7;

/// Bytes of shared memory per row of a panel: a sector more than the lanes' vectors.
__host__ __device__ constexpr int panel_pitch(int lanes) { return 16 * lanes + SECTOR_BYTES; }
/// Bytes of a block's stages; most with the fewest lanes.
constexpr size_t panel_shared_bytes(int lanes) {
  return size_t{STAGES} * ROWS_PER_STAGE * panel_pitch(lanes) * (THREADS / lanes);
}

/// The mapping of panels to the outputs and to threads.
struct UnalignedThreadMap {
  ColumnThreadMap block;
  int lanes;                       ///< lanes per panel, a power of two
  unsigned panels_per_inner_loop;  ///< panels that cover the innermost loop of the outputs
  int64_t panels;
  Span readable;

  size_t shared_bytes() const { return panel_shared_bytes(lanes); }
};

/// The memory from the first element of x to its last one.
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

/// The map with the lowest estimated time. Narrow panels leave more threads for the rows, which
/// spares some problems a second launch.
inline UnalignedThreadMap unaligned_thread_map(const Problem& problem, const Device& device) {
  const int64_t inner_outputs = problem.outputs.size[problem.outputs.rank - 1];
  const int64_t vectors =
      ceil_div(inner_outputs * static_cast<int64_t>(size_of(problem.in_dtype)), 16);
  const auto map_for = [&](int lanes) {
    UnalignedThreadMap map{};
    map.lanes = lanes;
    map.readable = readable(problem);
    map.panels_per_inner_loop = static_cast<unsigned>(ceil_div(vectors, lanes));
    map.panels = problem.output_count / inner_outputs * map.panels_per_inner_loop;
    map.block = multistage_thread_map(problem, device, map.panels * lanes, lanes, MAX_THREADS_X);
    return map;
  };
  const auto cost = [&](const UnalignedThreadMap& map) {
    return multistage_cost(problem, device, map.block) * (map.lanes + PANEL_ROW_VECTORS) /
           map.lanes;
  };
  const auto max_lanes =
      static_cast<int>(std::clamp<int64_t>(next_power_of_two(vectors), MIN_PANEL_LANES, 32));
  UnalignedThreadMap best = map_for(max_lanes);
  for (int lanes = max_lanes / 2; lanes >= MIN_PANEL_LANES; lanes /= 2) {
    const UnalignedThreadMap narrower = map_for(lanes);
    if (cost(narrower) < cost(best)) best = narrower;
  }
  return best;
}

/// The rows of one lane of a panel.
template <typename T>
class UnalignedRowLoader {
 public:
  static constexpr int W = VECTOR_WIDTH<T>;

  /// `first` is the first row.
  __device__ __forceinline__ UnalignedRowLoader(const Problem& problem,
                                                const UnalignedThreadMap& map, int64_t first)
      : readable_(map.readable),
        panel_lanes_(map.lanes),
        lane_(static_cast<int>(threadIdx.x) % map.lanes),
        pitch_(panel_pitch(map.lanes)),
        smem_base_(static_cast<int>(threadIdx.x) / map.lanes * STAGES * ROWS_PER_STAGE * pitch_) {
    const int threads_x = map.block.threads_x;
    const int64_t panel = int64_t{blockIdx.x % map.block.grid_x} * (threads_x / panel_lanes_) +
                          static_cast<int>(threadIdx.x) % threads_x / panel_lanes_;
    if (panel >= map.panels) return;
    const int64_t inner_loop = problem.outputs.rank > 1 ? panel / map.panels_per_inner_loop : 0;
    const int64_t inner_outputs = problem.outputs.size[problem.outputs.rank - 1];
    const int64_t column = (panel - inner_loop * map.panels_per_inner_loop) * panel_lanes_ * W;
    first_output_ = inner_loop * inner_outputs + column;
    column_count_ = static_cast<int>(std::min<int64_t>(inner_outputs - column, panel_lanes_ * W));
    const char* const row0 = reinterpret_cast<const char*>(
        static_cast<const T*>(problem.in) + offsets_at(problem.outputs, first_output_).of[IN]);
    row_stride_ = problem.reduced.rank > 0 ? problem.reduced.stride[IN][0] * int64_t{sizeof(T)} : 0;
    begin_ = row0 + first * row_stride_;
    row_count_ = rows_left(first, problem.count);

    const int accesses = (column_count_ - 1) / ELEMENTS_PER_ACCESS + 1;
    panel_bytes_ = accesses * ACCESS_BYTES + (SUBWORD ? 4 : 0);
#pragma unroll
    for (int p = 0; p < ACCESSES; ++p) {
      // If an access does not exist, the panel's last one is repeated.
      access_offset_[p] = std::min(p * panel_lanes_ + lane_, accesses - 1) * ACCESS_BYTES;
    }
    // The rows near the ends of the readable span, where two sectors more may not be readable.
    const int64_t guarded_rows = row_stride_ >= MARGIN ? 1
                                 : row_stride_ > 0     ? MARGIN
                                                       : problem.count;
    const char* const end = row0 + (problem.count - 1) * row_stride_ + panel_bytes_;
    unguarded_begin_ = rows_left(first, row0 - readable_.begin >= MARGIN ? 0 : guarded_rows);
    unguarded_end_ =
        rows_left(first, problem.count - (readable_.end - end >= MARGIN ? 0 : guarded_rows));
  }

  /// Returns whether the lane's column c exists.
  __device__ __forceinline__ bool has(int c) const { return column(c) < column_count_; }
  /// The offset in out of the result of the lane's column c.
  __device__ __forceinline__ int64_t out_offset(const Problem& problem, int c) const {
    return offsets_at(problem.outputs, first_output_).of[OUT] +
           column(c) * problem.outputs.stride[OUT][problem.outputs.rank - 1];
  }

  /// A lane reads what other lanes of its warp have copied.
  __device__ __forceinline__ static void sync() { __syncwarp(); }

  __device__ __forceinline__ void prefetch(int row, int stage) const {
    const char* const begin = begin_ + row * row_stride_;
    if (row < unguarded_begin_ || row + ROWS_PER_STAGE > unguarded_end_) {
      return prefetch_guarded(begin, row_count_ - row, stage);
    }
    if (16 * lane_ < panel_bytes_ + SECTOR_BYTES) {
#pragma unroll
      for (int r = 0; r < ROWS_PER_STAGE; ++r) {
        const char* const at = begin + r * row_stride_;
        prefetch_vector(at - sector_misalignment(at), smem_offset(stage, r), lane_);
      }
    }
    // A row that does not begin at a sector needs up to two vectors more.
    if (lane_ >= 2 * ROWS_PER_STAGE) return;
    const char* const at = begin + lane_ / 2 * row_stride_;
    const int misalignment = sector_misalignment(at), vector = panel_lanes_ + lane_ % 2;
    if (16 * vector < length(misalignment))
      prefetch_vector(at - misalignment, smem_offset(stage, lane_ / 2), vector);
  }

  template <typename Accum>
  __device__ __forceinline__ void add(Accum& accum, int row, int stage) const {
    const auto row_stride = static_cast<uint32_t>(row_stride_);
    const auto begin = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(begin_)) +
                       static_cast<uint32_t>(row) * row_stride;
    add_stage<T>(accum, row, row_count_, [&](int r) {
      return load_at(smem_offset(stage, r),
                     static_cast<int>((begin + r * row_stride) % SECTOR_BYTES));
    });
  }

 private:
  /// A lane reads 4-byte words, or single elements if these are longer.
  static constexpr bool SUBWORD = sizeof(T) < 4;
  static constexpr int ELEMENTS_PER_ACCESS = SUBWORD ? 4 / sizeof(T) : 1,
                       ACCESSES = W / ELEMENTS_PER_ACCESS;
  static constexpr int ACCESS_BYTES = 16 / ACCESSES;
  static constexpr int MARGIN = 2 * SECTOR_BYTES;

  __device__ __forceinline__ int column(int c) const {
    return (c / ELEMENTS_PER_ACCESS * panel_lanes_ + lane_) * ELEMENTS_PER_ACCESS +
           c % ELEMENTS_PER_ACCESS;
  }
  /// The bytes that are needed from a row's first sector on.
  __device__ __forceinline__ int length(int misalignment) const {
    return misalignment / 4 * 4 + panel_bytes_;
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
                                                         int vector) {
    cp_async<W>(shared(smem_offset + 16 * vector), reinterpret_cast<const T*>(sector + 16 * vector),
                W);
  }
  /// The same for rows near the first or the last element that may be read. Copies only rows that
  /// exist.
  __device__ __forceinline__ void prefetch_guarded(const char* row, int rows, int stage) const {
#pragma unroll 1
    for (int r = 0; r < ROWS_PER_STAGE && r < rows; ++r, row += row_stride_) {
      const int misalignment = sector_misalignment(row);
#pragma unroll 1
      for (int at = 16 * lane_; at < length(misalignment); at += 16 * panel_lanes_) {
        copy_readable(shared(smem_offset(stage, r) + at),
                      reinterpret_cast<const T*>(row - misalignment + at), readable_);
      }
    }
  }

  /// The lane's elements of a row that begins `misalignment` bytes after `smem_offset`. Elements of
  /// less than 4 bytes are extracted from two words by a funnel shift.
  __device__ __forceinline__ RowVector<T> load_at(int smem_offset, int misalignment) const {
    RowVector<T> row;
    constexpr int WORDS_PER_ACCESS = 4 / ACCESSES;
#pragma unroll
    for (int p = 0; p < ACCESSES; ++p) {
      if constexpr (SUBWORD) {
        const T* const at = shared(smem_offset + misalignment / 4 * 4 + access_offset_[p]);
        const auto* const words = reinterpret_cast<const uint32_t*>(at);
        const uint64_t low = *words, high = words[1];
        row.words.lane[p] = static_cast<uint32_t>((high << 32 | low) >> (misalignment % 4 * 8));
      } else {
        const auto words =
            load_words<1>(shared(smem_offset + misalignment + access_offset_[p])).words;
#pragma unroll
        for (int w = 0; w < WORDS_PER_ACCESS; ++w)
          row.words.lane[p * WORDS_PER_ACCESS + w] = words.lane[w];
      }
    }
    return row;
  }

  Span readable_;
  int panel_lanes_, lane_, pitch_, smem_base_;
  const char* begin_ = nullptr;  ///< the panel's first column, in the thread's first row
  int64_t row_stride_ = 0;       ///< bytes from row to row
  int64_t first_output_ = 0;
  int row_count_ = 0;  ///< number of rows; 0 if the panel does not exist
  int unguarded_begin_ = 0, unguarded_end_ = 0;
  int column_count_ = 0, panel_bytes_ = 0, access_offset_[ACCESSES] = {};
};

}  // namespace smem::reduce::inline SMEM_BUILD
