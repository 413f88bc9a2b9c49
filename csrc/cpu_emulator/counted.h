// A float or double whose arithmetic the emulator counts.
#pragma once

#include <cmath>

#include "cpu_emulator/cpu_emulator.h"

namespace smem::cpu_emulator {

/// Counts an operation of the running thread.
void count(uint64_t Operations::* operation);

template <typename T>
struct Counted {
  T number;

  Counted() = default;
  constexpr Counted(T value) : number(value) {}  // NOLINT: a number like any other
  template <typename Other>
  constexpr explicit Counted(Counted<Other> other) : number(static_cast<T>(other.number)) {}

  friend Counted operator+(Counted a, Counted b) {
    count(&Operations::add);
    return a.number + b.number;
  }
  friend Counted operator-(Counted a, Counted b) {
    count(&Operations::add);
    return a.number - b.number;
  }
  friend Counted operator*(Counted a, Counted b) {
    count(&Operations::multiply);
    return a.number * b.number;
  }
  friend Counted operator/(Counted a, Counted b) {
    count(&Operations::divide);
    return a.number / b.number;
  }
  friend Counted operator-(Counted a) { return -a.number; }
  friend bool operator<=(Counted a, Counted b) { return a.number <= b.number; }
  Counted& operator+=(Counted other) { return *this = *this + other; }

  friend Counted fma(Counted a, Counted b, Counted c) {
    count(&Operations::fma);
    return std::fma(a.number, b.number, c.number);
  }
  friend Counted erf(Counted a) { return special(std::erf(a.number)); }
  friend Counted exp(Counted a) { return special(std::exp(a.number)); }
  friend Counted tanh(Counted a) { return special(std::tanh(a.number)); }

 private:
  static Counted special(T value) {
    count(&Operations::special);
    return value;
  }
};

template <typename T>
constexpr T number_of(T value) {
  return value;
}
template <typename T>
constexpr T number_of(Counted<T> value) {
  return value.number;
}

}  // namespace smem::cpu_emulator
