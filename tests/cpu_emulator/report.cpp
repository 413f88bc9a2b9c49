#include "cpu_emulator/report.h"

#include <cstdio>
#include <exception>

#include "bindings/json.h"

namespace smem::test {
namespace {

using bindings::json;
using bindings::json_array;
using bindings::json_object;
using cpu_emulator::trace::Fault;
using cpu_emulator::trace::Launch;
using cpu_emulator::trace::Row;
using cpu_emulator::trace::Session;

std::string number(uint64_t value) { return json(static_cast<int64_t>(value)); }

std::string row_json(const Row& row) {
  return json_object({{"file", json(row.file)},
                      {"line", number(row.line)},
                      {"action", json(name_of(row.action))},
                      {"memory", json(row.memory)},
                      {"bytes_a_lane", number(static_cast<uint64_t>(row.bytes_a_lane))},
                      {"requests", number(row.requests)},
                      {"lanes", number(row.lanes)},
                      {"sectors", number(row.sectors)},
                      {"wavefronts", number(row.wavefronts)},
                      {"ambiguous", row.ambiguous ? "true" : "false"}});
}

std::string fault_json(const Fault& fault) {
  const auto* block = fault.block;
  return json_object({{"kind", json(fault.kind)},
                      {"file", json(fault.file)},
                      {"line", number(fault.line)},
                      {"block", json_array({number(block[0]), number(block[1]), number(block[2])})},
                      {"threads", json(fault.threads)},
                      {"detail", json(fault.detail)},
                      {"count", number(fault.count)}});
}

template <typename T, typename ToJson>
std::string list(const std::vector<T>& values, const ToJson& to_json) {
  std::vector<std::string> items;
  for (const T& value : values) items.push_back(to_json(value));
  return json_array(items);
}

std::string launch_json(const Launch& launch) {
  return json_object(
      {{"rows", list(launch.rows, row_json)}, {"faults", list(launch.faults, fault_json)}});
}

/// {"launches": [...], "error": "what was thrown, if anything"}
std::string trace(const Case& test) {
  Session session;
  std::string error;
  try {
    test.run();
  } catch (const std::exception& thrown) {
    error = thrown.what();
  }
  return json_object({{"launches", list(session.launches, launch_json)}, {"error", json(error)}});
}

}  // namespace
}  // namespace smem::test

int main() {
  using namespace smem;
  std::vector<std::string> reports;
  const auto cases = test::cases();
  for (const auto& test : cases) reports.push_back(test::trace(test));
  std::vector<bindings::JsonField> fields;
  for (size_t i = 0; i < cases.size(); ++i) fields.emplace_back(cases[i].name.c_str(), reports[i]);
  std::puts(bindings::json_object(fields).c_str());
}
