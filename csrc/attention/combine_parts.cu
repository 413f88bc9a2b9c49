// Combines the attention over parts of the keys:
//
//   out = sum over parts p of exp(lse[p] - max) * parts_out[p]  /  sum over p of exp(lse[p] - max)
//
// where lse[p] is the logarithm of the sum of exp(score) over p's keys, and max the largest lse.
//
// A block has one row of the result (a sequence, a query of the group, a head), a thread one of its
// features at a time, so the loads of a warp are contiguous. Every thread computes the row's few
// weights itself: that takes less time than sharing them.
//
// The parts are added in ascending order, in float32, and a part without keys is not read. So a row
// has the same bits however many parts without keys follow, and those of its part if it has only
// one. The number of threads may be tuned.
#include "attention/combine_parts.h"
#include "device/dispatch.h"
#include "device/numeric_types.h"
#include "device/symbol.h"

namespace smem::attention {
inline namespace SMEM_BUILD {

constexpr int THREADS = 128;

template <typename T>
__global__ void __launch_bounds__(THREADS)
    combine_kernel(const __grid_constant__ CombineProblem problem) {
  using Acc = Accumulator<T>;
  const int heads = problem.heads, group = problem.group, parts = problem.parts;
  const int64_t row = blockIdx.x;
  const int head = static_cast<int>(row % heads);
  const int query = static_cast<int>(row / heads % group);
  const int64_t sequence = row / heads / group;
  const int64_t first = sequence * parts * group + query;  // this query in the first part
  const float* const lse = problem.logsumexp + head * problem.logsumexp_stride + first;
  const int32_t* const lengths = problem.lengths + sequence * parts;

  float largest = -INFINITY;
  for (int p = 0; p < parts; ++p) {
    if (lengths[p] > 0) largest = fmaxf(largest, lse[int64_t{p} * group]);
  }
  for (int f = threadIdx.x; f < problem.features; f += THREADS) {
    const auto* const in =
        static_cast<const T*>(problem.parts_out) + (first * heads + head) * problem.features + f;
    const int64_t part_stride = int64_t{group} * heads * problem.features;
    Acc sum = 0, total = 0;
    bool is_first = true;
    for (int p = 0; p < parts; ++p) {
      if (lengths[p] <= 0) continue;
      const Acc weight = exp(Acc(lse[int64_t{p} * group] - largest));
      const Acc value = to_accumulator(in[p * part_stride]);
      sum = is_first ? weight * value : fma(weight, value, sum);
      total = total + weight;
      is_first = false;
    }
    static_cast<T*>(problem.out)[row * problem.features + f] =
        from_accumulator<T>(is_first ? Acc(0) : sum / total);
  }
}

namespace {

void launch_combine(const CombineProblem& problem, const Device& device) {
  const auto run = [&](auto kernel) {
    launch("combine_parts", kernel,
           {.blocks = problem.sequences * problem.group * problem.heads, .threads = {THREADS}},
           device, problem);
  };
  switch (problem.dtype) {
    case DType::f16:
      return run(&combine_kernel<half>);
    case DType::bf16:
      return run(&combine_kernel<bfloat16>);
    default:
      return run(&combine_kernel<float>);
  }
}

}  // namespace
}  // namespace SMEM_BUILD

#if defined(__CUDACC__)
const Combine device_combine = &launch_combine;
#else
const Combine host_combine = &launch_combine;
#endif

}  // namespace smem::attention
