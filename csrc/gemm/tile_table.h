// What the tables of tiles of several kernels share: each row has a name.
#pragma once

#include <array>

namespace smem::gemm {

constexpr bool is_same_name(const char* a, const char* b) {
  return *a == *b && (*a == '\0' || is_same_name(a + 1, b + 1));
}

/// The rows' names, for the kernel table.
template <int COUNT, typename Table>
constexpr std::array<const char*, COUNT> names_of(const Table& tiles) {
  std::array<const char*, COUNT> names{};
  for (int row = 0; row < COUNT; ++row) names[row] = tiles[row].name;
  return names;
}

/// The row of that name. As a template argument, an unknown name does not compile.
template <int COUNT, typename Table>
constexpr int row_of(const Table& tiles, const char* name, int from = 0) {
  // NOLINTNEXTLINE(bugprone-std-exception-baseclass): no constant expression can get here
  if (from == COUNT) throw "the table has no row of that name";
  return is_same_name(tiles[from].name, name) ? from : row_of<COUNT>(tiles, name, from + 1);
}

}  // namespace smem::gemm
