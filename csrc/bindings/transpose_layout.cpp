#include "bindings/transpose_layout.h"

#include <algorithm>
#include <cstdlib>
#include <limits>

namespace smem::bindings {
namespace {

using transpose::IN;
using transpose::OUT;
using TransposeDim = Dim<transpose::TENSORS>;
using TransposeDims = Dims<transpose::TENSORS>;

constexpr TransposeDim ONCE{1, {0, 0}};

/// The steps between neighbours, for comparison: a broadcast dimension has none.
int64_t step(const TransposeDim& dim, transpose::Tensor tensor) {
  const int64_t stride = std::abs(dim.stride[tensor]);
  return stride == 0 ? std::numeric_limits<int64_t>::max() : stride;
}

/// The index of the dimension that is densest in `tensor`, the innermost of equals; -1 of none.
int densest(const TransposeDims& dims, transpose::Tensor tensor) {
  int best = dims.count - 1;
  for (int d = dims.count - 2; d >= 0; --d) {
    if (step(dims.at[d], tensor) < step(dims.at[best], tensor)) best = d;
  }
  return best;
}

TransposeDim take(TransposeDims& dims, int index) {
  if (index < 0) return ONCE;
  const TransposeDim dim = dims.at[index];
  dims.remove(index);
  return dim;
}

/// The fewest dimensions, from the outermost of out to its innermost.
TransposeDims merged(const TransposeLayout& layout) {
  TransposeDims all, dims;
  for (int d = 0; d < layout.sizes.count; ++d) {
    if (layout.sizes.at[d] == 1) continue;
    all.push({layout.sizes.at[d], {layout.in_strides.at[d], layout.out_strides.at[d]}});
  }
  std::stable_sort(all.at.begin(), all.at.begin() + all.count,
                   [](const auto& a, const auto& b) { return a.stride[OUT] > b.stride[OUT]; });
  for (int d = 0; d < all.count; ++d) dims.push_merged(all.at[d]);
  return dims;
}

/// Where both tensors keep a run of elements side by side, takes the largest elements that it, all
/// other steps and both addresses are whole numbers of. Returns their size in bytes.
size_t widen(const TransposeLayout& layout, TransposeDims& dims) {
  const auto bytes = static_cast<int64_t>(layout.element_bytes);
  const int run = densest(dims, OUT);
  if (run < 0 || dims.at[run].stride != std::array<int64_t, 2>{1, 1}) return layout.element_bytes;
  uint64_t multiples = reinterpret_cast<uintptr_t>(layout.in) |
                       reinterpret_cast<uintptr_t>(layout.out) |
                       static_cast<uint64_t>(dims.at[run].size * bytes);
  for (int d = 0; d < dims.count; ++d) {
    if (d == run) continue;
    for (const int64_t stride : dims.at[d].stride)
      multiples |= static_cast<uint64_t>(stride * bytes);
  }
  // The lowest bit that any of them has set.
  const auto wide = static_cast<int64_t>(std::min<uint64_t>(multiples & (~multiples + 1), 16));
  if (wide <= bytes) return layout.element_bytes;
  for (int d = 0; d < dims.count; ++d) {
    if (d == run) {
      dims.at[d].size = dims.at[d].size * bytes / wide;
    } else {
      for (int64_t& stride : dims.at[d].stride) stride = stride * bytes / wide;
    }
  }
  if (dims.at[run].size == 1) dims.remove(run);
  return static_cast<size_t>(wide);
}

}  // namespace

CollapsedTranspose collapse(const TransposeLayout& layout) {
  TransposeDims dims = merged(layout);
  const size_t bytes = widen(layout, dims);
  const int run = densest(dims, OUT);
  const bool stays = run == densest(dims, IN);
  const TransposeDim rows = take(dims, run);
  int columns = densest(dims, IN);
  if (stays) {
    for (int d = 0; d < dims.count; ++d) {
      if (dims.at[d].size > dims.at[columns].size) columns = d;
    }
  }
  const TransposeDim cols = take(dims, columns);
  return {{bytes, rows.size, cols.size, layout.in, rows.stride[IN], cols.stride[IN], layout.out,
           rows.stride[OUT], cols.stride[OUT], dims.loop()},
          dims};
}

}  // namespace smem::bindings
