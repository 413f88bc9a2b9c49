// What sm_90 adds to a block.
#pragma once

#include <string>

#include "cpu_emulator/block.h"
#include "cpu_emulator/sm90/mbarrier.h"
#include "cpu_emulator/sm90/shared_window.h"
#include "cpu_emulator/sm90/tma.h"
#include "cpu_emulator/sm90/wgmma.h"

namespace smem::cpu_emulator::sm90 {

class BlockState {
 public:
  explicit BlockState(Block& block);
  ~BlockState();
  BlockState(const BlockState&) = delete;
  BlockState& operator=(const BlockState&) = delete;

  /// The block has ended: nothing may be reading or writing its shared memory.
  void check_end() const { window.check_end(); }
  std::string describe_barriers() const { return barriers.describe(); }

  Block& block;
  SharedWindow window;
  Mbarriers barriers;
  NamedBarrier named_barriers[16];
  BulkStores stores;
  Warpgroups warpgroups;
};

}  // namespace smem::cpu_emulator::sm90
