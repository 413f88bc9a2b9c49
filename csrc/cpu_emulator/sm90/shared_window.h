// A block's dynamic shared memory as TMA and wgmma see it: its addresses, and which bytes of it an
// asynchronous operation reads or writes. Until the kernel has waited for the operation, nobody may
// write what it reads, and nobody may use what it writes.
#pragma once

#include <cstdint>
#include <vector>

#include "cpu_emulator/block.h"

namespace smem::cpu_emulator::sm90 {

/// Bytes of the window, counted from its begin.
struct ByteRange {
  uint32_t begin, end;

  bool overlaps(const ByteRange& other) const { return begin < other.end && other.begin < end; }
};

class SharedWindow {
 public:
  explicit SharedWindow(Block& block);
  ~SharedWindow();
  SharedWindow(const SharedWindow&) = delete;
  SharedWindow& operator=(const SharedWindow&) = delete;

  // PTX's addresses: the block's rank in its cluster, and 24 bits that count from the window's
  // begin. The window begins at a multiple of 1024 bytes of the emulator's memory, so that pointers
  // and addresses have the same swizzle.
  static constexpr uint32_t RANK_SHIFT = 24, OFFSET_MASK = (1u << RANK_SHIFT) - 1;
  uint32_t offset_of(const void* shared, Site site) const;
  unsigned char* at(uint32_t offset) const { return begin_ + offset; }
  /// Ends the launch if the bytes are not all in dynamic shared memory.
  void check_inside(ByteRange bytes, const char* user, Site site) const;

  /// The kernel must have waited for everything.
  void check_end() const;

  using Id = uint64_t;
  /// Until end(id), `user` reads the bytes, asynchronously.
  Id begin_read(ByteRange bytes, const char* user, Site site);
  /// Until end(id), `user` writes the bytes. They become NaN, for they are undefined until then.
  Id begin_write(ByteRange bytes, const char* user, Site site);
  void end(Id id);

  /// A thread's own access (in PTX: by the generic proxy).
  void access(Action action, const void* address, size_t bytes, unsigned thread, Site site);
  /// PTX fence.proxy.async by a thread: asynchronous operations see what it wrote before.
  void fence(unsigned thread) { ++fences_[thread]; }

 private:
  static constexpr uint32_t GRANULE = 16;  ///< bytes whose last writer is known

  struct InFlight {
    Id id;
    ByteRange bytes;
    bool writes;
    const char* user;
    Site site;
  };
  struct Writer {
    uint32_t thread;
    uint32_t fences;  ///< the thread's when it wrote; a fence since then has published the write
  };
  static constexpr uint32_t NOBODY = ~0u;

  void check_against_in_flight(ByteRange bytes, bool writes, const char* user, Site site) const;

  Block& block_;
  unsigned char* begin_;
  ByteRange memory_;  ///< the dynamic shared memory, within the window
  std::vector<InFlight> in_flight_;
  std::vector<Writer> writers_;   ///< by granule of the window
  std::vector<uint32_t> fences_;  ///< by thread
  Id next_id_ = 1;
};

}  // namespace smem::cpu_emulator::sm90
