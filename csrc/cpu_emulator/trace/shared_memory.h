// Shadow state of a block's shared memory: which thread wrote and read each element, and when.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cpu_emulator/cpu_emulator.h"

namespace smem::cpu_emulator::trace {

/// A thread's position in the order of events: the `barriers` that its block has passed, and the
/// number of the thread's interval between warp barriers.
struct Moment {
  unsigned thread = NOBODY;
  uint32_t barriers = 0, stretch = 0;

  static constexpr unsigned NOBODY = ~0u;
};

/// Which moments of the same block happened before which. Two threads are ordered by a block
/// barrier, two lanes of a warp also by a warp barrier that both pass. (A shuffle orders registers,
/// not memory: CUDA C++ Programming Guide, "Warp Shuffle Functions".)
class Order {
 public:
  void begin_block(unsigned threads);
  void pass_barrier() { ++barriers_; }
  void pass_warp_barrier(unsigned warp, unsigned mask);

  Moment now(unsigned thread) const { return {thread, barriers_, stretch_[thread]}; }
  bool happened_before(const Moment& moment, unsigned thread) const;

 private:
  using Seen = uint32_t[WARP_SIZE];  ///< the latest stretch of each lane that a lane knows of

  uint32_t barriers_ = 0;
  std::vector<uint32_t> stretch_;
  std::vector<std::vector<std::vector<uint32_t>>> seen_;  ///< a warp, its lanes; empty until used
};

class SharedMemory {
 public:
  /// The error of an access; both are empty if there is none.
  struct Verdict {
    const char* kind = "";
    std::string detail;
    unsigned other = Moment::NOBODY;  ///< the other thread of a race
  };
  struct Place {
    int region;
    uint64_t offset;  ///< in bytes from the region's begin
  };

  explicit SharedMemory(const Order& order) : order_(order) {}

  void begin_block();
  void note(const void* begin, size_t bytes, size_t element_bytes);
  /// The position of the bytes; region -1 if they are not all in one tile.
  Place find(const void* address, size_t bytes) const;

  Verdict load(Place place, size_t bytes, unsigned thread, Site site);
  Verdict store(Place place, size_t bytes, unsigned thread, Site site);
  Verdict start_copy(Place place, size_t bytes, unsigned thread, Site site);
  void land_copy(Place place, size_t bytes, unsigned thread);

  /// Bytes of all tiles, beside the dynamic memory.
  uint64_t static_bytes(const void* dynamic) const;

 private:
  struct Touch {
    Moment moment;
    Site site;
  };
  struct Cell {
    bool written = false;
    unsigned copying = Moment::NOBODY;  ///< whose copy is on its way here
    Touch writer;
    /// The newest; the newest by another lane of its warp; the newest by another warp.
    Touch readers[3];
  };
  struct Region {
    uintptr_t begin;
    size_t bytes, element_bytes;
    std::vector<Cell> cells;
  };

  static void refine(Region& region, size_t element_bytes);
  static void note_reader(Cell& cell, const Touch& reader);
  template <typename Check>
  Verdict for_each_cell(Place place, size_t bytes, const Check& check);
  Verdict race_with(const Touch& touch, const char* did, unsigned thread, const char* does) const;
  Verdict overwrite(Cell& cell, unsigned thread) const;

  const Order& order_;
  std::vector<Region> regions_;
  mutable size_t last_ = 0;  ///< the region found last, most often the next one too
};

}  // namespace smem::cpu_emulator::trace
