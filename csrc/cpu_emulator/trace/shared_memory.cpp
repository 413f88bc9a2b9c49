#include "cpu_emulator/trace/shared_memory.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace smem::cpu_emulator::trace {

namespace {
constexpr const char* STORED = "stored";
}  // namespace

void SharedMemory::Region::poison() const {
  std::memset(reinterpret_cast<void*>(begin), 0xff, bytes);
}

void SharedMemory::begin_block() {
  ++block_;  // a cell is cleared when it is used: most blocks use few of a large array's
  for (const Region& region : regions_) region.poison();
}

void SharedMemory::note(const std::string& name, void* begin, size_t bytes, bool dynamic) {
  constexpr int WIDEST = 4;  // 16 bytes
  const size_t cells = (bytes + (size_t{1} << WIDEST) - 1) >> WIDEST;
  regions_.push_back(
      {reinterpret_cast<uintptr_t>(begin), bytes, WIDEST, std::vector<Cell>(cells), name, dynamic});
  regions_.back().poison();
}

/// Dynamic shared memory may hold several types: a cell is an element of the smallest.
void SharedMemory::refine(Region& region, int element_shift) {
  const int finer = region.element_shift - element_shift;
  std::vector<Cell> cells((region.bytes + (size_t{1} << element_shift) - 1) >> element_shift);
  for (size_t i = 0; i < cells.size(); ++i) cells[i] = region.cells[i >> finer];
  region.cells = std::move(cells);
  region.element_shift = element_shift;
}

SharedMemory::Place SharedMemory::find(const void* address, size_t bytes) const {
  const auto at = reinterpret_cast<uintptr_t>(address);
  const auto holds = [&](const Region& region) {
    return at >= region.begin && at + bytes <= region.begin + region.bytes;
  };
  if (last_ >= regions_.size() || !holds(regions_[last_])) {
    last_ = static_cast<size_t>(std::find_if(regions_.begin(), regions_.end(), holds) -
                                regions_.begin());
  }
  if (last_ == regions_.size()) return {-1, 0};
  return {static_cast<int>(last_), at - regions_[last_].begin};
}

template <typename Check>
SharedMemory::Verdict SharedMemory::for_each_cell(Place place, size_t bytes, const Check& check) {
  Region& region = regions_[static_cast<size_t>(place.region)];
  if (bytes >> region.element_shift == 0) refine(region, std::countr_zero(bytes));
  const size_t first = place.offset >> region.element_shift;
  const size_t last = (place.offset + bytes - 1) >> region.element_shift;
  Verdict worst;
  for (size_t i = first; i <= last; ++i) {
    Cell& cell = region.cells[i];
    if (cell.block != block_) {
      cell = {};
      cell.block = block_;
    }
    const Verdict verdict = check(cell);
    if (verdict && (!worst || worst->by_same_store)) worst = verdict;
  }
  return worst;
}

std::string SharedMemory::Error::detail(unsigned thread) const {
  if (other == Moment::NOBODY) return "nothing was stored there in this block";
  const std::string what = "thread " + std::to_string(thread) + " " + does + " what thread " +
                           std::to_string(other) + " " + did;
  return site.pc ? what + " at " + site.text() + " with no barrier between" : what;
}

SharedMemory::Verdict SharedMemory::race_with(const Touch& touch, const char* did, unsigned thread,
                                              const char* does) const {
  if (order_.happened_before(touch.moment, thread)) return {};
  return Error{"race", does, did, touch.moment.thread, site_of(touch)};
}

/// Three are enough: for every later store, one of them is a reader that it must be ordered after.
void SharedMemory::note_reader(Cell& cell, const Touch& reader) {
  auto& [newest, of_its_warp, of_another] = cell.readers;
  const unsigned thread = newest.moment.thread;
  if (thread == reader.moment.thread) {  // nothing else is newer
    newest.set(reader);
    return;
  }
  if (thread / WARP_SIZE != reader.moment.thread / WARP_SIZE) {
    of_another = newest;
    of_its_warp = {};
  } else {
    of_its_warp = newest;
  }
  newest.set(reader);
}

SharedMemory::Verdict SharedMemory::load(Place place, size_t bytes, unsigned thread, Site site,
                                         bool speculative) {
  const Touch reader = touch(thread, site);
  return for_each_cell(place, bytes, [&](Cell& cell) -> Verdict {
    note_reader(cell, reader);
    const bool is_right =
        cell.copying == Moment::NOBODY &&
        (cell.written ? order_.happened_before(cell.writer.moment, thread) : speculative);
    return is_right ? Verdict() : error_of_load(cell, thread);
  });
}

SharedMemory::Verdict SharedMemory::error_of_load(const Cell& cell, unsigned thread) const {
  if (cell.copying != Moment::NOBODY) {
    return Error{"missing wait", "reads", "copies and has not waited for", cell.copying};
  }
  if (!cell.written) return Error{"uninitialised"};
  return race_with(cell.writer, STORED, thread, "reads");
}

bool SharedMemory::any_reader_races(const Cell& cell, unsigned thread) const {
  return !std::all_of(std::begin(cell.readers), std::end(cell.readers), [&](const Touch& reader) {
    return order_.happened_before(reader.moment, thread);
  });
}

SharedMemory::Verdict SharedMemory::overwrite(const Cell& cell, unsigned thread,
                                              bool atomically) const {
  if (cell.copying != Moment::NOBODY) {
    return Error{"missing wait", "overwrites", "copies and has not waited for", cell.copying};
  }
  if (!(atomically && cell.by_atomic)) {
    if (const auto race = race_with(cell.writer, STORED, thread, "overwrites")) return race;
  }
  for (const Touch& reader : cell.readers) {
    if (const auto race = race_with(reader, "reads", thread, "overwrites")) return race;
  }
  return {};
}

SharedMemory::Verdict SharedMemory::store(Place place, size_t bytes, unsigned thread, Site site) {
  return for_each_cell(place, bytes, [&](Cell& cell) {
    Verdict verdict = overwrite(cell, thread);
    if (verdict) {
      verdict->by_same_store =
          verdict->did == STORED && site_of(cell.writer) == site && !any_reader_races(cell, thread);
    }
    cell.written = true;
    cell.by_atomic = false;
    cell.writer.set(touch(thread, site));
    return verdict;
  });
}

SharedMemory::Verdict SharedMemory::update_atomically(Place place, size_t bytes, unsigned thread,
                                                      Site site) {
  return for_each_cell(place, bytes, [&](Cell& cell) -> Verdict {
    if (!cell.written) {
      cell.written = true;
      return Error{"uninitialised"};
    }
    Verdict verdict = overwrite(cell, thread, true);
    cell.by_atomic = true;
    cell.writer.set(touch(thread, site));
    return verdict;
  });
}

SharedMemory::Verdict SharedMemory::start_copy(Place place, size_t bytes, unsigned thread,
                                               Site site) {
  return for_each_cell(place, bytes, [&](Cell& cell) {
    Verdict verdict = overwrite(cell, thread);
    cell.copying = static_cast<uint16_t>(thread);
    cell.by_atomic = false;
    cell.writer.set(touch(thread, site));
    return verdict;
  });
}

void SharedMemory::land_copy(Place place, size_t bytes, unsigned thread) {
  for_each_cell(place, bytes, [&](Cell& cell) -> Verdict {
    cell.copying = Moment::NOBODY;
    cell.written = true;
    cell.writer.moment = order_.now(thread);
    return {};
  });
}

void SharedMemory::land_bound_copy(Place place, size_t bytes) {
  for_each_cell(place, bytes, [&](Cell& cell) -> Verdict {
    cell.copying = Moment::NOBODY;
    cell.written = true;
    cell.writer.moment.barriers = order_.barriers();
    return {};
  });
}

void SharedMemory::land_async_copy(Place place, size_t bytes) {
  for_each_cell(place, bytes, [&](Cell& cell) -> Verdict {
    cell = {.block = block_, .written = true};
    return {};
  });
}

uint64_t SharedMemory::static_bytes() const {
  uint64_t bytes = 0;
  for (const Region& region : regions_) {
    if (!region.dynamic && !region.name.empty()) bytes += region.bytes;
  }
  return bytes;
}

}  // namespace smem::cpu_emulator::trace
