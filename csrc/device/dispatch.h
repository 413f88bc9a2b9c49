// The result of choosing a kernel from an op's table for `kernel="auto"`.
#pragma once

#include <cstring>
#include <stdexcept>
#include <string>

namespace smem {

/// A kernel, and the reason for it in words.
struct Choice {
  int kernel;  ///< index in the op's table, the same in all builds
  std::string reason;
};

/// The index of the kernel `name`; throws if the table has none.
template <typename KernelTable>
int index_of(const KernelTable& table, const char* name) {
  for (int i = 0; i < table.count; ++i) {
    if (std::strcmp(table.kernels[i]->name, name) == 0) return i;
  }
  throw std::logic_error(std::string("smem: no kernel '") + name + "'");
}

}  // namespace smem
