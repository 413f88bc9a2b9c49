// The report of a trace as JSON.
#include "bindings/trace.h"

#include <memory>
#include <stdexcept>

#include "bindings/json.h"
#include "cpu_emulator/trace/session.h"

namespace smem::bindings {
namespace {

using cpu_emulator::trace::Session;

thread_local std::unique_ptr<Session> session;

std::string json(uint64_t number) { return std::to_string(number); }
std::string json(bool truth) { return truth ? "true" : "false"; }
using bindings::json;

template <typename T, typename ToJson>
std::string json_list(const std::vector<T>& values, const ToJson& to_json) {
  std::vector<std::string> items;
  for (const T& value : values) items.push_back(to_json(value));
  return json_array(items);
}

std::string row_json(const cpu_emulator::trace::Row& row) {
  return json_object({{"file", json(row.file)},
                      {"function", json(row.function)},
                      {"line", json(uint64_t{row.line})},
                      {"column", json(uint64_t{row.column})},
                      {"action", json(name_of(row.action))},
                      {"memory", json(row.memory)},
                      {"bytes_a_lane", json(int64_t{row.bytes_a_lane})},
                      {"requests", json(row.requests)},
                      {"lanes", json(row.lanes)},
                      {"distinct_bytes", json(row.distinct_bytes)},
                      {"sectors", json(row.sectors)},
                      {"wavefronts", json(row.wavefronts)},
                      {"conflicts", json(row.conflicts)},
                      {"worst", json(row.worst)},
                      {"merged_requests", json(row.merged_requests)},
                      {"merged_wavefronts", json(row.merged_wavefronts)},
                      {"merged_conflicts", json(row.merged_conflicts)},
                      {"ambiguous", json(row.ambiguous)},
                      {"example", json_numbers(row.example)}});
}

std::string fault_json(const cpu_emulator::trace::Fault& fault) {
  return json_object({{"kind", json(fault.kind)},
                      {"file", json(fault.file)},
                      {"line", json(uint64_t{fault.line})},
                      {"block", json_numbers(fault.block)},
                      {"threads", json(fault.threads)},
                      {"detail", json(fault.detail)},
                      {"count", json(fault.count)}});
}

std::string launch_json(const cpu_emulator::trace::Launch& launch) {
  const auto& a = launch.arithmetic;
  return json_object({{"kernel", json(launch.kernel)},
                      {"grid", json_numbers(launch.grid)},
                      {"block", json_numbers(launch.block)},
                      {"dynamic_shared_bytes", json(launch.dynamic_shared_bytes)},
                      {"static_shared_bytes", json(launch.static_shared_bytes)},
                      {"arithmetic", json_object({{"fma", json(a.fma)},
                                                  {"add", json(a.add)},
                                                  {"multiply", json(a.multiply)},
                                                  {"divide", json(a.divide)},
                                                  {"special", json(a.special)}})},
                      {"rows", json_list(launch.rows, row_json)},
                      {"faults", json_list(launch.faults, fault_json)}});
}

}  // namespace

void begin_trace() { session = std::make_unique<Session>(); }

std::string end_trace() {
  if (!session) throw std::logic_error("smem.trace: no trace is active on this thread");
  const auto ended = std::move(session);
  std::vector<JsonField> tensors;
  for (const auto& buffer : ended->buffers) {
    tensors.emplace_back(buffer.name.c_str(), json(uint64_t{buffer.bytes}));
  }
  return json_object(
      {{"launches", json_list(ended->launches, launch_json)}, {"tensors", json_object(tensors)}});
}

}  // namespace smem::bindings
