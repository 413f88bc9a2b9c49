#include "device/pdl.h"
#include "gemm/sm90/epilogue_params.h"
#include "gemm/sm90/reduce_split_k.h"

namespace smem::gemm::sm90 {
inline namespace SMEM_BUILD {
namespace {

// Small blocks, for all SMs to have some.
constexpr int THREADS = 64, AT_ONCE = 16;

template <typename T>
struct Reduction {
  const float* partials;
  int64_t pitch;     ///< of their rows
  int64_t elements;  ///< of out, in all members
  int chunks;
  Epilogue<T> epilogue;
  MemberStrides strides;
  bool is_plain;  ///< out is the sums, rounded
};

/// A thread an element: chunks are added in order, from the first. Launched while the chunks are
/// still being computed, it finds its place meanwhile.
template <typename T>
__global__ void __launch_bounds__(THREADS) reduce_kernel(const Reduction<T> r) {
  const int64_t index = int64_t{blockIdx.x} * THREADS + threadIdx.x;
  const int64_t rows = r.epilogue.out.rows, cols = r.epilogue.out.cols;
  const int64_t line = index / cols, col = index - line * cols;
  const int64_t member = line / rows, row = line - member * rows, chunk = rows * r.pitch;
  const float* const from = r.partials + member * r.chunks * chunk + row * r.pitch + col;
  const auto epilogue = epilogue_of_member(r.epilogue, r.strides, member);
  wait_on_dependent_grids();
  if (index >= r.elements) return;
  float sum = *from;
#pragma unroll 1
  for (int first = 1; first < r.chunks; first += AT_ONCE) {
    float parts[AT_ONCE];
#pragma unroll
    for (int i = 0; i < AT_ONCE; ++i) {
      if (first + i < r.chunks) parts[i] = from[(first + i) * chunk];
    }
#pragma unroll
    for (int i = 0; i < AT_ONCE; ++i) {
      if (first + i < r.chunks) sum += parts[i];
    }
  }
  // A way of its own for most sums: it is short, and the other's code is not cached.
  if (r.is_plain) {
    epilogue.out(row, col) = from_accumulator<T>(sum);
  } else {
    epilogue.store(row, col, sum);
  }
}

template <typename T>
void reduce_type(const Problem& problem, int64_t members, int chunks, const float* partials,
                 const Device& device) {
  const int64_t elements = members * problem.M * problem.N;
  const bool is_plain = !problem.c.data && !problem.bias && !problem.pre && problem.alpha == 1 &&
                        problem.activation == Activation::none &&
                        problem.out_dtype == problem.dtype;
  const Reduction<T> reduction{partials, partial_pitch(problem.N), elements,
                               chunks,   epilogue_of<T>(problem),  member_strides(problem),
                               is_plain};
  smem::launch("hopper reduce", reduce_kernel<T>,
               Geometry{ceil_div(elements, THREADS), dim3(THREADS), 0, true}, device, reduction);
}

}  // namespace
}  // namespace SMEM_BUILD

void reduce(const Problem& problem, int64_t members, int chunks, const float* partials,
            const Device& device) {
  if (problem.dtype == DType::f32) {
    reduce_type<float>(problem, members, chunks, partials, device);
  } else if (problem.dtype == DType::f16) {
    reduce_type<half>(problem, members, chunks, partials, device);
  } else {
    reduce_type<bfloat16>(problem, members, chunks, partials, device);
  }
}

}  // namespace smem::gemm::sm90
