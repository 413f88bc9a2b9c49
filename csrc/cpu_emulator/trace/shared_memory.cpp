#include "cpu_emulator/trace/shared_memory.h"

#include <algorithm>
#include <utility>

namespace smem::cpu_emulator::trace {

void Order::begin_block(unsigned threads) {
  barriers_ = 1;
  stretch_.assign(threads, 1);
  seen_.assign((threads + WARP_SIZE - 1) / WARP_SIZE, {});
}

void Order::pass_warp_barrier(unsigned warp, unsigned mask) {
  auto& seen = seen_[warp];
  if (seen.empty()) seen.assign(WARP_SIZE, std::vector<uint32_t>(WARP_SIZE, 0));
  std::vector<uint32_t> joined(WARP_SIZE, 0);
  for (unsigned l = 0; l < WARP_SIZE; ++l) {
    if (!(mask >> l & 1)) continue;
    seen[l][l] = stretch_[warp * WARP_SIZE + l]++;
    for (unsigned i = 0; i < WARP_SIZE; ++i) joined[i] = std::max(joined[i], seen[l][i]);
  }
  for (unsigned l = 0; l < WARP_SIZE; ++l) {
    if (mask >> l & 1) seen[l] = joined;
  }
}

bool Order::happened_before(const Moment& moment, unsigned thread) const {
  if (moment.thread == Moment::NOBODY || moment.thread == thread) return true;
  if (moment.barriers < barriers_) return true;
  const unsigned warp = thread / WARP_SIZE;
  if (moment.thread / WARP_SIZE != warp || seen_[warp].empty()) return false;
  return seen_[warp][thread % WARP_SIZE][moment.thread % WARP_SIZE] >= moment.stretch;
}

void SharedMemory::begin_block() {
  for (Region& region : regions_) std::fill(region.cells.begin(), region.cells.end(), Cell());
}

void SharedMemory::note(const void* begin, size_t bytes, size_t element_bytes) {
  const auto address = reinterpret_cast<uintptr_t>(begin);
  if (last_ < regions_.size() && regions_[last_].begin == address &&
      regions_[last_].element_bytes <= element_bytes) {
    return;
  }
  for (Region& region : regions_) {
    // A tile in dynamic memory is a part of that region.
    if (address < region.begin || address + bytes > region.begin + region.bytes) continue;
    if (element_bytes < region.element_bytes) refine(region, element_bytes);
    return;
  }
  if (bytes == 0) return;
  const size_t cells = (bytes + element_bytes - 1) / element_bytes;
  regions_.push_back({address, bytes, element_bytes, std::vector<Cell>(cells)});
}

/// Dynamic shared memory may hold several types: a cell is an element of the smallest.
void SharedMemory::refine(Region& region, size_t element_bytes) {
  std::vector<Cell> cells((region.bytes + element_bytes - 1) / element_bytes);
  for (size_t i = 0; i < cells.size(); ++i) {
    cells[i] = region.cells[i * element_bytes / region.element_bytes];
  }
  region.cells = std::move(cells);
  region.element_bytes = element_bytes;
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
  const size_t first = place.offset / region.element_bytes;
  const size_t last = (place.offset + bytes - 1) / region.element_bytes;
  Verdict worst;
  for (size_t i = first; i <= last; ++i) {
    Verdict verdict = check(region.cells[i]);
    if (!*worst.kind) worst = std::move(verdict);
  }
  return worst;
}

SharedMemory::Verdict SharedMemory::race_with(const Touch& touch, const char* did, unsigned thread,
                                              const char* does) const {
  if (order_.happened_before(touch.moment, thread)) return {};
  return {"race",
          "thread " + std::to_string(thread) + " " + does + " what thread " +
              std::to_string(touch.moment.thread) + " " + did + " at " + touch.site.text() +
              " with no barrier between",
          touch.moment.thread};
}

/// Three are enough: for every later store, one of them is a reader that it must be ordered after.
void SharedMemory::note_reader(Cell& cell, const Touch& reader) {
  auto& [newest, of_its_warp, of_another] = cell.readers;
  const unsigned thread = newest.moment.thread;
  if (thread / WARP_SIZE != reader.moment.thread / WARP_SIZE) {
    of_another = newest;
    of_its_warp = {};
  } else if (thread != reader.moment.thread) {
    of_its_warp = newest;
  }
  newest = reader;
}

SharedMemory::Verdict SharedMemory::load(Place place, size_t bytes, unsigned thread, Site site) {
  return for_each_cell(place, bytes, [&](Cell& cell) -> Verdict {
    note_reader(cell, {order_.now(thread), site});
    if (cell.copying != Moment::NOBODY) {
      return {"missing wait",
              "thread " + std::to_string(thread) + " reads what thread " +
                  std::to_string(cell.copying) + " copies and has not waited for",
              cell.copying};
    }
    if (!cell.written) return {"uninitialised", "nothing was stored there in this block"};
    return race_with(cell.writer, "stored", thread, "reads");
  });
}

SharedMemory::Verdict SharedMemory::overwrite(Cell& cell, unsigned thread) const {
  if (cell.copying != Moment::NOBODY) {
    return {"missing wait",
            "thread " + std::to_string(thread) + " overwrites what thread " +
                std::to_string(cell.copying) + " copies and has not waited for",
            cell.copying};
  }
  Verdict verdict = race_with(cell.writer, "stored", thread, "overwrites");
  for (const Touch& reader : cell.readers) {
    if (!*verdict.kind) verdict = race_with(reader, "reads", thread, "overwrites");
  }
  return verdict;
}

SharedMemory::Verdict SharedMemory::store(Place place, size_t bytes, unsigned thread, Site site) {
  return for_each_cell(place, bytes, [&](Cell& cell) {
    Verdict verdict = overwrite(cell, thread);
    cell.written = true;
    cell.writer = {order_.now(thread), site};
    return verdict;
  });
}

SharedMemory::Verdict SharedMemory::start_copy(Place place, size_t bytes, unsigned thread,
                                               Site site) {
  return for_each_cell(place, bytes, [&](Cell& cell) {
    Verdict verdict = overwrite(cell, thread);
    cell.copying = thread;
    cell.writer = {order_.now(thread), site};
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

uint64_t SharedMemory::static_bytes(const void* dynamic) const {
  uint64_t bytes = 0;
  for (const Region& region : regions_) {
    if (region.begin != reinterpret_cast<uintptr_t>(dynamic)) bytes += region.bytes;
  }
  return bytes;
}

}  // namespace smem::cpu_emulator::trace
