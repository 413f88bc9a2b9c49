// tensor_core: warps multiply 16 x 16 by 16 x 8 matrices in one instruction (sm_80 and newer).
//
// Over double_buffered: an mma instruction makes 2048 products for a warp, where 32 lanes' FMAs
// make 32, and ldmatrix brings its operands from shared memory already spread over the lanes. So
// feeding them is all there is to do. Four stages of shared memory are filled by cp.async, three
// steps of K ahead of the products; chunks are swizzled, so that neither the copies nor ldmatrix
// meet a bank conflict, in whichever direction the operand lies (ldmatrix turns it where it must).
// Fragments, too, are read one mma ahead. A warp of the largest tile makes 64 x 64 sums, and 8 of
// them share a tile, which asks the L2 cache for a quarter less than one of 128 x 128 would.
// float32 goes the same way as tf32, rounded to 10 bits of mantissa on the way to the registers,
// where `precision` allows it: 8 of K an instruction.
//
// Every sum is one chain of mma with K ascending, from zero: all tiles, and so all M, give the same
// bits. They are not those of the ladder's other kernels, which add one product at a time.
// Reads: A ceil(N/128) times, B ceil(M/256) times. Writes: out once.
#pragma once

#include "device/target.h"
#include "gemm/block.h"
#include "gemm/smem_layout.h"

namespace smem::gemm {
inline namespace SMEM_BUILD {

#ifdef __CUDACC__

/// A block's tile of out, the chunks of K a stage, and how many warps share the tile out.
template <int TILE_M_, int TILE_N_, int CHUNKS_, int STAGES_, int WARPS_M_, int WARPS_N_>
struct TileShape {
  static constexpr int TILE_M = TILE_M_, TILE_N = TILE_N_, CHUNKS = CHUNKS_, STAGES = STAGES_;
  static constexpr int WARPS_M = WARPS_M_, WARPS_N = WARPS_N_;
  static constexpr int THREADS = 32 * WARPS_M * WARPS_N;
  static constexpr int WARP_M = TILE_M / WARPS_M, WARP_N = TILE_N / WARPS_N;
  static constexpr int A_BYTES = TILE_M * CHUNKS * 16, B_BYTES = TILE_N * CHUNKS * 16;
  static constexpr int STAGE_BYTES = A_BYTES + B_BYTES;
  static constexpr int SHARED_BYTES = STAGES * STAGE_BYTES;
  static constexpr int SLICE = 16 * WARP_N;  ///< sums that a warp passes on at once

  static_assert((WARP_M & (WARP_M - 1)) == 0 && (WARP_N & (WARP_N - 1)) == 0,
                "FragmentReader puts addresses together by bits");
  static_assert(CHUNKS % 4 == 0, "two sets of fragments, of two chunks each, take turns");
  static_assert(WARP_M % 16 == 0 && WARP_N % 16 == 0, "fragments have 16 rows");
  static_assert(SHARED_BYTES <= 99 * 1024, "a block of sm_86 and sm_89 gets 99 KiB");
  static_assert(WARPS_M * WARPS_N * SLICE * 4 <= SHARED_BYTES, "sums pass through the stages");
};

/// For enough tiles to fill the chip, for few, and for at most 16 rows: then the weights are all
/// that is read, and more blocks of more bytes in flight read them faster.
using LargeTiles = TileShape<256, 128, 4, 4, 4, 2>;
using SmallTiles = TileShape<64, 64, 4, 4, 2, 2>;
using FlatTiles = TileShape<16, 32, 8, 8, 1, 2>;

/// A warp's sums: 16 x 8 blocks, each spread over the lanes as mma has it.
template <typename Shape, typename LayoutA, typename LayoutB>
struct WarpTile {
  using T = typename LayoutA::Element;
  static constexpr int COUNT_M = Shape::WARP_M / 16, COUNT_N = Shape::WARP_N / 16;

  struct Fragments {
    unsigned a[COUNT_M][4], b[COUNT_N][4];
  };

  float sums[COUNT_M][2 * COUNT_N][4] = {};
  int m, n;  ///< the warp's first row and column in the tile
  FragmentReader<LayoutA, Side::a> reader_a;
  FragmentReader<LayoutB, Side::b> reader_b;

  __device__ __forceinline__ WarpTile()
      : m(threadIdx.x / 32 / Shape::WARPS_N * Shape::WARP_M),
        n(threadIdx.x / 32 % Shape::WARPS_N * Shape::WARP_N),
        reader_a(m),
        reader_b(n) {}

  /// The operands of the products of two chunks of K, from k on, in a stage.
  __device__ __forceinline__ void read(Fragments& fragments, unsigned stage, int k) const {
#pragma unroll
    for (int i = 0; i < COUNT_M; ++i) reader_a.read(fragments.a[i], stage, 16 * i, k);
#pragma unroll
    for (int j = 0; j < COUNT_N; ++j) {
      reader_b.read(fragments.b[j], stage + Shape::A_BYTES, 16 * j, k);
    }
  }

  __device__ __forceinline__ void multiply(const Fragments& fragments) {
#pragma unroll
    for (int i = 0; i < COUNT_M; ++i) {
#pragma unroll
      for (int j = 0; j < COUNT_N; ++j) {
        const auto& b = fragments.b[j];
        mma_sync<T>(sums[i][2 * j], fragments.a[i], b[0], b[1]);
        mma_sync<T>(sums[i][2 * j + 1], fragments.a[i], b[2], b[3]);
      }
    }
  }

  /// Where the sum (row, col) of a slice passes through shared memory: groups of 8 are exchanged
  /// within their row, so that the 4 rows that half a warp writes at once lie in different banks.
  __device__ __forceinline__ static int place(int row, int col) {
    return row * Shape::WARP_N + (col ^ (Shape::WARP_N < 32 ? row / 2 % 2 : row % 4) * 8);
  }

  /// Slices of 16 rows, through the warp's own part of shared memory: neighbouring lanes then store
  /// neighbouring runs, and the epilogue's code stands there once a slice, not once a sum.
  __device__ __forceinline__ void store(const Block<T>& block, float* shared) const {
    const int lane = threadIdx.x % 32;
    float* const slice = shared + threadIdx.x / 32 * Shape::SLICE;
#pragma unroll
    for (int i = 0; i < COUNT_M; ++i) {
#pragma unroll
      for (int j = 0; j < 2 * COUNT_N; ++j) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const Vector<float, 2> pair{{sums[i][j][2 * half], sums[i][j][2 * half + 1]}};
          store_vector<2>(slice + place(lane / 4 + 8 * half, lane % 4 * 2 + 8 * j), pair);
        }
      }
      __syncwarp();
      constexpr int RUN = 4, RUNS = Shape::WARP_N / RUN;  // a row
#pragma unroll 1
      for (int run = lane; run < 16 * RUNS; run += 32) {
        const int row = run / RUNS, col = run % RUNS * RUN;
        const auto values = load_vector<RUN>(slice + place(row, col));
        block.epilogue.store(block.row0 + m + 16 * i + row, block.col0 + n + col, values.lane);
      }
      __syncwarp();
    }
  }
};

template <typename T, typename Shape, bool A_ALONG_K, bool B_ALONG_K>
__global__ void __launch_bounds__(launch_bound(TARGET_HAS_SM80, Shape::THREADS),
                                  256 / Shape::THREADS)
    tensor_core_kernel(const __grid_constant__ Problem problem) {
#if __CUDA_ARCH__ >= 800
  constexpr int PRODUCTS = 2 * CHUNK<T>, DEPTH = Shape::CHUNKS * CHUNK<T>;  // along K
  using LayoutA = TileLayout<T, A_ALONG_K, Shape::TILE_M, DEPTH>;
  using LayoutB = TileLayout<T, B_ALONG_K, Shape::TILE_N, DEPTH>;
  unsigned char* const shared = dynamic_shared<unsigned char>();
  const Block<T> block(problem, Shape::TILE_M, Shape::TILE_N);
  TileLoader<LayoutA, Shape::THREADS> load_a(block.A, block.row0);
  TileLoader<LayoutB, Shape::THREADS> load_b(block.B.transposed(), block.col0);

  int64_t steps_to_load = (problem.K + DEPTH - 1) / DEPTH;
  int64_t steps = steps_to_load;
  const auto next = [](int stage) { return stage + 1 == Shape::STAGES ? 0 : stage + 1; };
  int filled = 0;  // the stage to fill next
  const auto start_next = [&] {
    if (steps_to_load > 0) {
      unsigned char* const stage = shared + filled * Shape::STAGE_BYTES;
      load_a.next(reinterpret_cast<T*>(stage));
      load_b.next(reinterpret_cast<T*>(stage + Shape::A_BYTES));
      --steps_to_load;
      filled = next(filled);
    }
    cp_async_commit();  // an empty group, too: what waits counts groups
  };
  // After it, the oldest stage on its way has landed for all threads.
  const auto await_stage = [] {
    cp_async_wait<Shape::STAGES - 2>();
    __syncthreads();
  };

  WarpTile<Shape, LayoutA, LayoutB> tile;
  typename decltype(tile)::Fragments fragments[2];
#pragma unroll 1
  for (int stage = 0; stage < Shape::STAGES - 1; ++stage) start_next();
  await_stage();
  const auto stages = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  int used = 0;
  tile.read(fragments[0], stages, 0);
  for (; steps > 0; --steps) {
    start_next();  // into the stage of the step before, which all have read
#pragma unroll
    for (int k = 0; k < DEPTH; k += PRODUCTS) {
      const bool last = k + PRODUCTS == DEPTH;
      if (last) {
        await_stage();
        used = next(used);
      }
      // The next fragments come while the products of these are made.
      const int turn = k / PRODUCTS % 2;
      tile.read(fragments[1 - turn], stages + used * Shape::STAGE_BYTES, last ? 0 : k + PRODUCTS);
      tile.multiply(fragments[turn]);
    }
  }
  __syncthreads();
  tile.store(block, reinterpret_cast<float*>(shared));
#endif
}

/// The kernel that reads both operands in the direction in which their elements are neighbours.
template <typename T, typename Shape>
auto* kernel_for(const Problem& problem) {
  const bool a_along_k = problem.a.col_stride == 1 || problem.a.row_stride != 1;
  const bool b_along_k = problem.b.row_stride == 1 || problem.b.col_stride != 1;
  return a_along_k   ? b_along_k ? tensor_core_kernel<T, Shape, true, true>
                                 : tensor_core_kernel<T, Shape, true, false>
         : b_along_k ? tensor_core_kernel<T, Shape, false, true>
                     : tensor_core_kernel<T, Shape, false, false>;
}

template <typename T, typename Shape>
void launch_tiles(const Problem& problem, const Device& device) {
  launch("tensor_core", kernel_for<T, Shape>(problem),
         cover(problem, Shape::TILE_M, Shape::TILE_N, {Shape::THREADS}, Shape::SHARED_BYTES),
         device, problem);
}

template <typename T>
void launch_tensor_core(const Problem& problem, const Device& device) {
  const int64_t large_tiles =
      cover(problem, LargeTiles::TILE_M, LargeTiles::TILE_N, {LargeTiles::THREADS}).blocks;
  if (problem.M <= FlatTiles::TILE_M) {
    launch_tiles<T, FlatTiles>(problem, device);
  } else if (2 * problem.M <= LargeTiles::TILE_M || large_tiles < device.sm_count) {
    launch_tiles<T, SmallTiles>(problem, device);
  } else {
    launch_tiles<T, LargeTiles>(problem, device);
  }
}

/// That of the largest tile, for operands that lie along K.
template <typename T>
const void* tensor_core_function() {
  return reinterpret_cast<const void*>(tensor_core_kernel<T, LargeTiles, true, true>);
}

#endif

}  // namespace SMEM_BUILD
}  // namespace smem::gemm
