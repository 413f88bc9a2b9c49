#include "cpu_emulator/sm90/shared_window.h"

#include <algorithm>
#include <cstring>

#include "cpu_emulator/fault.h"

namespace smem::cpu_emulator::sm90 {

namespace {
constexpr uintptr_t WINDOW_ALIGNMENT = 1024;
constexpr int POISON = 0xff;  // a NaN in every format

std::string text_of(ByteRange bytes) {
  return "bytes " + std::to_string(bytes.begin) + " to " + std::to_string(bytes.end) +
         " of the shared window";
}
}  // namespace

SharedWindow::SharedWindow(Block& block) : block_(block), fences_(block.threads()) {
  const SharedRun memory = block.dynamic_shared();
  const auto address = reinterpret_cast<uintptr_t>(memory.to);
  const uintptr_t offset = address % WINDOW_ALIGNMENT;
  begin_ = static_cast<unsigned char*>(memory.to) - offset;
  memory_ = {static_cast<uint32_t>(offset), static_cast<uint32_t>(offset) + memory.bytes};
  writers_.assign(memory_.end / GRANULE + 1, {NOBODY, 0});
}

SharedWindow::~SharedWindow() {
  // The next block must not find what this one has left.
  std::memset(at(memory_.begin), POISON, memory_.end - memory_.begin);
}

uint32_t SharedWindow::offset_of(const void* shared, Site site) const {
  const auto* const byte = static_cast<const unsigned char*>(shared);
  if (byte < at(memory_.begin) || byte > at(memory_.end)) {
    fail(block_, "out of bounds", "an address that is not in the block's dynamic shared memory",
         site);
  }
  return static_cast<uint32_t>(byte - begin_);
}

void SharedWindow::check_inside(ByteRange bytes, const char* user, Site site) const {
  if (bytes.begin >= memory_.begin && bytes.end <= memory_.end) return;
  fail(block_, "out of bounds",
       std::string(user) + " uses " + text_of(bytes) + ", and the dynamic shared memory has " +
           text_of(memory_),
       site);
}

void SharedWindow::check_end() const {
  if (in_flight_.empty()) return;
  const InFlight& first = in_flight_.front();
  fail(block_, "missing wait",
       std::string("the block ends, and nobody has waited for ") + first.user +
           at_line(block_, first.site),
       first.site);
}

void SharedWindow::check_against_in_flight(ByteRange bytes, bool writes, const char* user,
                                           Site site) const {
  for (const InFlight& other : in_flight_) {
    if (!other.bytes.overlaps(bytes) || !(writes || other.writes)) continue;
    fail(block_, writes ? "overwrites what is in use" : "reads before the wait",
         std::string(user) + (writes ? " writes " : " reads ") + text_of(bytes) + ", which " +
             other.user + at_line(block_, other.site) + " still " +
             (other.writes ? "writes" : "reads"),
         site);
  }
}

SharedWindow::Id SharedWindow::begin_read(ByteRange bytes, const char* user, Site site) {
  check_inside(bytes, user, site);
  check_against_in_flight(bytes, false, user, site);
  for (uint32_t i = bytes.begin / GRANULE; i <= (bytes.end - 1) / GRANULE; ++i) {
    const Writer& writer = writers_[i];
    if (writer.thread == NOBODY || fences_[writer.thread] > writer.fences) continue;
    fail(block_, "missing fence",
         std::string(user) + " reads what thread " + std::to_string(writer.thread) +
             " wrote by a plain store, without fence.proxy.async between them",
         site);
  }
  in_flight_.push_back({next_id_, bytes, false, user, site});
  return next_id_++;
}

SharedWindow::Id SharedWindow::begin_write(ByteRange bytes, const char* user, Site site) {
  check_inside(bytes, user, site);
  check_against_in_flight(bytes, true, user, site);
  std::memset(at(bytes.begin), POISON, bytes.end - bytes.begin);
  std::fill(writers_.begin() + bytes.begin / GRANULE,
            writers_.begin() + (bytes.end - 1) / GRANULE + 1, Writer{NOBODY, 0});
  in_flight_.push_back({next_id_, bytes, true, user, site});
  return next_id_++;
}

void SharedWindow::end(Id id) {
  std::erase_if(in_flight_, [&](const InFlight& each) { return each.id == id; });
}

void SharedWindow::access(Action action, const void* address, size_t bytes, unsigned thread,
                          Site site) {
  const auto* const byte = static_cast<const unsigned char*>(address);
  if (byte < at(memory_.begin) || byte + bytes > at(memory_.end)) return;
  const auto offset = static_cast<uint32_t>(byte - begin_);
  const ByteRange range{offset, offset + static_cast<uint32_t>(bytes)};
  const bool writes = action != Action::load;
  if (!in_flight_.empty()) check_against_in_flight(range, writes, "a thread", site);
  if (!writes) return;
  for (uint32_t i = range.begin / GRANULE; i <= (range.end - 1) / GRANULE; ++i) {
    writers_[i] = {thread, fences_[thread]};
  }
}

}  // namespace smem::cpu_emulator::sm90
