// TMA: copies of boxes between global and shared memory.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "cpu_emulator/sm90/shared_window.h"
#include "cpu_emulator/sm90/tensor_map.h"

namespace smem::cpu_emulator::sm90 {

/// The bits of an address that a swizzle of 16 << log2 bytes exchanges: bits 4 and following are
/// XORed with bits 7 and following.
constexpr uint32_t swizzled(uint32_t address, int log2) {
  return address ^ (address >> 7 & ((1u << log2) - 1)) << 4;
}

/// The coordinates of a box's first element.
struct BoxCoord {
  int x, y, z;
};

/// Loads a box to the address `shared` of each block of the cluster whose bit in `blocks` is set.
/// There the bytes complete on the mbarrier at `barrier`.
void tma_load(Block& block, uint32_t shared, const CUtensorMap& map, BoxCoord at, uint32_t barrier,
              unsigned blocks, Site site);

/// The bulk stores of one block. Each thread has groups of its own.
class BulkStores {
 public:
  explicit BulkStores(Block& block);

  void store(const CUtensorMap& map, BoxCoord at, uint32_t shared, Site site);
  void commit();
  /// Returns when at most `groups_left` of the thread's newest groups still read shared memory.
  void wait_read(size_t groups_left);

 private:
  struct Store;
  using Group = std::vector<std::shared_ptr<Store>>;

  Block& block_;
  std::vector<std::vector<Group>> groups_;  ///< by thread; the last group is open
};

}  // namespace smem::cpu_emulator::sm90
