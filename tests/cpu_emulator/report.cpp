#include "cpu_emulator/report.h"

#include <cstdio>
#include <exception>
#include <iostream>

#include "bindings/json.h"
#include "bindings/trace_report.h"

namespace smem::test {
namespace {

using bindings::json;
using bindings::json_object;
using cpu_emulator::trace::Module;
using cpu_emulator::trace::Session;

/// The program with its shared arrays, which Python finds in it and writes to the standard input.
Module module_with_arrays() {
  Module module = cpu_emulator::trace::own_module();
  std::string name;
  ptrdiff_t offset;
  size_t bytes;
  while (std::cin >> offset >> bytes && std::getline(std::cin, name)) {
    name.erase(0, 1);  // the blank; nothing follows it for the guard of an array of objects
    module.arrays.push_back({name, offset, bytes, false});
  }
  module.sort_arrays();
  return module;
}

/// {"report": see bindings/trace_report.h, "error": "what was thrown, if anything"}
std::string trace(const Case& test, const Module& module) {
  Session session;
  session.module = module;
  std::string error;
  try {
    test.run();
  } catch (const std::exception& thrown) {
    error = thrown.what();
  }
  return json_object({{"report", bindings::report_json(session)}, {"error", json(error)}});
}

}  // namespace
}  // namespace smem::test

int main() {
  using namespace smem;
  const auto module = test::module_with_arrays();
  std::vector<std::string> reports;
  const auto cases = test::cases();
  for (const auto& test : cases) reports.push_back(test::trace(test, module));
  std::vector<bindings::JsonField> fields;
  for (size_t i = 0; i < cases.size(); ++i) fields.emplace_back(cases[i].name.c_str(), reports[i]);
  std::puts(bindings::json_object(fields).c_str());
}
