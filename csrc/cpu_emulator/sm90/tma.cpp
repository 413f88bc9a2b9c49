#include "cpu_emulator/sm90/tma.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>

#include "cpu_emulator/cluster.h"
#include "cpu_emulator/fault.h"
#include "cpu_emulator/sm90/block_state.h"
#include "cpu_emulator/sm90/tensor_core.h"

namespace smem::cpu_emulator::sm90 {

namespace {

constexpr uint32_t ALIGNMENT = 128;  // of a box in shared memory
constexpr int VEC_BYTES = 16;        // the unit of the swizzle

ByteRange range_of(const CUtensorMap& map, uint32_t shared) {
  return {shared, shared + static_cast<uint32_t>(map.row_pitch() * map.rows())};
}

/// Calls visit(offset in the shared window, global address, bytes) for the vectors of a box.
/// `bytes` counts those that are inside of the tensor, from the first; the address is null if
/// there are none.
template <typename Visit>
void for_each_vec(const CUtensorMap& map, BoxCoord at, uint32_t shared, const Visit& visit) {
  const int element_bytes = map.element_bytes();
  const int64_t row_end = map.size[0] * element_bytes;
  for (int row = 0; row < map.rows(); ++row) {
    const int64_t y = at.y + row % map.box[1], z = at.z + row / map.box[1];
    const bool is_row = y >= 0 && y < map.size[1] && z >= 0 && z < map.size[2];
    for (int byte = 0; byte < map.row_bytes(); byte += VEC_BYTES) {
      const int64_t x = int64_t{at.x} * element_bytes + byte;
      const auto inside = static_cast<int>(std::clamp<int64_t>(row_end - x, 0, VEC_BYTES));
      const bool is_inside = is_row && x >= 0 && inside > 0;
      const auto linear = shared + static_cast<uint32_t>(row * map.row_pitch() + byte);
      visit(swizzled(linear, map.swizzle),
            is_inside ? map.data + z * map.stride[2] + y * map.stride[1] + x : nullptr,
            is_inside ? inside : 0);
    }
  }
}

void copy_box_in(const CUtensorMap& map, BoxCoord at, uint32_t shared, const SharedWindow& window) {
  for_each_vec(map, at, shared, [&](uint32_t offset, const unsigned char* from, int bytes) {
    uint32_t words[VEC_BYTES / sizeof(uint32_t)] = {};
    if (bytes > 0) std::memcpy(words, from, static_cast<size_t>(bytes));
    if (map.type == CU_TENSOR_MAP_DATA_TYPE_TFLOAT32) {
      for (uint32_t& word : words) word = rounded_to_tf32(word);
    }
    std::memcpy(window.at(offset), words, VEC_BYTES);
  });
}

void check_box(Block& block, const CUtensorMap& map, BoxCoord at, uint32_t shared, bool stores,
               Site site) {
  if (shared % ALIGNMENT != 0) {
    fail(block, "misaligned", "TMA needs a box at a multiple of 128 bytes in shared memory", site);
  }
  // What is outside along x and y is loaded as zeros, and not stored. But a store of columns that
  // do not exist is a mistake, and so is a matrix that the batch does not have.
  const bool is_outside =
      at.z < 0 || at.z >= map.size[2] || (stores && (at.x < 0 || at.x >= map.size[0] || at.y < 0));
  if (!is_outside) return;
  fail(block, "out of bounds",
       "a box at " + std::to_string(at.x) + ", " + std::to_string(at.y) + ", " +
           std::to_string(at.z) + " of a tensor of " + std::to_string(map.size[0]) + " x " +
           std::to_string(map.size[1]) + " x " + std::to_string(map.size[2]),
       site);
}

/// Passes through the banks of shared memory for a box: in one pass each bank serves one word, so a
/// 16-byte part of a line of 128 bytes serves one vector. They are least for the vectors if all
/// such parts serve equally many. How TMA groups vectors is not known; fewer passes are impossible.
struct BoxPasses {
  static constexpr uint32_t PARTS = 8;
  uint64_t vectors = 0, in_part[PARTS] = {};

  void add(uint32_t offset) {
    ++vectors;
    ++in_part[offset / VEC_BYTES % PARTS];
  }
  uint64_t count() const { return *std::max_element(std::begin(in_part), std::end(in_part)); }
  uint64_t least() const { return (vectors + PARTS - 1) / PARTS; }
};

/// Tells the observer of a copy of a box, both of whose sides are accesses.
void observe(Block& block, const CUtensorMap& map, BoxCoord at, uint32_t shared, bool stores,
             unsigned receivers, Site site) {
  Observer* const observer = block.observer();
  if (!observer) return;
  constexpr uintptr_t SECTOR = 32;
  uint64_t inside = 0, sectors = 0;
  uintptr_t last_sector = 0;
  BoxPasses passes;
  for_each_vec(map, at, shared, [&](uint32_t offset, const unsigned char* vec, int bytes) {
    passes.add(offset);
    if (bytes == 0) return;
    inside += static_cast<uint64_t>(bytes);
    const auto sector = reinterpret_cast<uintptr_t>(vec) / SECTOR;
    if (sector != last_sector) ++sectors;
    last_sector = sector;
  });
  const auto box_bytes = static_cast<unsigned>(map.box_bytes());
  const BulkAccess global{.action = stores ? Action::box_to : Action::box_from,
                          .address = map.data,
                          .lanes = 1,
                          .bytes_a_lane = box_bytes,
                          .bytes = inside,
                          .sectors = sectors};
  const BulkAccess in_shared{.action = stores ? Action::box_from : Action::box_to,
                             .address = block.sm90().window.at(shared),
                             .lanes = receivers,
                             .bytes_a_lane = box_bytes,
                             .bytes = uint64_t{box_bytes} * receivers,
                             .wavefronts = passes.count() * receivers,
                             .conflicts = (passes.count() - passes.least()) * receivers};
  observer->bulk_access(stores ? in_shared : global, site);
  observer->bulk_access(stores ? global : in_shared, site);
}

}  // namespace

void tma_load(Block& block, uint32_t shared, const CUtensorMap& map, BoxCoord at, uint32_t barrier,
              unsigned blocks, Site site) {
  check_box(block, map, at, shared, false, site);
  observe(block, map, at, shared, false, static_cast<unsigned>(std::popcount(blocks)), site);
  for (; blocks; blocks &= blocks - 1) {
    const auto rank = static_cast<unsigned>(std::countr_zero(blocks));
    if (rank >= block.cluster().size()) {
      fail(block, "out of bounds",
           "a multicast to block " + std::to_string(rank) + " of a cluster of " +
               std::to_string(block.cluster().size()),
           site);
    }
    Block& target = block.cluster().block(rank);
    if (target.alive() == 0) fail(block, "out of bounds", "TMA writes to an ended block", site);
    BlockState& state = target.sm90();
    const ByteRange bytes = range_of(map, shared);
    const auto id = state.window.begin_write(bytes, "a TMA load", site);
    if (Observer* const observer = target.observer()) {
      observer->box_load_begins(barrier, bytes.begin, bytes.end);
    }
    block.cluster().async().issue([&state, id, map, at, shared, barrier, bytes, site] {
      if (Observer* const observer = state.block.observer()) {
        observer->async_copy_lands(state.window.at(bytes.begin), bytes.end - bytes.begin);
      }
      copy_box_in(map, at, shared, state.window);
      state.window.end(id);
      state.barriers.complete_bytes(barrier, static_cast<uint32_t>(map.box_bytes()), site);
    });
  }
}

/// TMA reads shared memory first, and writes global memory later.
struct BulkStores::Store {
  CUtensorMap map;
  BoxCoord at;
  uint32_t shared;
  SharedWindow::Id read;
  bool has_read = false;
  std::vector<unsigned char> data;

  void read_box(const SharedWindow& window) {
    if (has_read) return;
    has_read = true;
    for_each_vec(map, at, shared, [&](uint32_t offset, const unsigned char*, int) {
      data.insert(data.end(), window.at(offset), window.at(offset) + VEC_BYTES);
    });
  }
  void write_box() {
    const unsigned char* from = data.data();
    for_each_vec(map, at, shared, [&](uint32_t, unsigned char* to, int bytes) {
      if (bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
      from += VEC_BYTES;
    });
  }
};

BulkStores::BulkStores(Block& block) : block_(block), groups_(block.threads()) {
  for (auto& groups : groups_) groups.emplace_back();
}

void BulkStores::store(const CUtensorMap& map, BoxCoord at, uint32_t shared, Site site) {
  check_box(block_, map, at, shared, true, site);
  observe(block_, map, at, shared, true, 1, site);
  const auto id = block_.sm90().window.begin_read(range_of(map, shared), "a TMA store", site);
  auto store = std::make_shared<Store>(Store{map, at, shared, id});
  groups_[current_thread->linear].back().push_back(store);
  AsyncQueue& async = block_.cluster().async();
  async.issue([store, &async, &window = block_.sm90().window] {
    store->read_box(window);
    async.issue([store] { store->write_box(); });
  });
}

void BulkStores::commit() { groups_[current_thread->linear].emplace_back(); }

void BulkStores::wait_read(size_t groups_left) {
  auto& groups = groups_[current_thread->linear];
  SharedWindow& window = block_.sm90().window;
  while (groups.size() - 1 > groups_left) {
    for (const auto& store : groups.front()) {
      store->read_box(window);
      window.end(store->read);
    }
    groups.erase(groups.begin());
  }
}

}  // namespace smem::cpu_emulator::sm90
