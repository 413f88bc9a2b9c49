#include "bindings/trace_report.h"

#include "bindings/json.h"

namespace smem::bindings {
namespace {

std::string json(uint64_t number) { return std::to_string(number); }
using bindings::json;

template <typename T, typename ToJson>
std::string json_list(const std::vector<T>& values, const ToJson& to_json) {
  std::vector<std::string> items;
  for (const T& value : values) items.push_back(to_json(value));
  return json_array(items);
}

std::string row_json(const cpu_emulator::trace::Row& row) {
  return json_object({{"pc", json(uint64_t{row.pc})},
                      {"action", json(cpu_emulator::trace::name_of(row.action))},
                      {"memory", json(row.memory)},
                      {"array", json(row.array)},
                      {"bytes_a_lane", json(int64_t{row.bytes_a_lane})},
                      {"requests", json(row.requests)},
                      {"lanes", json(row.lanes)},
                      {"distinct_bytes", json(row.distinct_bytes)},
                      {"sectors", json(row.sectors)},
                      {"wavefronts", json(row.wavefronts)},
                      {"conflicts", json(row.conflicts)},
                      {"ready", json(row.ready)},
                      {"tensor_flop", json(row.tensor_flop)},
                      {"tensor_cycles", json(row.tensor_cycles)},
                      {"worst", json(row.worst)},
                      {"merged_requests", json(row.merged_requests)},
                      {"merged_wavefronts", json(row.merged_wavefronts)},
                      {"merged_conflicts", json(row.merged_conflicts)},
                      {"example", json_numbers(row.example)}});
}

std::string fault_json(const cpu_emulator::trace::Fault& fault) {
  return json_object({{"kind", json(fault.kind)},
                      {"pc", json(uint64_t{fault.pc})},
                      {"block", json_numbers(fault.block)},
                      {"threads", json(fault.threads)},
                      {"detail", json(fault.detail)},
                      {"count", json(fault.count)}});
}

std::string change_json(const cpu_emulator::trace::StageChange& change) {
  const uint32_t numbers[] = {change.step, change.stage, static_cast<uint32_t>(change.state)};
  return json_numbers(numbers);
}

std::string launch_json(const cpu_emulator::trace::Launch& launch) {
  const auto& a = launch.operations;
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
                      {"pipeline", json_list(launch.pipeline, change_json)},
                      {"faults", json_list(launch.faults, fault_json)}});
}

}  // namespace

std::string report_json(const cpu_emulator::trace::Session& reported) {
  std::vector<JsonField> tensors;
  for (const auto& buffer : reported.buffers) {
    tensors.emplace_back(buffer.name.c_str(), json(uint64_t{buffer.bytes}));
  }
  return json_object({{"begin", json(uint64_t{reported.module.begin})},
                      {"launches", json_list(reported.launches, launch_json)},
                      {"tensors", json_object(tensors)}});
}

}  // namespace smem::bindings
