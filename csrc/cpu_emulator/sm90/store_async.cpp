#include "cpu_emulator/sm90/store_async.h"

#include <cstring>

#include "cpu_emulator/cluster.h"
#include "cpu_emulator/fault.h"
#include "cpu_emulator/sm90/block_state.h"

namespace smem::cpu_emulator::sm90 {

void store_async_in(Block& block, Block& target, uint32_t shared, uint32_t value, uint32_t barrier,
                    Site site) {
  if (block.cluster().size() == 1) {
    fail(block, "out of bounds", "st.async in a launch without clusters, which a GPU refuses",
         site);
  }
  if (target.alive() == 0) fail(block, "out of bounds", "st.async writes to an ended block", site);
  BlockState& state = target.sm90();
  const ByteRange bytes{shared, shared + static_cast<uint32_t>(sizeof value)};
  const auto id = state.window.begin_write(bytes, "an st.async", site);
  block.cluster().async().issue([&state, id, bytes, value, barrier, site] {
    unsigned char* const to = state.window.at(bytes.begin);
    if (Observer* const observer = state.block.observer()) {
      observer->async_copy_lands(to, sizeof value);
    }
    std::memcpy(to, &value, sizeof value);
    state.window.end(id);
    state.barriers.complete_bytes(barrier, sizeof value, site);
  });
}

}  // namespace smem::cpu_emulator::sm90
