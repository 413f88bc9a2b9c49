#include "device/programmatic.h"
#include "gemm/hopper/epilogue.h"
#include "gemm/hopper/reduce.h"

namespace smem::gemm::hopper {
inline namespace SMEM_BUILD {
namespace {

// Small blocks, for all multiprocessors to have some.
constexpr int THREADS = 64, AT_ONCE = 16;

template <typename T>
struct Reduction {
  const float* partials;
  int64_t elements;
  int chunks;
  Epilogue<T> epilogue;
  MemberStrides strides;
};

/// A thread an element: chunks are added in order, from the first. Launched while the chunks are
/// still being computed.
template <typename T>
__global__ void __launch_bounds__(THREADS) reduce_kernel(const Reduction<T> r) {
  wait_for_previous();
  const int64_t index = int64_t{blockIdx.x} * THREADS + threadIdx.x;
  const int64_t matrix = r.epilogue.out.rows * r.epilogue.out.cols;
  if (index >= r.elements) return;
  const int64_t member = index / matrix, at = index % matrix;
  const float* from = r.partials + member * r.chunks * matrix + at;
  float sum = *from;
#pragma unroll 1
  for (int first = 1; first < r.chunks; first += AT_ONCE) {
    float parts[AT_ONCE];
#pragma unroll
    for (int i = 0; i < AT_ONCE; ++i) {
      if (first + i < r.chunks) parts[i] = from[(first + i) * matrix];
    }
#pragma unroll
    for (int i = 0; i < AT_ONCE; ++i) {
      if (first + i < r.chunks) sum += parts[i];
    }
  }
  const auto epilogue = epilogue_of_member(r.epilogue, r.strides, member);
  epilogue.store(at / r.epilogue.out.cols, at % r.epilogue.out.cols, sum);
}

template <typename T>
void reduce_type(const Problem& problem, int64_t members, int chunks, const float* partials,
                 const Device& device) {
  const int64_t elements = members * problem.M * problem.N;
  const Reduction<T> reduction{partials, elements, chunks, epilogue_of<T>(problem),
                               member_strides(problem)};
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

}  // namespace smem::gemm::hopper
