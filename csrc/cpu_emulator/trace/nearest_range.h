// Says which range of memory an address outside of all probably belongs to.
#pragma once

#include <cstdint>
#include <string>

namespace smem::cpu_emulator::trace {

class NearestRange {
 public:
  /// Ranges further than `limit` bytes away do not count.
  explicit NearestRange(uintptr_t address, uintptr_t limit = UINTPTR_MAX)
      : address_(address), distance_(limit) {}

  /// Of two that are equally near, the one that ends before the address is meant.
  void offer(const std::string& name, uintptr_t begin, size_t bytes) {
    const uintptr_t end = begin + bytes;
    const bool after = address_ >= begin;  // perhaps an access that reaches across the end
    const uintptr_t distance = !after ? begin - address_ : address_ > end ? address_ - end : 0;
    if (distance > distance_ || (distance == distance_ && (!after || after_))) return;
    name_ = &name;
    bytes_ = bytes;
    distance_ = distance;
    after_ = after;
  }

  /// "4 bytes after the end of in (4096 bytes)", with `kind` behind the last word; empty if no
  /// range is near.
  std::string text(const char* kind = "") const {
    if (!name_) return {};
    return std::to_string(distance_) + (after_ ? " bytes after the end of " : " bytes before ") +
           *name_ + " (" + std::to_string(bytes_) + " bytes" + kind + ")";
  }

 private:
  uintptr_t address_, distance_;
  const std::string* name_ = nullptr;
  size_t bytes_ = 0;
  bool after_ = false;
};

}  // namespace smem::cpu_emulator::trace
