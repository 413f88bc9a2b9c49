// strided_copy: copies elements from their place in `in` to their place in `out`, one by one.
//
// The problem: a transpose that leaves the last dimension in place, such as (B, S, H, D) to
// (B, H, S, D), moves whole rows of D elements. No data is transposed, so the path is
//
//   global --> registers --> global
//
// without shared memory and without a barrier. The bindings pass rows that are a multiple of 16
// bytes as 16-byte elements (bindings/transpose_layout.h). Transposes of short rows and columns
// take this path, too, where most of a tile would be empty (transpose/dispatch.cpp).
//
// A block copies consecutive elements of `out`, in whose order the elements are numbered
// (transpose/copy_order.h), and neighbouring threads copy neighbours. Each thread loads a few
// elements before it stores them.
//
// What may be changed safely: STRIDED_COPY_THREADS and strided_copy_elements (transpose/tiling.h).
#include "device/fast_divmod.h"
#include "transpose/block.h"
#include "transpose/copy_order.h"
#include "transpose/tiling.h"

namespace smem::transpose::inline SMEM_BUILD {

/// Offset is int32_t where all offsets fit: 64-bit products would bound copies of short elements.
template <typename Offset>
struct StridedCopyParams {
  const void* in;
  void* out;
  int count;  ///< elements
  int loops;
  FastDivmod by_size[MAX_LOOPS];
  Offset in_stride[MAX_LOOPS], out_stride[MAX_LOOPS];

  StridedCopyParams(const void* from, void* to, const CopyOrder& order)
      : in(from), out(to), count(static_cast<int>(order.elements())), loops(order.count) {
    for (int d = 0; d < loops; ++d) {
      by_size[d] = FastDivmod(order.loop[d].size);
      in_stride[d] = static_cast<Offset>(order.loop[d].stride[IN]);
      out_stride[d] = static_cast<Offset>(order.loop[d].stride[OUT]);
    }
  }
};

/// DENSE: an element's place in `out` is its number.
template <typename T, typename Offset, bool DENSE>
__global__ void __launch_bounds__(STRIDED_COPY_THREADS)
    strided_copy_kernel(const __grid_constant__ StridedCopyParams<Offset> params) {
  constexpr int N = strided_copy_elements(sizeof(T));
  const int first = static_cast<int>(blockIdx.x * (STRIDED_COPY_THREADS * N) + threadIdx.x);
  int rest[N];  // of an element's number, without the loops inside of loop d
  Offset from[N] = {}, to[N] = {};
#pragma unroll
  for (int i = 0; i < N; ++i) rest[i] = first + i * STRIDED_COPY_THREADS;
#pragma unroll 1
  for (int d = 0; d < params.loops - 1; ++d) {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const auto [outer, inner] = divide(rest[i], params.by_size[d]);
      from[i] += inner * params.in_stride[d];
      if (!DENSE) to[i] += inner * params.out_stride[d];
      rest[i] = outer;
    }
  }
  const int last = params.loops - 1;
  T values[N];
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const int number = first + i * STRIDED_COPY_THREADS;
    const Offset offset = from[i] + rest[i] * params.in_stride[last];
    if (number < params.count) values[i] = static_cast<const T*>(params.in)[offset];
  }
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const int number = first + i * STRIDED_COPY_THREADS;
    const Offset offset = DENSE ? number : to[i] + rest[i] * params.out_stride[last];
    if (number < params.count) static_cast<T*>(params.out)[offset] = values[i];
  }
}

struct StridedCopy {
  static constexpr const char* NAME = "strided_copy";
  /// Of one launch: element numbers are below 2^31, also those that a block has no elements for.
  static constexpr int64_t MAX_ELEMENTS = int64_t{1} << 30;

  template <typename T>
  static constexpr auto kernel() {
    return strided_copy_kernel<T, int32_t, true>;
  }

  template <typename T>
  static void run(const Problem& problem, const Device& device) {
    copy(static_cast<const T*>(problem.in), static_cast<T*>(problem.out), CopyOrder(problem),
         device);
  }

  template <typename T>
  static void copy(const T* in, T* out, CopyOrder order, const Device& device) {
    const int64_t elements = order.elements();
    if (elements <= MAX_ELEMENTS) return launch_copy(in, out, order, device);
    // Halves of the outermost loop that can be halved.
    int d = order.count - 1;
    while (order.loop[d].size == 1) --d;
    Loop& outer = order.loop[d];
    const int64_t size = outer.size, half = size / 2;
    outer.size = half;
    copy(in, out, order, device);
    outer.size = size - half;
    copy(in + half * outer.stride[IN], out + half * outer.stride[OUT], order, device);
  }

  template <typename T>
  static void launch_copy(const T* in, T* out, const CopyOrder& order, const Device& device) {
    const Geometry geometry{
        .blocks =
            ceil_div(order.elements(), STRIDED_COPY_THREADS * strided_copy_elements(sizeof(T))),
        .threads = {STRIDED_COPY_THREADS}};
    if (order.is_out_dense() && order.last_offset(IN) <= INT32_MAX) {
      return launch(NAME, kernel<T>(), geometry, device,
                    StridedCopyParams<int32_t>(in, out, order));
    }
    launch(NAME, strided_copy_kernel<T, int64_t, false>, geometry, device,
           StridedCopyParams<int64_t>(in, out, order));
  }
};

const Kernel strided_copy =
    make_kernel<StridedCopy>("copies element by element, in the order of the result");

}  // namespace smem::transpose::inline SMEM_BUILD
