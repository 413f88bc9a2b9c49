// Reduces a transpose of any number of dimensions to a batch of matrix transposes.
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

constexpr TransposeDim SINGLE{.size = 1, .stride = {0, 0}};

/// The stride as a measure of density, to be compared: a broadcast dimension is the least dense.
int64_t density_stride(const TransposeDim& dim, transpose::Tensor tensor) {
  const int64_t stride = std::abs(dim.stride[tensor]);
  return stride == 0 ? std::numeric_limits<int64_t>::max() : stride;
}

/// The index of the dimension with the smallest stride in `tensor`, the innermost of equal ones; -1
/// if there are no dimensions.
int densest(const TransposeDims& dims, transpose::Tensor tensor) {
  int best = dims.count - 1;
  for (int d = dims.count - 2; d >= 0; --d) {
    if (density_stride(dims.at[d], tensor) < density_stride(dims.at[best], tensor)) best = d;
  }
  return best;
}

/// Removes a dimension and returns it; a dimension of size 1 for index -1.
TransposeDim extract(TransposeDims& dims, int index) {
  if (index < 0) return SINGLE;
  const TransposeDim dim = dims.at[index];
  dims.remove(index);
  return dim;
}

/// As few dimensions as possible, from the outermost of `out` to its innermost.
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

/// If a dimension is contiguous in both tensors, replaces the elements by the largest ones (up to
/// 16 bytes) that divide this contiguous segment, all other strides and both addresses. Returns the
/// element size in bytes.
size_t widen_elements(const TransposeLayout& layout, TransposeDims& dims) {
  const auto bytes = static_cast<int64_t>(layout.element_bytes);
  const int segment = densest(dims, OUT);
  if (segment < 0 || dims.at[segment].stride != std::array<int64_t, 2>{1, 1})
    return layout.element_bytes;
  uint64_t multiples = reinterpret_cast<uintptr_t>(layout.in) |
                       reinterpret_cast<uintptr_t>(layout.out) |
                       static_cast<uint64_t>(dims.at[segment].size * bytes);
  for (int d = 0; d < dims.count; ++d) {
    if (d == segment) continue;
    for (const int64_t stride : dims.at[d].stride)
      multiples |= static_cast<uint64_t>(stride * bytes);
  }
  // The largest power of two that divides all of them: the lowest bit that is set in any of them.
  const auto wide = static_cast<int64_t>(std::min<uint64_t>(multiples & (~multiples + 1), 16));
  if (wide <= bytes) return layout.element_bytes;
  for (int d = 0; d < dims.count; ++d) {
    if (d == segment) {
      dims.at[d].size = dims.at[d].size * bytes / wide;
    } else {
      for (int64_t& stride : dims.at[d].stride) stride = stride * bytes / wide;
    }
  }
  if (dims.at[segment].size == 1) dims.remove(segment);
  return static_cast<size_t>(wide);
}

}  // namespace

CollapsedTranspose collapse(const TransposeLayout& layout) {
  TransposeDims dims = merged(layout);
  const size_t bytes = widen_elements(layout, dims);
  const int densest_out = densest(dims, OUT);
  const bool is_strided_copy = densest_out == densest(dims, IN);
  const TransposeDim rows = extract(dims, densest_out);
  int columns = densest(dims, IN);
  if (is_strided_copy) {
    for (int d = 0; d < dims.count; ++d) {
      if (dims.at[d].size > dims.at[columns].size) columns = d;
    }
  }
  const TransposeDim cols = extract(dims, columns);
  return {.problem = {.element_bytes = bytes,
                      .rows = rows.size,
                      .cols = cols.size,
                      .in = layout.in,
                      .in_row_stride = rows.stride[IN],
                      .in_col_stride = cols.stride[IN],
                      .out = layout.out,
                      .out_row_stride = rows.stride[OUT],
                      .out_col_stride = cols.stride[OUT],
                      .batch = dims.loop()},
          .batch = dims};
}

}  // namespace smem::bindings
