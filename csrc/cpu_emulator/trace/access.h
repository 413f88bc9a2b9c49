// Memory accesses in the traced build: each one goes through the tracer, which counts it and
// decides whether it is executed.
#pragma once

#include <cstring>
#include <type_traits>
#include <utility>

#include "cpu_emulator/cpu_emulator.h"

namespace smem::cpu_emulator::trace {

// All of these act for the running thread.

/// Counts a load or store of `bytes` from `address` on; false if there is no memory to access.
bool may_load(const void* address, size_t bytes, Site site);
bool may_store(const void* address, size_t bytes, Site site);

/// Registers that the block's shared memory holds `bytes` from `begin` on.
void note_shared(const void* begin, size_t bytes, size_t element_bytes);

/// Reports an element outside its view.
void expect_inside(int64_t row, int64_t rows, int64_t col, int64_t cols, Site site);

/// Counts a copy to shared memory and starts it.
void copy_run(void* shared, const void* global, int bytes, int bytes_read, Site site);

template <typename T>
T load(const T* from, Site site = Site::here()) {
  T value{};
  // Byte by byte: a misaligned address has been reported by now.
  if (may_load(from, sizeof(T), site)) std::memcpy(static_cast<void*>(&value), from, sizeof(T));
  return value;
}

template <typename T>
void store(T* to, T value, Site site = Site::here()) {
  if (may_store(to, sizeof(T), site)) std::memcpy(static_cast<void*>(to), &value, sizeof(T));
}

/// An element in memory, a `T&` in the other builds. It is only for immediate use, because the
/// tracer does not see accesses through its address or a copy of it.
template <typename T>
class Ref {
 public:
  using Value = std::remove_const_t<T>;

  Ref(T* address, Site site) : address_(address), site_(site) {}
  Ref(const Ref&) = delete;
  Ref* operator&() = delete;

  Value value() && { return load(address_, site_); }
  operator Value() && { return load(address_, site_); }
  void operator=(Value value) && { store(address_, value, site_); }
  void operator=(Ref&& other) && { store(address_, std::move(other).value(), site_); }
  void operator+=(Value value) && { store(address_, load(address_, site_) + value, site_); }

 private:
  T* address_;
  Site site_;
};

template <typename T>
Ref<T> element(T* address, Site site) {
  return {address, site};
}

}  // namespace smem::cpu_emulator::trace
