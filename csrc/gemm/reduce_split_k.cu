// The second kernel of a split-K GEMM: adds the partials of the slices, in order, and applies the
// epilogue. One thread computes one element of out.
#include "device/pdl.h"
#include "gemm/epilogue_params.h"
#include "gemm/reduce_split_k.h"

namespace smem::gemm::inline SMEM_BUILD {
namespace {

/// Blocks are small, so that all SMs have some. A thread has LOADS_IN_FLIGHT loads in flight.
constexpr int REDUCE_THREADS = 64, LOADS_IN_FLIGHT = 16;

template <typename T>
struct ReduceSplitKParams {
  const float* partials;
  int64_t pitch;     ///< of a row of partials
  int64_t elements;  ///< of out, in the whole batch
  int split_k_slices;
  Epilogue<T> epilogue;
  BatchStrides strides;
  bool is_plain;  ///< out is the rounded sum: no epilogue
};

/// The slices are added in ascending order; that decides the bits. The kernel may be launched while
/// the slices are still computed, and it finds its addresses before it waits for them.
template <typename T>
__global__ void __launch_bounds__(REDUCE_THREADS)
    reduce_split_k_kernel(const ReduceSplitKParams<T> params) {
  const int64_t index = int64_t{blockIdx.x} * REDUCE_THREADS + threadIdx.x;
  const int64_t rows = params.epilogue.out.rows, cols = params.epilogue.out.cols;
  const int64_t row_of_batch = index / cols, col = index - row_of_batch * cols;
  const int64_t batch = row_of_batch / rows, row = row_of_batch - batch * rows;
  const int64_t slice_stride = rows * params.pitch;
  const float* const from =
      params.partials + batch * params.split_k_slices * slice_stride + row * params.pitch + col;
  const auto epilogue = epilogue_at_batch(params.epilogue, params.strides, batch);
  wait_on_dependent_grids();
  if (index >= params.elements) return;
  float accum = *from;
#pragma unroll 1
  for (int first = 1; first < params.split_k_slices; first += LOADS_IN_FLIGHT) {
    float partials[LOADS_IN_FLIGHT];
#pragma unroll
    for (int i = 0; i < LOADS_IN_FLIGHT; ++i) {
      if (first + i < params.split_k_slices) partials[i] = from[(first + i) * slice_stride];
    }
#pragma unroll
    for (int i = 0; i < LOADS_IN_FLIGHT; ++i) {
      if (first + i < params.split_k_slices) accum += partials[i];
    }
  }
  // Most problems take the short path; the code of the other one would have to be fetched.
  if (params.is_plain) {
    epilogue.out(row, col) = from_accumulator<T>(accum);
  } else {
    epilogue.store(row, col, accum);
  }
}

template <typename T>
void launch_reduce(const Problem& problem, int64_t batch_count, int split_k_slices,
                   const float* partials, const Device& device) {
  const int64_t elements = batch_count * problem.M * problem.N;
  const bool is_plain = !problem.c.data && !problem.bias && !problem.pre && problem.alpha == 1 &&
                        problem.activation == Activation::none &&
                        problem.out_dtype == problem.dtype;
  const ReduceSplitKParams<T> params{.partials = partials,
                                     .pitch = partial_pitch(problem.N),
                                     .elements = elements,
                                     .split_k_slices = split_k_slices,
                                     .epilogue = epilogue_of<T>(problem),
                                     .strides = batch_strides(problem),
                                     .is_plain = is_plain};
  smem::launch("reduce_split_k", reduce_split_k_kernel<T>,
               Geometry{ceil_div(elements, REDUCE_THREADS), dim3(REDUCE_THREADS), 0, true}, device,
               params);
}

}  // namespace

void reduce_split_k(const Problem& problem, int64_t batch_count, int split_k_slices,
                    const float* partials, const Device& device) {
  if (problem.dtype == DType::f32) {
    launch_reduce<float>(problem, batch_count, split_k_slices, partials, device);
  } else if (problem.dtype == DType::f16) {
    launch_reduce<half>(problem, batch_count, split_k_slices, partials, device);
  } else {
    launch_reduce<bfloat16>(problem, batch_count, split_k_slices, partials, device);
  }
}

}  // namespace smem::gemm::inline SMEM_BUILD
