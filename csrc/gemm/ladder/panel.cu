// panel: the block's whole panels of A and B in shared memory, with one barrier.
//
// What it adds over naive: shared memory. A block computes 16 x 16 elements of C. It reads its 16
// rows of A and 16 columns of B from global memory once, then reads each element from shared memory
// 16 times.
//
//   Reads:  A ceil(N/16) times, B ceil(M/16) times, from global memory.
//   Writes: out once.
//   Limit:  2 * 16 * K elements of shared memory per block. That bounds K (48 KiB per block by
//           default, up to 227 KiB on Hopper by opting in), and a large K leaves one block per SM,
//           so that nothing hides the latency of its loads.
//
// Textbooks often say that global reads fall to M*K + K*N elements. They do not: every block reads
// its own panels, which makes M*K*ceil(N/16) + K*N*ceil(M/16).
#include "gemm/kernel_table.h"

namespace smem::gemm::inline SMEM_BUILD {

constexpr int PANEL_TILE = 16, PANEL_THREADS = PANEL_TILE * PANEL_TILE;

// A large K leaves one block per SM: so told, ptxas issues the loads of many products at once.
template <typename T>
__global__ void __launch_bounds__(PANEL_THREADS, 1)
    panel_kernel(const __grid_constant__ Problem problem) {
  const BlockTile<T> block(problem, PANEL_TILE, PANEL_TILE);
  const int tx = threadIdx.x, ty = threadIdx.y;
  const int64_t row = block.row0 + ty, col = block.col0 + tx;
  const int K = static_cast<int>(problem.K);  // check_requirements limits it
  const T* const a = block.A.data + row * problem.a.row_stride;
  const T* const b = block.B.data + col * problem.b.col_stride;
  const int64_t a_stride = problem.a.col_stride, b_stride = problem.b.row_stride;  // along K

  T* const As = dynamic_shared<T>();  // PANEL_TILE x K
  T* const Bs = As + PANEL_TILE * K;  // K x PANEL_TILE

#pragma unroll 4
  for (int k = tx; k < K; k += PANEL_TILE) {
    const T element = row < problem.M ? a[k * a_stride] : T(0.0f);
    As[ty * K + k] = element;
  }
#pragma unroll 4
  for (int k = ty; k < K; k += PANEL_TILE) {
    const T element = col < problem.N ? b[k * b_stride] : T(0.0f);
    Bs[k * PANEL_TILE + tx] = element;
  }
  __syncthreads();

  Accumulator<T> accum = 0;
  SuperblockAccum<Accumulator<T>> promoted(K);
  const int interval = static_cast<int>(accum_interval(K));
  for (int k0 = 0; k0 < K; k0 += interval) {  // an interval (accumulation_order.h)
    const int end = K - k0 < interval ? K : k0 + interval;
    for (int k = k0; k < end; ++k) {
      accum = fma(to_accumulator(As[ty * K + k]), to_accumulator(Bs[k * PANEL_TILE + tx]), accum);
    }
    promoted.promote_at(end, &accum);
  }
  block.epilogue.store(row, col, promoted.total(&accum));
}

struct PanelRung {
  static constexpr const char* NAME = "panel";
  template <typename T>
  static constexpr auto kernel() {
    return panel_kernel<T>;
  }
  template <typename T>
  static Geometry geometry(const Problem& problem) {
    return grid_of_tiles(problem, PANEL_TILE, PANEL_TILE, {PANEL_TILE, PANEL_TILE},
                         2 * PANEL_TILE * problem.K * sizeof(T));
  }
};

int64_t panel_largest_k(DType dtype, size_t shared_bytes) {
  return static_cast<int64_t>(shared_bytes / (2 * PANEL_TILE * size_of(dtype)));
}

const Kernel panel =
    make_kernel<PanelRung>(PanelRung::NAME, "the whole K panel in shared memory, one barrier",
                           "32 * K elements fit in a block's shared memory", panel_largest_k);

}  // namespace smem::gemm::inline SMEM_BUILD
