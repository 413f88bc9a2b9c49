#include "cpu_emulator/trace/memory_map.h"

#include "cpu_emulator/trace/outside.h"

namespace smem::cpu_emulator::trace {

MemoryMap::MemoryMap(const Recorder& recorder, SharedMemory& shared)
    : recorder_(recorder), shared_(shared), shared_memory_(recorder.module().shared_memory()) {
  const auto& buffers = recorder_.buffers();
  for (size_t i = 0; i < buffers.size(); ++i) {
    for (size_t k = 0; k < i; ++k) {
      buffers_overlap_ |= buffers[i].begin < buffers[k].begin + buffers[k].bytes &&
                          buffers[k].begin < buffers[i].begin + buffers[i].bytes;
    }
  }
}

MemoryMap::Range MemoryMap::look_up(uintptr_t address, size_t bytes) {
  const auto& buffers = recorder_.buffers();
  for (size_t i = buffers.size(); i-- > 0;) {
    const Buffer& buffer = buffers[i];
    if (!buffer.holds(address, bytes)) continue;
    return {buffer.begin, buffer.begin + buffer.bytes, buffer.offset, static_cast<uint16_t>(i)};
  }
  const auto place = find_shared(reinterpret_cast<const void*>(address), bytes);
  if (place.region < 0) return {};
  const uintptr_t begin = address - place.offset;
  return {begin, begin + shared_.bytes(place.region), 0,
          static_cast<uint16_t>(SHARED + place.region), shared_.name(place.region).empty()};
}

SharedMemory::Place MemoryMap::find_shared(const void* address, size_t bytes) {
  if (const auto place = shared_.find(address, bytes); place.region >= 0) return place;
  const auto at = reinterpret_cast<uintptr_t>(address);
  const auto begin = reinterpret_cast<uintptr_t>(dynamic_shared_.to);
  const auto dynamic_bytes = static_cast<size_t>(dynamic_shared_.bytes);
  if (at >= begin && at + bytes <= begin + dynamic_bytes) {
    shared_.note(DYNAMIC_SHARED, dynamic_shared_.to, dynamic_bytes, true);
  } else {
    const auto offset = static_cast<ptrdiff_t>(at - reinterpret_cast<uintptr_t>(shared_memory_));
    const SharedArray* const array = recorder_.module().array_at(offset, bytes);
    if (!array) return {-1, 0};
    shared_.note(array->name, shared_memory_ + array->offset, array->bytes, array->dynamic);
  }
  return shared_.find(address, bytes);
}

std::string MemoryMap::describe_outside(uintptr_t address) const {
  return trace::describe_outside(address, recorder_, shared_memory_, dynamic_shared_);
}

}  // namespace smem::cpu_emulator::trace
