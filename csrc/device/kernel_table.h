// The kernels of an op. Each op and build has a table; the tables of the two builds hold the same
// rows.
#pragma once

#include <cstddef>

namespace smem {

template <typename Kernel>
struct KernelTable {
  const Kernel* const* kernels;
  int count;

  template <size_t N>
  constexpr KernelTable(const Kernel* const (&rows)[N]) : kernels(rows), count(N) {}
};

}  // namespace smem
