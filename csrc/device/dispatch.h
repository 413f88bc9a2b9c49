// What `auto` chooses from the kernel table of an op.
#pragma once

#include <cstring>
#include <stdexcept>
#include <string>

namespace smem {

/// A kernel and why.
struct Choice {
  int kernel;  ///< index in the op's table, the same in all builds
  std::string reason;
};

/// The index of the kernel `name`, which the table must hold.
template <typename KernelTable>
int index_of(const KernelTable& table, const char* name) {
  for (int i = 0; i < table.count; ++i) {
    if (std::strcmp(table.kernels[i]->name, name) == 0) return i;
  }
  throw std::logic_error(std::string("smem: no kernel '") + name + "'");
}

}  // namespace smem
