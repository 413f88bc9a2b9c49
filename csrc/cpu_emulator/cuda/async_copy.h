// What all forms of asynchronous copies share: cp.async of a group's threads.
#pragma once

#include <type_traits>

#include "math_functions.h"

/// Copies `bytes` to shared memory, each thread in steps of the widest cp.async that `alignment`,
/// the addresses and the size allow; where they allow none, at once.
SMEM_MATH void smem_copy_async(unsigned rank, unsigned threads, void* to, const void* from,
                               size_t bytes, size_t alignment) {
  auto* const target = static_cast<unsigned char*>(to);
  const auto* const source = static_cast<const unsigned char*>(from);
  size_t width = alignment < 16 ? alignment : 16;
  while ((reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from) | bytes) % width) {
    width /= 2;
  }
  if (width < 4) {
    for (size_t i = rank; i < bytes; i += threads) target[i] = source[i];
    return;
  }
  for (size_t i = rank * width; i < bytes; i += threads * width) {
    smem_cp_async(target + i, source + i, static_cast<int>(width), static_cast<int>(width));
  }
}

namespace cuda {

/// A number of bytes of which the addresses are multiples of N.
template <size_t N>
struct aligned_size_t {
  static constexpr size_t align = N;
  size_t value;
  SMEM_MATH explicit constexpr aligned_size_t(size_t bytes) : value(bytes) {}
  SMEM_MATH constexpr operator size_t() const { return value; }
};

/// The alignment that the types of a copy promise.
template <typename T>
constexpr size_t smem_alignment_of = alignof(T);
template <>
constexpr size_t smem_alignment_of<void> = 1;
template <size_t N>
constexpr size_t smem_alignment_of<aligned_size_t<N>> = N;
template <typename T, typename Size>
constexpr size_t smem_alignment =
    std::is_integral_v<Size> || smem_alignment_of<T> > smem_alignment_of<Size>
        ? smem_alignment_of<T>
        : smem_alignment_of<Size>;

}  // namespace cuda
