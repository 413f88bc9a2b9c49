// st.async: a store into the shared memory of a block of the cluster.
#pragma once

#include "cpu_emulator/block.h"

namespace smem::cpu_emulator::sm90 {

/// `block` stores `value` at the address `shared` of `target`. There its bytes complete on the
/// mbarrier at `barrier`.
void store_async_in(Block& block, Block& target, uint32_t shared, uint32_t value, uint32_t barrier,
                    Site site);

}  // namespace smem::cpu_emulator::sm90
