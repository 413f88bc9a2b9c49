// Stands for CUDA's header of that name: the block, the grid, tiles of a warp, coalesced threads.
#pragma once

#include "integer_functions.h"
#include "warp_functions.h"

// Groups have no state but a mask of lanes. Everything is inline, so that the emulator is told the
// line in the kernel.
#define SMEM_PURE SMEM_UNSEEN __attribute__((noinline, const)) inline

namespace cooperative_groups {

/// The n-th bit that is set in `mask`, from 0.
SMEM_PURE unsigned smem_nth_lane(unsigned mask, unsigned n) { return __fns(mask, 0, n + 1); }

/// The bits of `bits` at which `mask` has ones, without gaps.
SMEM_PURE unsigned smem_pack(unsigned bits, unsigned mask) {
  unsigned packed = 0;
  for (int to = 0; mask; ++to, mask &= mask - 1) packed |= (bits >> (__ffs(mask) - 1) & 1) << to;
  return packed;
}

SMEM_MATH unsigned smem_threads_of(uint3 size) { return size.x * size.y * size.z; }

/// The lanes of the calling thread's warp from `first` that the block has.
SMEM_MATH unsigned smem_lanes(unsigned first, unsigned count) {
  const unsigned warp = smem_thread_number() / 32 * 32;
  const unsigned threads = smem_threads_of(smem_block_size()) - warp;
  const unsigned existing = threads < 32 ? (1u << threads) - 1 : ~0u;
  return (count < 32 ? (1u << count) - 1 : ~0u) << first & existing;
}

// -------------------------------------------------------------------------- the block, the grid

class thread_block {
 public:
  SMEM_MATH static void sync() { smem_syncthreads(); }
  SMEM_MATH static unsigned thread_rank() { return smem_thread_number(); }
  SMEM_MATH static unsigned num_threads() { return smem_threads_of(smem_block_size()); }
  SMEM_MATH static unsigned size() { return num_threads(); }
  SMEM_MATH static dim3 group_index() { return smem_block_index(); }
  SMEM_MATH static dim3 thread_index() { return smem_thread_index(); }
  SMEM_MATH static dim3 dim_threads() { return smem_block_size(); }
  SMEM_MATH static dim3 group_dim() { return smem_block_size(); }
};
SMEM_MATH thread_block this_thread_block() { return {}; }

class grid_group {
 public:
  /// Blocks run one after the other, so that only one can wait for all.
  SMEM_MATH static void sync() {
    if (num_blocks() == 1) return smem_syncthreads();
    smem_fault("grid barrier", "grid.sync() needs all blocks at once: launch one block");
  }
  SMEM_MATH static bool is_valid() { return num_blocks() == 1; }
  SMEM_MATH static unsigned long long num_blocks() { return smem_threads_of(smem_grid_size()); }
  SMEM_MATH static unsigned long long block_rank() {
    const uint3 index = smem_block_index(), size = smem_grid_size();
    return (static_cast<unsigned long long>(index.z) * size.y + index.y) * size.x + index.x;
  }
  SMEM_MATH static unsigned long long num_threads() {
    return num_blocks() * thread_block::num_threads();
  }
  SMEM_MATH static unsigned long long size() { return num_threads(); }
  SMEM_MATH static unsigned long long thread_rank() {
    return block_rank() * thread_block::num_threads() + smem_thread_number();
  }
  SMEM_MATH static dim3 block_index() { return smem_block_index(); }
  SMEM_MATH static dim3 dim_blocks() { return smem_grid_size(); }
  SMEM_MATH static dim3 group_dim() { return smem_grid_size(); }
};
SMEM_MATH grid_group this_grid() { return {}; }

// ------------------------------------------------------------------------------- groups of lanes

/// Some lanes of a warp, ranked by their number.
class smem_lane_group {
 public:
  SMEM_MATH explicit smem_lane_group(unsigned mask) : mask_(mask) {}

  SMEM_MATH unsigned num_threads() const { return __popc(mask_); }
  SMEM_MATH unsigned size() const { return num_threads(); }
  SMEM_MATH unsigned thread_rank() const { return __popc(mask_ & ((1u << smem_lane()) - 1)); }
  SMEM_MATH unsigned smem_mask() const { return mask_; }

  SMEM_MATH void sync() const { smem_syncwarp(mask_); }

  template <typename T>
  SMEM_MATH T shfl(T value, unsigned rank) const {
    return from(value, rank % num_threads());
  }
  template <typename T>
  SMEM_MATH T shfl_up(T value, unsigned delta) const {
    const unsigned rank = thread_rank();
    return from(value, rank < delta ? rank : rank - delta);
  }
  template <typename T>
  SMEM_MATH T shfl_down(T value, unsigned delta) const {
    const unsigned rank = thread_rank();
    return from(value, rank + delta < num_threads() ? rank + delta : rank);
  }
  template <typename T>
  SMEM_MATH T shfl_xor(T value, unsigned bits) const {
    const unsigned rank = thread_rank(), other = rank ^ bits;
    return from(value, other < num_threads() ? other : rank);
  }

  SMEM_MATH unsigned ballot(int predicate) const {
    return smem_pack(__ballot_sync(mask_, predicate), mask_);
  }
  SMEM_MATH int any(int predicate) const { return __any_sync(mask_, predicate); }
  SMEM_MATH int all(int predicate) const { return __all_sync(mask_, predicate); }
  template <typename T>
  SMEM_MATH unsigned match_any(T value) const {
    return smem_pack(__match_any_sync(mask_, value), mask_);
  }
  template <typename T>
  SMEM_MATH unsigned match_all(T value, int& all_equal) const {
    return smem_pack(__match_all_sync(mask_, value, &all_equal), mask_);
  }

 private:
  /// The value of the lane of that rank, in steps of at most 8 bytes.
  template <typename T>
  SMEM_MATH T from(T value, unsigned rank) const {
    const unsigned lane = smem_nth_lane(mask_, rank);
    if constexpr (sizeof(T) <= 8) {
      return smem_shuffle_value(mask_, value, lane);
    } else {
      uint64_t words[(sizeof(T) + 7) / 8] = {};
      __builtin_memcpy(words, &value, sizeof(T));
      for (uint64_t& word : words) word = smem_shuffle(mask_, word, 8, lane);
      __builtin_memcpy(static_cast<void*>(&value), words, sizeof(T));
      return value;
    }
  }

  unsigned mask_;
};

/// N lanes of a warp, beside each other.
template <unsigned N, typename Parent = void>
class thread_block_tile : public smem_lane_group {
  static_assert(N <= 32 && (N & (N - 1)) == 0,
                "a tile on the CPU has 1, 2, 4, 8, 16 or 32 threads, not those of several warps");

 public:
  SMEM_MATH explicit thread_block_tile(unsigned threads_of_parent, unsigned rank_in_parent)
      : smem_lane_group(smem_lanes(smem_lane() & ~(N - 1), N)),
        tiles_((threads_of_parent + N - 1) / N),
        tile_(rank_in_parent / N) {}
  template <typename Other>
  SMEM_MATH thread_block_tile(const thread_block_tile<N, Other>& other)
      : smem_lane_group(other.smem_mask()),
        tiles_(other.meta_group_size()),
        tile_(other.meta_group_rank()) {}

  SMEM_MATH static constexpr unsigned num_threads() { return N; }
  SMEM_MATH static constexpr unsigned size() { return N; }
  SMEM_MATH static unsigned thread_rank() { return smem_lane() % N; }
  SMEM_MATH unsigned meta_group_size() const { return tiles_; }
  SMEM_MATH unsigned meta_group_rank() const { return tile_; }

 private:
  unsigned tiles_, tile_;
};

class coalesced_group : public smem_lane_group {
 public:
  using smem_lane_group::smem_lane_group;
  template <unsigned N, typename Parent>
  SMEM_MATH coalesced_group(const thread_block_tile<N, Parent>& tile)
      : smem_lane_group(tile.smem_mask()) {}

  SMEM_MATH unsigned meta_group_size() const { return 1; }
  SMEM_MATH unsigned meta_group_rank() const { return 0; }
};
SMEM_MATH coalesced_group coalesced_threads() { return coalesced_group(smem_activemask()); }

/// Any of the groups above within a block.
class thread_group {
 public:
  SMEM_MATH thread_group(thread_block) : lanes_(0), is_block_(true) {}
  SMEM_MATH thread_group(const smem_lane_group& lanes) : lanes_(lanes), is_block_(false) {}

  SMEM_MATH void sync() const { is_block_ ? smem_syncthreads() : lanes_.sync(); }
  SMEM_MATH unsigned num_threads() const {
    return is_block_ ? thread_block::num_threads() : lanes_.num_threads();
  }
  SMEM_MATH unsigned size() const { return num_threads(); }
  SMEM_MATH unsigned thread_rank() const {
    return is_block_ ? thread_block::thread_rank() : lanes_.thread_rank();
  }

 private:
  smem_lane_group lanes_;
  bool is_block_;
};

// ------------------------------------------------------------------------------------ partitions

template <unsigned N, typename Parent>
SMEM_MATH thread_block_tile<N, Parent> tiled_partition(const Parent& parent) {
  return thread_block_tile<N, Parent>(parent.num_threads(), parent.thread_rank());
}
/// Tiles of a number of threads that is known only now; they lie within a warp.
SMEM_MATH thread_group tiled_partition(const thread_group& parent, unsigned threads) {
  if (parent.num_threads() <= threads) return parent;
  return smem_lane_group(smem_lanes(smem_lane() & ~(threads - 1), threads));
}
template <typename Group, typename Label>
SMEM_MATH coalesced_group labeled_partition(const Group& group, Label label) {
  return coalesced_group(__match_any_sync(group.smem_mask(), label));
}
template <typename Group>
SMEM_MATH coalesced_group binary_partition(const Group& group, bool predicate) {
  return labeled_partition(group, predicate);
}

template <typename Group>
SMEM_MATH void sync(const Group& group) {
  group.sync();
}
template <typename Group>
SMEM_MATH auto thread_rank(const Group& group) {
  return group.thread_rank();
}
template <typename Group>
SMEM_MATH auto group_size(const Group& group) {
  return group.num_threads();
}
template <typename Group, typename F>
SMEM_MATH void invoke_one(const Group& group, F&& f) {
  if (group.thread_rank() == 0) f();
}

}  // namespace cooperative_groups
