// Merges the dimensions that several tensors share into as few as possible.
#pragma once

#include <array>
#include <cstdint>

#include "bindings/tensors.h"
#include "device/offset_calculator.h"

namespace smem::bindings {

template <int TENSORS>
struct Dim {
  int64_t size;
  std::array<int64_t, TENSORS> stride;
};

/// Dimensions in order, from the outermost to the innermost.
template <int TENSORS>
struct Dims {
  int count = 0;
  /// One more than a tensor has, because a complex number becomes a dimension of size two.
  std::array<Dim<TENSORS>, MAX_DIMS + 1> at;

  void push(const Dim<TENSORS>& dim) { at[count++] = dim; }

  /// Adds a dimension inside the present ones. It is merged with the innermost of them if one
  /// stride per tensor covers both.
  void push_merged(const Dim<TENSORS>& dim) {
    if (dim.size == 1) return;
    if (count > 0) {
      Dim<TENSORS>& outer = at[count - 1];
      bool merges = true;
      for (int t = 0; t < TENSORS; ++t) merges &= outer.stride[t] == dim.stride[t] * dim.size;
      if (merges) {
        outer = {outer.size * dim.size, dim.stride};
        return;
      }
    }
    push(dim);
  }

  void remove(int index) {
    for (int i = index; i + 1 < count; ++i) at[i] = at[i + 1];
    --count;
  }

  /// The innermost MAX_RANK dimensions. If there are more, the caller must iterate over the others
  /// (for_each_outer).
  OffsetCalculator<TENSORS> loop() const {
    OffsetCalculator<TENSORS> result;
    const int first = std::max(0, count - MAX_RANK);
    result.rank = count - first;
    for (int d = first; d < count; ++d) {
      result.size[d - first] = at[d].size;
      for (int t = 0; t < TENSORS; ++t) result.stride[t][d - first] = at[d].stride[t];
    }
    return result;
  }

  /// Calls f(offsets) for each index of the dimensions that are not in `loop()`: once, with zeros,
  /// unless there are more than MAX_RANK.
  template <typename F>
  void for_each_outer(const F& f) const {
    std::array<int64_t, MAX_DIMS + 1> index{};
    const int outer = std::max(0, count - MAX_RANK);
    while (true) {
      std::array<int64_t, TENSORS> offsets{};
      for (int d = 0; d < outer; ++d) {
        for (int t = 0; t < TENSORS; ++t) offsets[t] += index[d] * at[d].stride[t];
      }
      f(offsets);
      int d = outer - 1;
      while (d >= 0 && ++index[d] == at[d].size) index[d--] = 0;
      if (d < 0) return;
    }
  }
};

}  // namespace smem::bindings
