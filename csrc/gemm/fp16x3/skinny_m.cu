// Which kernel of skinny_m_kernel.h a problem takes, and those for a B that lies along K; the
// others are in skinny_m_mn_major.cu.
#include "gemm/fp16x3/skinny_m.h"
#include "gemm/fp16x3/skinny_m_kernel.h"

namespace smem::gemm::fp16x3 {
inline namespace SMEM_BUILD {

template void multiply_few<AlongK>(const Problem&, const split::Split&, const split::Split&, float*,
                                   const Device&);
template void multiply_few<InParts<AlongK>>(const Problem&, const split::Split&,
                                            const split::Split&, float*, const Device&);
template void multiply_few<RaggedAlongK>(const Problem&, const split::Split&, const split::Split&,
                                         float*, const Device&);
extern template void multiply_few<AcrossK>(const Problem&, const split::Split&, const split::Split&,
                                           float*, const Device&);
extern template void multiply_few<InParts<AcrossK>>(const Problem&, const split::Split&,
                                                    const split::Split&, float*, const Device&);

namespace {

bool lies_along_k(const split::Split& b) {
  return split::runs_are_wide(b, b.stride, b.length, b.line_stride);
}

bool lies_across_k(const split::Split& b) {
  return split::runs_are_wide(b, b.line_stride, b.lines, b.stride);
}

}  // namespace
}  // namespace SMEM_BUILD

bool has_few_rows(const Problem& problem, const split::Split& b) {
  constexpr int64_t MOST_ROWS = 64;
  // Where members share B, each would split it.
  return problem.M <= MOST_ROWS && (b.members > 1 || inner_batch_count(problem) == 1) &&
         (b.stride == 1 || lies_across_k(b));
}

void multiply_few_rows(const Problem& problem, const split::Split& a, const split::Split& b,
                       float* partials, const Device& device) {
  if (lies_along_k(b)) {
    if (b.parts > 1) return multiply_few<InParts<AlongK>>(problem, a, b, partials, device);
    return multiply_few<AlongK>(problem, a, b, partials, device);
  }
  if (lies_across_k(b)) {
    if (b.parts > 1) return multiply_few<InParts<AcrossK>>(problem, a, b, partials, device);
    return multiply_few<AcrossK>(problem, a, b, partials, device);
  }
  multiply_few<RaggedAlongK>(problem, a, b, partials, device);
}

}  // namespace smem::gemm::fp16x3
