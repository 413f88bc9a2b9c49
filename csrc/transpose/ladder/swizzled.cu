// swizzled: free of bank conflicts without a spare column, so that rows stay 16-byte vectors.
//
// Over padded: pitch 33 leaves no row but the first aligned, so that padded moves single elements.
// Here each access to global memory, and each store to the tile, moves 16 bytes: for float a
// quarter of padded's requests. A row of the tile is 128 bytes, 8 vectors in the 32 banks. A
// column of vectors would lie in 4 banks; but row r keeps its vector v at place v ^ (r / W), with
// W elements a vector. A thread collects W elements of a column for its 16 bytes of the turned
// tile: at each step the lanes of a warp look at 8 rows that lie W apart, whose XORs differ, so
// that they meet all 8 places, and at 4 neighbours in each: 32 words in 32 banks.
#include "device/vector.h"
#include "transpose/block.h"

namespace smem::transpose {
inline namespace SMEM_BUILD {

/// Vectors in a row of the tile: 128 bytes, one word of each bank.
constexpr int PLACES = 8;

/// The tile is a square, and each thread has one vector of it.
template <typename T>
constexpr int SWIZZLED_SIDE = PLACES * VECTOR_WIDTH<T>;
template <typename T>
constexpr int SWIZZLED_THREADS = PLACES * SWIZZLED_SIDE<T>;

template <typename T>
__global__ void __launch_bounds__(SWIZZLED_THREADS<T>)
    swizzled_kernel(const __grid_constant__ Problem problem) {
  constexpr int SIDE = SWIZZLED_SIDE<T>, W = VECTOR_WIDTH<T>;
  __shared__ Tile<T, SIDE, SIDE> tile;
  const Block<T> block(problem, SIDE, SIDE);
  const int place = threadIdx.x % PLACES, line = threadIdx.x / PLACES;

  const auto in = row_run<W>(block.in, block.row0 + line, block.col0 + place * W,
                             rows_are_vectors<W>(block.in));
  store_vector<W>(tile.at(line, (place ^ line / W) * W), in);
  __syncthreads();
  Vector<T, W> turned{};
#pragma unroll
  for (int i = 0; i < W; ++i) {
    turned.lane[i] = tile(place * W + i, (line / W ^ place) * W + line % W);
  }
  store_row_run<W>(block.out, block.col0 + line, block.row0 + place * W, turned,
                   rows_are_vectors<W>(block.out));
}

struct Swizzled {
  static constexpr const char* NAME = "swizzled";
  template <typename T>
  static constexpr auto kernel() {
    return swizzled_kernel<T>;
  }
  template <typename T>
  static void run(const Problem& problem, const Device& device) {
    constexpr int SIDE = SWIZZLED_SIDE<T>;
    launch(NAME, kernel<T>(), cover(problem, SIDE, SIDE, {SWIZZLED_THREADS<T>}), device, problem);
  }
};

const Kernel swizzled = make_kernel<Swizzled>(
    "vectors at places XORed with the row: no spare column, 16-byte accesses");

}  // namespace SMEM_BUILD
}  // namespace smem::transpose
