#include "cpu_emulator/trace/session.h"

#include <algorithm>
#include <stdexcept>
#include <tuple>

#include "cpu_emulator/trace/tracer.h"

namespace smem::cpu_emulator::trace {

namespace {
thread_local Session* active_session = nullptr;

auto identity(const Row& row) {
  return std::tie(row.file, row.line, row.column, row.action, row.memory, row.bytes_a_lane);
}
auto identity(const Fault& fault) { return std::tie(fault.kind, fault.file, fault.line); }

void add(Row& row, const Row& part) {
  row.requests += part.requests;
  row.lanes += part.lanes;
  row.distinct_bytes += part.distinct_bytes;
  row.sectors += part.sectors;
  row.wavefronts += part.wavefronts;
  row.conflicts += part.conflicts;
  row.merged_requests += part.merged_requests;
  row.merged_wavefronts += part.merged_wavefronts;
  row.merged_conflicts += part.merged_conflicts;
  row.ambiguous |= part.ambiguous;
  // Workers take blocks in any order: among equals, the lowest block gives the example.
  if (part.worst > row.worst ||
      (part.worst == row.worst && part.example_block < row.example_block)) {
    row.worst = part.worst;
    row.example = part.example;
    row.example_block = part.example_block;
  }
}

void add(Fault& fault, const Fault& part) {
  const uint64_t count = fault.count + part.count;
  // Workers take blocks in any order: the lowest block's fault is reported.
  const auto place = [](const Fault& f) { return std::tie(f.block[2], f.block[1], f.block[0]); };
  if (place(part) < place(fault)) fault = part;
  fault.count = count;
}

/// Adds `parts` to those of the same identity; keeps them sorted by it.
template <typename T>
void merge_into(std::vector<T>& all, std::vector<T>&& parts) {
  for (T& part : parts) {
    const auto at = std::lower_bound(all.begin(), all.end(), part, [](const T& a, const T& b) {
      return identity(a) < identity(b);
    });
    if (at != all.end() && identity(*at) == identity(part)) {
      add(*at, part);
    } else {
      all.insert(at, std::move(part));
    }
  }
}

}  // namespace

Session::Session() {
  if (active_session)
    throw std::logic_error("smem.trace: a trace is already active on this thread");
  active_session = this;
}
Session::~Session() { active_session = nullptr; }
Session* Session::active() { return active_session; }

void Session::add_buffer(const std::string& name, const void* begin, size_t bytes,
                         uint64_t offset) {
  buffers.push_back({name, reinterpret_cast<uintptr_t>(begin), bytes, offset});
}

void Recorder::merge(Launch&& part) {
  const std::lock_guard<std::mutex> guard(lock_);
  merge_into(launch_.rows, std::move(part.rows));
  merge_into(launch_.faults, std::move(part.faults));
  launch_.static_shared_bytes = std::max(launch_.static_shared_bytes, part.static_shared_bytes);
  Arithmetic& sum = launch_.arithmetic;
  sum.fma += part.arithmetic.fma;
  sum.add += part.arithmetic.add;
  sum.multiply += part.arithmetic.multiply;
  sum.divide += part.arithmetic.divide;
  sum.special += part.arithmetic.special;
}

void run(const char* kernel, dim3 grid, dim3 threads, size_t dynamic_shared_bytes, Body body,
         void* context) {
  Session* const session = Session::active();
  if (!session) throw std::logic_error("smem.trace: a traced kernel ran outside a trace");
  Launch launch{
      kernel, {grid.x, grid.y, grid.z}, {threads.x, threads.y, threads.z}, dynamic_shared_bytes};
  Recorder recorder(*session, launch);
  try {
    cpu_emulator::run(grid, threads, dynamic_shared_bytes, body, context,
                      [&] { return std::make_unique<Tracer>(recorder); });
  } catch (const Deadlock&) {  // NOLINT(bugprone-empty-catch): the tracer has recorded it
  }
  session->launches.push_back(std::move(launch));
}

}  // namespace smem::cpu_emulator::trace
