#include "transpose/copy_order.h"

#include <algorithm>

namespace smem::transpose {

CopyOrder::CopyOrder(const Problem& problem) {
  const auto add = [&](int64_t size, int64_t in_stride, int64_t out_stride) {
    if (size != 1) loop[count++] = {size, {in_stride, out_stride}};
  };
  for (int d = 0; d < problem.batch.rank; ++d) {
    add(problem.batch.size[d], problem.batch.stride[IN][d], problem.batch.stride[OUT][d]);
  }
  add(problem.cols, problem.in_col_stride, problem.out_col_stride);
  add(problem.rows, problem.in_row_stride, problem.out_row_stride);
  if (count == 0) loop[count++] = {1, {1, 1}};
  std::sort(loop.begin(), loop.begin() + count,
            [](const Loop& a, const Loop& b) { return a.stride[OUT] < b.stride[OUT]; });
}

int64_t CopyOrder::elements() const {
  int64_t product = 1;
  for (int d = 0; d < count; ++d) product *= loop[d].size;
  return product;
}

int64_t CopyOrder::last_offset(Tensor tensor) const {
  int64_t offset = 0;
  for (int d = 0; d < count; ++d) offset += (loop[d].size - 1) * loop[d].stride[tensor];
  return offset;
}

bool CopyOrder::is_out_dense() const {
  int64_t dense = 1;
  for (int d = 0; d < count; ++d) {
    if (loop[d].stride[OUT] != dense) return false;
    dense *= loop[d].size;
  }
  return true;
}

CopyOrder::Segment CopyOrder::segment(int64_t elements, int64_t max_gap) const {
  // The part of each loop that they cover, from the smallest stride in `in` to the largest.
  std::array<Loop, MAX_LOOPS> part = loop;
  int64_t left = elements;
  for (int d = 0; d < count; ++d) {
    part[d].size = std::min(loop[d].size, left);
    left = std::max<int64_t>(left / std::max<int64_t>(loop[d].size, 1), 1);
  }
  // By insertion: for so few loops g++ warns about std::sort, which takes 16 elements at once.
  const auto is_before = [](const Loop& a, const Loop& b) { return a.stride[IN] < b.stride[IN]; };
  for (auto next = part.begin(); next != part.begin() + count; ++next) {
    std::rotate(std::upper_bound(part.begin(), next, *next, is_before), next, next + 1);
  }
  Segment found{1, 1};
  for (int d = 0; d < count; ++d) {
    if (part[d].size <= 1) continue;
    if (part[d].stride[IN] > std::max(found.spanned, max_gap)) break;
    found.needed *= part[d].size;
    found.spanned = std::max(found.spanned, part[d].stride[IN] * part[d].size);
  }
  return found;
}

}  // namespace smem::transpose
