#include "cpu_emulator/sm90/block_state.h"

namespace smem::cpu_emulator::sm90 {

// While a block has this state, its kernel's callbacks must look for their thread.
BlockState::BlockState(Block& block)
    : block(block), window(block), barriers(block), stores(block), warpgroups(block) {
  ++observed_blocks;
}

BlockState::~BlockState() { --observed_blocks; }

}  // namespace smem::cpu_emulator::sm90
