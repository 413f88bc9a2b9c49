// Shadow state of a block's shared memory: which thread wrote and read each element, and when.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cpu_emulator/site.h"
#include "cpu_emulator/trace/order.h"

namespace smem::cpu_emulator::trace {

class SharedMemory {
 public:
  /// What is wrong with an access.
  struct Error {
    const char* kind;
    const char* does = "";  ///< what the thread does: "reads", "overwrites"
    const char* did = "";   ///< what the other thread did
    unsigned other = Moment::NOBODY;
    Site site{};  ///< where it did so
    /// Another thread's store by the same instruction is all that is overwritten: no harm is done
    /// if the value is the same.
    bool by_same_store = false;

    std::string detail(unsigned thread) const;
  };
  using Verdict = std::optional<Error>;
  struct Place {
    int region;
    uint64_t offset;  ///< in bytes from the region's begin
  };

  /// Sites are in the code from `code` on.
  SharedMemory(const Order& order, uintptr_t code) : order_(order), code_(code) {}

  /// Forgets what was stored; the memory gets bytes that no kernel means, NaN for floats, so that
  /// a block does not find what another has left.
  void begin_block();
  /// Adds an array; its memory, too, gets such bytes.
  void note(const std::string& name, void* begin, size_t bytes, bool dynamic);
  const std::string& name(int region) const { return regions_[static_cast<size_t>(region)].name; }
  size_t bytes(int region) const { return regions_[static_cast<size_t>(region)].bytes; }
  /// The position of the bytes; region -1 if they are not all in one array.
  Place find(const void* address, size_t bytes) const;

  /// `speculative`: what is loaded need not have been stored.
  Verdict load(Place place, size_t bytes, unsigned thread, Site site, bool speculative = false);
  Verdict store(Place place, size_t bytes, unsigned thread, Site site);
  Verdict update_atomically(Place place, size_t bytes, unsigned thread, Site site);
  Verdict start_copy(Place place, size_t bytes, unsigned thread, Site site);
  void land_copy(Place place, size_t bytes, unsigned thread);
  /// A copy that an asynchronous barrier has waited for: threads that wait for it see it, the one
  /// that copies alike.
  void land_bound_copy(Place place, size_t bytes);
  /// TMA has written the bytes. SharedWindow (sm90/) checks that nobody used them meanwhile.
  void land_async_copy(Place place, size_t bytes);

  /// Bytes of all arrays that were used, beside the dynamic memory.
  uint64_t static_bytes() const;

 private:
  struct [[gnu::packed, gnu::aligned(2)]] Touch {
    Moment moment;
    uint32_t at = 0;  ///< the site's address, from `code_`; 0 if it is not known

    /// Field by field: a copy in wider steps would wait until a new touch's fields are in memory.
    void set(const Touch& other) {
      moment.barriers = other.moment.barriers;
      moment.stretch = other.moment.stretch;
      moment.thread = other.moment.thread;
      at = other.at;
    }
  };
  /// In one line of the CPU's cache: an access waits for its cell more than for anything else.
  struct alignas(64) Cell {
    uint32_t block = 0;  ///< the number of the block that it tells of; another's knows nothing
    bool written = false;
    bool by_atomic = false;             ///< the newest store is an atomic operation's
    uint16_t copying = Moment::NOBODY;  ///< whose copy is on its way here
    Touch writer;
    /// The newest; the newest by another lane of its warp; the newest by another warp.
    Touch readers[3];
  };
  static_assert(sizeof(Cell) == 64);
  struct Region {
    uintptr_t begin;
    size_t bytes;
    int element_shift;  ///< the binary logarithm of an element's bytes
    std::vector<Cell> cells;
    std::string name;
    bool dynamic;

    void poison() const;
  };

  static void refine(Region& region, int element_shift);
  static void note_reader(Cell& cell, const Touch& reader);
  template <typename Check>
  Verdict for_each_cell(Place place, size_t bytes, const Check& check);
  Verdict race_with(const Touch& touch, const char* did, unsigned thread, const char* does) const;
  [[gnu::cold]] Verdict error_of_load(const Cell& cell, unsigned thread) const;
  bool any_reader_races(const Cell& cell, unsigned thread) const;
  Verdict overwrite(const Cell& cell, unsigned thread, bool atomically = false) const;

  Touch touch(unsigned thread, Site site) const {
    return {order_.now(thread), static_cast<uint32_t>(site.pc - code_)};
  }
  Site site_of(const Touch& touch) const { return {touch.at ? code_ + touch.at : 0}; }

  const Order& order_;
  uintptr_t code_;
  std::vector<Region> regions_;
  uint32_t block_ = 0;       ///< the number of the running block, from 1
  mutable size_t last_ = 0;  ///< the region found last, most often the next one too
};

}  // namespace smem::cpu_emulator::trace
