// What the test programs share: launches by name, and memory that the tracer knows.
//
// A program defines `cases()`; report.cpp holds main, runs each in a trace of its own and prints
// what was recorded as JSON.
#pragma once

#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "cpu_emulator/trace/session.h"

namespace smem::test {

struct Case {
  std::string name;
  std::function<void()> run;
};

std::vector<Case> cases();

/// Memory that kernels may access, known to the trace by name, between gaps that belong to nobody.
/// It begins `first` elements behind an aligned address.
template <typename T>
class Buffer {
 public:
  Buffer(const char* name, size_t count, T value = {}, size_t first = 0)
      : first_(first),
        memory_(static_cast<T*>(
            std::aligned_alloc(GAP, (first + count) * sizeof(T) / GAP * GAP + 3 * GAP))) {
    for (size_t i = 0; i < count; ++i) data()[i] = value;
    cpu_emulator::trace::Session::active()->add_buffer(name, data(), count * sizeof(T));
  }
  ~Buffer() { std::free(memory_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  T* data() { return memory_ + GAP / sizeof(T) + first_; }

 private:
  static constexpr size_t GAP = 4096;

  size_t first_;
  T* memory_;
};

}  // namespace smem::test
