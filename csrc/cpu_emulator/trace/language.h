// How kernels are compiled to be traced. Every `for` loop counts its iterations, so that the tracer
// can tell which lanes of a warp execute an access together: lanes run one after the other here,
// and in `for (i...) if (i == lane) ...` each reaches the same line at another time.
//
// A keyword is redefined, so this comes after every standard header that the kernels include.
#pragma once

#include <torch/headeronly/util/BFloat16.h>
#include <torch/headeronly/util/Half.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <iterator>
#include <limits>
#include <memory>
#include <mutex>
#include <source_location>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "cpu_emulator/cpu_emulator.h"
#include "cpu_emulator/trace/access.h"
#include "cpu_emulator/trace/counted.h"
#include "cpu_emulator/trace/session.h"

namespace smem::cpu_emulator::trace {

/// While a loop runs, the thread's `iteration` names the loop and how often it has come round,
/// together with the same of all loops around it.
class Loop {
 public:
  explicit Loop(unsigned line)
      : line_(line), outer_(current_thread ? current_thread->iteration : 0) {}
  ~Loop() {
    if (current_thread) current_thread->iteration = outer_;
  }
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  bool first_time() { return !std::exchange(entered_, true); }
  bool comes_round() {
    ++count_;
    // SplitMix64's constants: any two loops or iterations get different numbers.
    uint64_t mixed = outer_ + 0x9e3779b97f4a7c15u * (count_ << 20 | line_);
    mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9u;
    if (current_thread) current_thread->iteration = mixed ^ mixed >> 27;
    return true;
  }

 private:
  uint64_t line_, outer_, count_ = 0;
  bool entered_ = false;
};

}  // namespace smem::cpu_emulator::trace

// The outer loop holds the counter and runs once. `break` and `continue` still mean the user's
// loop, and an `else` that follows it belongs to the `if` before it.
#define for(...)                                                                       \
  for (::smem::cpu_emulator::trace::Loop smem_loop(__LINE__); smem_loop.first_time();) \
    for (__VA_ARGS__)                                                                  \
      if (!smem_loop.comes_round()) {                                                  \
      } else
// Loops that would escape the counting.
#define while kernels_are_traced_by_their_for_loops_use_one
