// The second and third level of accumulators of the simt kernel (accumulation_order.h).
#pragma once

#include "gemm/simt/thread_map.h"

namespace smem::gemm::simt::inline SMEM_BUILD {

/// The accumulators of complete intervals and superblocks of a thread. Those of intervals are in
/// shared memory, or in registers (IN_REGISTERS) for small tiles; those of superblocks are in local
/// memory. Accumulators in registers are passed as arguments: as members of this class, they would
/// be moved to local memory with the rest of it.
template <typename T, int TILE, bool IN_REGISTERS>
class PromotedAccum {
  using Map = ThreadMap<T, TILE>;
  using Acc = Accumulator<T>;
  using Slots = Tile<T, Map::ACCUM_VECS * Map::THREADS, Map::ACCUM_VEC>;
  static constexpr int W = Map::ACCUM_VEC;

 public:
  using Registers = Acc[Map::TM][Map::TN];

  __device__ __forceinline__ explicit PromotedAccum(Slots& accum_slots)
      : accum_slots_(accum_slots) {}

  /// interval_accum += accum; accum = 0. The first interval of a superblock overwrites the slots.
  /// `interval_accum` is used only if IN_REGISTERS.
  __device__ __forceinline__ void end_interval(Registers& accum, Registers& interval_accum) {
    if constexpr (IN_REGISTERS) {
#pragma unroll
      for (int i = 0; i < Map::TM; ++i) {
#pragma unroll
        for (int j = 0; j < Map::TN; ++j) {
          interval_accum[i][j] += accum[i][j];
          accum[i][j] = 0;
        }
      }
      return;
    }
    if (has_intervals_) {
      move_to_slots<true>(accum);
    } else {
      move_to_slots<false>(accum);
    }
    has_intervals_ = true;
  }

  /// superblock_accum += interval_accum; interval_accum = 0
  __device__ __forceinline__ void end_superblock(Registers& interval_accum) {
    flush_intervals(interval_accum);
#pragma unroll 4
    for (int vec = 0; vec < Map::ACCUM_VECS; ++vec) {
      const auto intervals = load_slot(vec);
#pragma unroll
      for (int i = 0; i < W; ++i) {
        const Acc before = has_superblocks_ ? superblock_accum_[vec * W + i] : Acc(0);
        superblock_accum_[vec * W + i] = before + to_accumulator(intervals.lane[i]);
      }
    }
    has_superblocks_ = true;
    has_intervals_ = false;
  }

  /// Leaves superblock_accum + (interval_accum + accum) in the slots.
  __device__ __forceinline__ void finish(Registers& accum, Registers& interval_accum) {
    end_interval(accum, interval_accum);
    if (!has_superblocks_) return flush_intervals(interval_accum);
    end_superblock(interval_accum);
#pragma unroll 1
    for (int vec = 0; vec < Map::ACCUM_VECS; ++vec) {
      Vector<T, W> values{};
#pragma unroll
      for (int i = 0; i < W; ++i) {
        values.lane[i] = from_accumulator<T>(superblock_accum_[vec * W + i]);
      }
      store_vector<W>(slot_address(vec), values);
    }
  }

  /// Moves interval accumulators that are in registers to the slots.
  __device__ __forceinline__ void flush_intervals(Registers& interval_accum) {
    if constexpr (IN_REGISTERS) move_to_slots<false>(interval_accum);
  }

  /// Discards what the slots hold.
  __device__ __forceinline__ void discard_intervals() { has_intervals_ = false; }

 private:
  __device__ __forceinline__ T* slot_address(int vec) const {
    return accum_slots_.at(vec * Map::THREADS + static_cast<int>(threadIdx.x), 0);
  }
  __device__ __forceinline__ Vector<T, W> load_slot(int vec) const {
    return load_vector<W>(slot_address(vec));
  }

  template <bool ADD>
  __device__ __forceinline__ void move_to_slots(Registers& from) {
#pragma unroll
    for (int i = 0; i < Map::TM; ++i) {
#pragma unroll
      for (int v = 0; v < Map::ACCUM_VECS_N; ++v) {
        Vector<T, W> values{};
        if constexpr (ADD) values = load_slot(i * Map::ACCUM_VECS_N + v);
#pragma unroll
        for (int j = 0; j < W; ++j) {
          Acc& element = from[i][v * W + j];
          values.lane[j] = from_accumulator<T>(to_accumulator(values.lane[j]) + element);
          element = 0;
        }
        store_vector<W>(slot_address(i * Map::ACCUM_VECS_N + v), values);
      }
    }
  }

  Slots& accum_slots_;
  bool has_intervals_ = false, has_superblocks_ = false;
  Acc superblock_accum_[Map::TM * Map::TN];
};

}  // namespace smem::gemm::simt::inline SMEM_BUILD
