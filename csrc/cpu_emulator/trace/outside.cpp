#include "cpu_emulator/trace/outside.h"

namespace smem::cpu_emulator::trace {

namespace {

/// Which range of memory an address outside of all probably belongs to.
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

}  // namespace

std::string describe_outside(uintptr_t address, const Recorder& recorder,
                             const unsigned char* shared_memory, SharedRun dynamic_shared) {
  if (address < 4096) return "a null pointer";
  // Shared memory is apart from tensors: what is close is meant.
  constexpr uintptr_t CLOSE = 4096;
  NearestRange array(address, CLOSE), tensor(address);
  if (const auto begin = reinterpret_cast<uintptr_t>(dynamic_shared.to); begin != 0) {
    array.offer(DYNAMIC_SHARED, begin, static_cast<size_t>(dynamic_shared.bytes));
  }
  const auto memory = reinterpret_cast<uintptr_t>(shared_memory);
  for (const SharedArray& known : recorder.module().arrays) {
    if (!known.name.empty()) array.offer(known.name, memory + known.offset, known.bytes);
  }
  for (const Buffer& buffer : recorder.buffers()) {
    tensor.offer(buffer.name, buffer.begin, buffer.bytes);
  }
  for (const std::string& text : {array.text(" of shared memory"), tensor.text()}) {
    if (!text.empty()) return text;
  }
  return "an address in no tensor and no array";
}

}  // namespace smem::cpu_emulator::trace
