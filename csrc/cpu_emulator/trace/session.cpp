#include "cpu_emulator/trace/session.h"

#include <algorithm>
#include <stdexcept>
#include <tuple>

#include "cpu_emulator/trace/tracer.h"

// The linker's: where the file that this is linked into is in memory.
extern "C" __attribute__((visibility("hidden"))) const char __ehdr_start;  // NOLINT
extern "C" __attribute__((visibility("hidden"))) const char _end;          // NOLINT

/// Is among the shared arrays of the kernels that this is linked with.
thread_local unsigned char smem_anchor;

namespace smem::cpu_emulator::trace {

namespace {
thread_local Session* active_session = nullptr;

auto identity(const Row& row) {
  return std::tie(row.pc, row.action, row.memory, row.array, row.bytes_a_lane);
}
auto identity(const Fault& fault) { return std::tie(fault.kind, fault.pc); }

void add(Row& row, const Row& part) {
  row.requests += part.requests;
  row.lanes += part.lanes;
  row.distinct_bytes += part.distinct_bytes;
  row.sectors += part.sectors;
  row.wavefronts += part.wavefronts;
  row.conflicts += part.conflicts;
  row.ready += part.ready;
  row.tensor_flop += part.tensor_flop;
  row.tensor_cycles += part.tensor_cycles;
  row.merged_requests += part.merged_requests;
  row.merged_wavefronts += part.merged_wavefronts;
  row.merged_conflicts += part.merged_conflicts;
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

Module own_module() {
  return {reinterpret_cast<uintptr_t>(&__ehdr_start), reinterpret_cast<uintptr_t>(&_end),
          [] { return &smem_anchor; }};
}

void Module::sort_arrays() {
  std::stable_sort(arrays.begin(), arrays.end(),
                   [](const SharedArray& a, const SharedArray& b) { return a.offset < b.offset; });
}

const SharedArray* Module::array_at(ptrdiff_t offset, size_t bytes) const {
  const auto end = static_cast<ptrdiff_t>(offset + bytes);
  // Arrays do not overlap, so their ends are sorted, too.
  const auto at = std::partition_point(arrays.begin(), arrays.end(), [&](const SharedArray& array) {
    return array.offset + static_cast<ptrdiff_t>(array.bytes) < end;
  });
  return at != arrays.end() && at->offset <= offset ? &*at : nullptr;
}

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
  if (!part.pipeline.empty()) launch_.pipeline = std::move(part.pipeline);
  launch_.static_shared_bytes = std::max(launch_.static_shared_bytes, part.static_shared_bytes);
  launch_.operations += part.operations;
}

void run(const char* kernel, dim3 grid, dim3 threads, size_t dynamic_shared_bytes, Body body,
         void* context, const std::vector<int64_t>& only_clusters, unsigned cluster_size) {
  Session* const session = Session::active();
  if (!session) throw std::logic_error("smem.trace: no trace is active on this thread");
  Launch launch{
      kernel, {grid.x, grid.y, grid.z}, {threads.x, threads.y, threads.z}, dynamic_shared_bytes};
  Recorder recorder(*session, launch);
  try {
    cpu_emulator::run(
        grid, threads, dynamic_shared_bytes, body, context,
        [&] { return std::make_unique<Tracer>(recorder); }, only_clusters, cluster_size);
  } catch (const Deadlock&) {     // NOLINT(bugprone-empty-catch): the tracer has recorded it
  } catch (const KernelFault&) {  // NOLINT(bugprone-empty-catch): the same
  }
  session->launches.push_back(std::move(launch));
}

}  // namespace smem::cpu_emulator::trace

void smem::cpu_emulator::launch(const char* kernel, dim3 grid, dim3 threads,
                                size_t dynamic_shared_bytes, Body body, void* context,
                                unsigned cluster_size) {
  if (trace::Session::active()) {
    trace::run(kernel, grid, threads, dynamic_shared_bytes, body, context, {}, cluster_size);
  } else {
    cpu_emulator::run(grid, threads, dynamic_shared_bytes, body, context, {}, {}, cluster_size);
  }
}
