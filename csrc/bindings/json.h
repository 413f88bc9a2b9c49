// Writes JSON, in which tables and reports are passed to Python.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

namespace smem::bindings {

inline std::string json(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    if (static_cast<unsigned char>(c) < ' ') {
      char escape[8];
      std::snprintf(escape, sizeof(escape), "\\u%04x", c);
      quoted += escape;
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}
inline std::string json(const char* text) { return json(std::string(text)); }
inline std::string json(int64_t number) { return std::to_string(number); }
inline std::string json(bool value) { return value ? "true" : "false"; }

using JsonField = std::pair<const char*, std::string>;

/// The values of the fields, and the items of an array, must be JSON already.
inline std::string json_object(const std::vector<JsonField>& fields) {
  std::string text;
  for (const auto& [key, value] : fields)
    text += (text.empty() ? "" : ",") + json(key) + ":" + value;
  return "{" + text + "}";
}

inline std::string json_array(const std::vector<std::string>& items) {
  std::string text;
  for (const auto& item : items) text += (text.empty() ? "" : ",") + item;
  return "[" + text + "]";
}

template <typename Numbers>
std::string json_numbers(const Numbers& numbers) {
  std::vector<std::string> items;
  for (const auto number : numbers) items.push_back(std::to_string(number));
  return json_array(items);
}

}  // namespace smem::bindings
