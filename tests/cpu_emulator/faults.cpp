// Kernels with one fault each, and their twins without it: `kernel<true>` is faulty.
//
// A comment `FAULT: name` marks the line where kernel `name` must be found at fault.
#include <stdexcept>

#include "cpu_emulator/report.h"
#include "device/cp_async.h"
#include "device/launch.h"
#include "device/tile.h"
#include "device/vector.h"

namespace smem::test {
namespace {

constexpr unsigned ALL_LANES = 0xffffffffu, LOW_HALF = 0xffffu, HIGH_HALF = 0xffff0000u;
constexpr int COLS = 1024;

struct Arrays {
  Matrix<const float> in;
  Matrix<float> out;
};

/// A warp's row of shared memory.
using Row = Tile<float, 1, 32>;

// ------------------------------------------------------------------------------ wrong addresses

template <bool FAULTY>
__global__ void shared_out_of_bounds(const __grid_constant__ Arrays) {
  __shared__ Row row;
  const int t = threadIdx.x;
  row(0, FAULTY ? t + 1 : t) = 1.0f;  // FAULT: shared_out_of_bounds
}

/// One tile's end is another's begin: the address alone is not at fault.
template <bool FAULTY>
__global__ void shared_next_row(const __grid_constant__ Arrays) {
  __shared__ Tile<float, 2, 32> tile;
  const int t = threadIdx.x;
  tile(0, FAULTY ? t + 1 : t) = 1.0f;  // FAULT: shared_next_row
}

template <bool FAULTY>
__global__ void dynamic_shared_out_of_bounds(const __grid_constant__ Arrays) {
  const Panel<float> panel{dynamic_shared<float>(), FAULTY ? 9 : 8, 32};
  panel(FAULTY ? 8 : 7, threadIdx.x) = 1.0f;  // FAULT: dynamic_shared_out_of_bounds
}

/// The last block's tail is outside of the view, though inside of the tensor's memory.
template <bool FAULTY>
__global__ void global_view(const __grid_constant__ Arrays arrays) {
  const int64_t col = blockIdx.x * blockDim.x + threadIdx.x;
  Matrix<float> out = arrays.out;
  out.cols = 3 * 32 - 1;
  if (!FAULTY && col >= out.cols) return;
  out(0, col) = 1.0f;  // FAULT: global_view
}

template <bool FAULTY>
__global__ void global_address(const __grid_constant__ Arrays arrays) {
  const float* end = arrays.in.data + arrays.in.rows * arrays.in.row_stride;
  const float x = load(end - 32 + threadIdx.x + (FAULTY ? 1 : 0));  // FAULT: global_address
  arrays.out(0, threadIdx.x) = x;
}

/// The block's place in a grid of three dimensions.
template <bool FAULTY>
void one_block_of_a_cube(const Arrays& arrays) {
  const auto kernel = [&] {
    const bool here = blockIdx.x == 1 && blockIdx.y == 2 && blockIdx.z == 1;
    arrays.out(FAULTY && here ? -1 : 0, threadIdx.x) = 1.0f;  // FAULT: one_block_of_a_cube
  };
  cpu_emulator::trace::run("cube", {2, 3, 2}, {32}, 0, kernel);
}

template <bool FAULTY>
__global__ void misaligned_global(const __grid_constant__ Arrays arrays) {
  const int col = 4 * threadIdx.x;
  const auto x =
      load_vector<4>(arrays.in.at(0, FAULTY ? col + 1 : col));  // FAULT: misaligned_global
  store_vector<4>(arrays.out.at(0, col), x);
}

template <bool FAULTY>
__global__ void misaligned_shared(const __grid_constant__ Arrays arrays) {
  __shared__ Tile<float, 1, 132> tile;
  const int col = 4 * threadIdx.x;
  const auto x = load_vector<4>(arrays.in.at(0, col));
  store_vector<4>(tile.at(0, FAULTY ? col + 2 : col), x);  // FAULT: misaligned_shared
}

/// cp.async needs 16-byte addresses however few of the 16 bytes it reads.
template <bool FAULTY>
__global__ void misaligned_copy(const __grid_constant__ Arrays arrays) {
  __shared__ Tile<float, 1, 128> tile;
  const int col = 4 * threadIdx.x, inside = threadIdx.x % 5;
  const float* from = arrays.in.at(0, FAULTY ? col + 1 : col);
  cp_async<4>(tile.at(0, col), from, inside);  // FAULT: misaligned_copy
  cp_async_wait_all();
}

// --------------------------------------------------------------------- values that are not there

template <bool FAULTY>
__global__ void uninitialised(const __grid_constant__ Arrays arrays) {
  __shared__ Row row;
  const int t = threadIdx.x;
  if (!FAULTY || t != 7) row(0, t) = 1.0f;
  __syncthreads();
  arrays.out(blockIdx.x, t) = row(0, t);  // FAULT: uninitialised
}

template <bool FAULTY>
__global__ void copy_without_wait(const __grid_constant__ Arrays arrays) {
  __shared__ Tile<float, 1, 128> tile;
  const int t = threadIdx.x;
  cp_async<4>(tile.at(0, 4 * t), arrays.in.at(0, 4 * t), 4);
  if (!FAULTY) cp_async_wait_all();
  __syncthreads();
  arrays.out(0, t) = tile(0, 127 - t);  // FAULT: copy_without_wait
}

/// The newest group is still on its way.
template <bool FAULTY>
__global__ void copy_of_the_wrong_group(const __grid_constant__ Arrays arrays) {
  __shared__ Tile<float, 2, 32> tile;
  const int t = threadIdx.x;
  for (int stage = 0; stage < 2; ++stage) {
    cp_async<1>(tile.at(stage, t), arrays.in.at(stage, t), 1);
    cp_async_commit();
  }
  cp_async_wait<1>();
  __syncthreads();
  arrays.out(0, t) = tile(FAULTY ? 1 : 0, t);  // FAULT: copy_of_the_wrong_group
}

template <bool FAULTY>
__global__ void copy_without_barrier(const __grid_constant__ Arrays arrays) {
  __shared__ Tile<float, 1, 64> tile;
  const int t = threadIdx.x;
  cp_async<1>(tile.at(0, t), arrays.in.at(0, t), 1);
  cp_async_wait_all();
  if (!FAULTY) __syncthreads();
  arrays.out(0, t) = tile(0, t < 32 ? t : t - 32);  // FAULT: copy_without_barrier
}

template <bool FAULTY>
__global__ void overwritten_copy(const __grid_constant__ Arrays arrays) {
  __shared__ Row row;
  const int t = threadIdx.x;
  cp_async<1>(row.at(0, t), arrays.in.at(0, t), 1);
  if (!FAULTY) cp_async_wait_all();
  row(0, t) = 0.0f;  // FAULT: overwritten_copy
}

// ---------------------------------------------------------------------------------------- races

/// Each lane reads what the lane below it stored.
template <bool FAULTY>
__global__ void race_in_warp(const __grid_constant__ Arrays arrays) {
  __shared__ Row row;
  const int t = threadIdx.x;
  row(0, t) = 1.0f;
  if (!FAULTY) __syncwarp();
  if (t > 0) arrays.out(0, t) = row(0, t - 1);  // FAULT: race_in_warp
}

/// A shuffle orders registers, not memory.
template <bool FAULTY>
__global__ void race_across_shuffle(const __grid_constant__ Arrays arrays) {
  __shared__ Row row;
  const int t = threadIdx.x;
  row(0, t) = 1.0f;
  const float x = __shfl_sync(ALL_LANES, 1.0f, t);
  if (!FAULTY) __syncwarp();
  if (t > 0) arrays.out(0, t) = x + row(0, t - 1);  // FAULT: race_across_shuffle
}

/// Only lanes that name each other are ordered.
template <bool FAULTY>
__global__ void race_between_masks(const __grid_constant__ Arrays arrays) {
  __shared__ Row row;
  const int t = threadIdx.x;
  row(0, t) = 1.0f;
  __syncwarp(!FAULTY ? ALL_LANES : t < 16 ? LOW_HALF : HIGH_HALF);
  if (t > 0) arrays.out(0, t) = row(0, t - 1);  // FAULT: race_between_masks
}

template <bool FAULTY>
__global__ void race_between_warps(const __grid_constant__ Arrays arrays) {
  __shared__ Row row;
  const int t = threadIdx.x;
  if (t < 32) row(0, t) = 1.0f;
  __syncwarp();
  if (!FAULTY) __syncthreads();
  if (t >= 32) arrays.out(0, t) = row(0, t - 32);  // FAULT: race_between_warps
}

/// Read by both warps, then overwritten by one, which has only waited for itself.
template <bool FAULTY>
__global__ void race_with_early_reader(const __grid_constant__ Arrays arrays) {
  __shared__ Row row;
  const int t = threadIdx.x;
  if (t < 32) row(0, t) = 1.0f;
  __syncthreads();
  arrays.out(0, t) = row(0, 3) + row(0, 3);
  __syncwarp();
  if (!FAULTY) __syncthreads();
  if (t == 32) row(0, 3) = 2.0f;  // FAULT: race_with_early_reader
}

template <bool FAULTY>
__global__ void race_of_two_stores(const __grid_constant__ Arrays) {
  __shared__ Tile<float, 1, 64> tile;
  const int t = threadIdx.x;
  tile(0, FAULTY ? t % 32 : t) = 1.0f;  // FAULT: race_of_two_stores
}

// ------------------------------------------------------------------------- barriers and shuffles

template <bool FAULTY>
__global__ void early_return(const __grid_constant__ Arrays) {
  if (FAULTY && threadIdx.x >= 576) return;
  __syncthreads();  // FAULT: early_return
}

template <bool FAULTY>
__global__ void barrier_in_if(const __grid_constant__ Arrays) {
  if (!FAULTY || threadIdx.x % 2 == 0) {
    __syncthreads();  // FAULT: barrier_in_if
  }
}

template <bool FAULTY>
__global__ void two_barriers(const __grid_constant__ Arrays) {
  if (FAULTY && threadIdx.x < 32) {
    __syncthreads();  // FAULT: two_barriers
  } else {
    __syncthreads();
  }
}

template <bool FAULTY>
__global__ void shuffle_with_ended_lanes(const __grid_constant__ Arrays arrays) {
  const int t = threadIdx.x;
  if (FAULTY && t >= 24) return;
  arrays.out(0, t) = __shfl_down_sync(ALL_LANES, 1.0f, 4);  // FAULT: shuffle_with_ended_lanes
}

template <bool FAULTY>
__global__ void shuffle_from_outside_mask(const __grid_constant__ Arrays arrays) {
  const int t = threadIdx.x;
  if (t >= 16) return;
  const int source = FAULTY && t == 5 ? 20 : 3;
  arrays.out(0, t) = __shfl_sync(LOW_HALF, 1.0f, source);  // FAULT: shuffle_from_outside_mask
}

template <bool FAULTY>
__global__ void lane_outside_its_mask(const __grid_constant__ Arrays) {
  __syncwarp(FAULTY ? ~(1u << 9) : ALL_LANES);  // FAULT: lane_outside_its_mask
}

template <bool FAULTY>
__global__ void different_masks(const __grid_constant__ Arrays) {
  const unsigned mask = FAULTY && threadIdx.x == 4 ? LOW_HALF : ALL_LANES;
  __syncwarp(mask);  // FAULT: different_masks
}

template <bool FAULTY>
__global__ void deadlock(const __grid_constant__ Arrays arrays) {
  const int t = threadIdx.x;
  float x = 1;
  if (!FAULTY || t < 20) {
    x = __shfl_sync(ALL_LANES, x, 0);
  }
  __syncthreads();  // FAULT: deadlock
  arrays.out(0, t) = x;
}

template <bool FAULTY>
__global__ void exception(const __grid_constant__ Arrays) {
  if (FAULTY && threadIdx.x == 3) throw std::runtime_error("planted");
  __syncthreads();
}

// ------------------------------------------------------------------- right, though it looks wrong

/// Each half of a warp shuffles on its own before all lanes meet.
__global__ void halves_of_a_warp(const __grid_constant__ Arrays arrays) {
  __shared__ Row row;
  const int t = threadIdx.x;
  float x = 1;
  if (t < 16) {
    for (int offset = 8; offset > 0; offset /= 2) x += __shfl_xor_sync(LOW_HALF, x, offset);
  } else if (t < 24) {
    x = __shfl_sync(0xff0000u, x, 20);
  }
  row(0, t) = x;
  __syncwarp();
  arrays.out(0, t) = row(0, 31 - t);
}

/// Dynamic shared memory that holds doubles first, floats behind them.
__global__ void two_types_in_dynamic_shared(const __grid_constant__ Arrays arrays) {
  const int t = threadIdx.x;
  const Panel<double> doubles{dynamic_shared<double>(), 1, 32};
  const Panel<float> floats{dynamic_shared<float>() + 64, 1, 32};
  doubles(0, t) = 1.0;
  floats(0, t) = 2.0f;
  arrays.out(0, t) = static_cast<float>(doubles(0, t).value()) + floats(0, t);
}

/// A barrier between any two blocks' uses of the same memory is not needed: they do not share it.
__global__ void every_block_its_own(const __grid_constant__ Arrays arrays) {
  __shared__ Row row;
  const int t = threadIdx.x;
  if (t == static_cast<int>(blockIdx.x)) row(0, 0) = 1.0f;
  __syncthreads();
  arrays.out(blockIdx.x % 2, t) = row(0, 0);
}

/// Whole warps may return before the others shuffle, and after the last barrier.
__global__ void warps_that_return(const __grid_constant__ Arrays arrays) {
  const int t = threadIdx.x;
  __syncthreads();
  if (t >= 32) return;
  arrays.out(0, t) = __shfl_down_sync(ALL_LANES, 1.0f, 1);
}

// ------------------------------------------------------------------------------------------ table

using Kernel = void (*)(Arrays);

template <typename Launch>
std::function<void()> on_arrays(const Launch& launch) {
  return [launch] {
    Buffer<float> in("in", 2 * COLS), out("out", 2 * COLS);
    launch(Arrays{{in.data(), 2, COLS, COLS, 1}, {out.data(), 2, COLS, COLS, 1}});
  };
}

std::function<void()> launch_of(Kernel kernel, unsigned blocks, unsigned threads) {
  return on_arrays([=](const Arrays& arrays) {
    const Geometry geometry{blocks, {threads}, 8 * 32 * sizeof(float)};
    smem::launch("kernel", kernel, geometry, HOST_DEVICE, arrays);
  });
}

}  // namespace

std::vector<Case> cases() {
  std::vector<Case> all;
  const auto pair = [&](const std::string& name, Kernel faulty, Kernel sound, unsigned blocks,
                        unsigned threads) {
    all.push_back({name + "/faulty", launch_of(faulty, blocks, threads)});
    all.push_back({name + "/sound", launch_of(sound, blocks, threads)});
  };
#define PAIR(kernel, blocks, threads) pair(#kernel, kernel<true>, kernel<false>, blocks, threads)
  PAIR(shared_out_of_bounds, 1, 32);
  PAIR(shared_next_row, 1, 32);
  PAIR(dynamic_shared_out_of_bounds, 1, 32);
  PAIR(global_view, 3, 32);
  PAIR(global_address, 1, 32);
  PAIR(misaligned_global, 1, 32);
  PAIR(misaligned_shared, 1, 32);
  PAIR(misaligned_copy, 1, 32);
  PAIR(uninitialised, 2, 32);
  PAIR(copy_without_wait, 1, 32);
  PAIR(copy_of_the_wrong_group, 1, 32);
  PAIR(copy_without_barrier, 1, 64);
  PAIR(overwritten_copy, 1, 32);
  PAIR(race_in_warp, 1, 32);
  PAIR(race_across_shuffle, 1, 32);
  PAIR(race_between_masks, 1, 32);
  PAIR(race_between_warps, 1, 64);
  PAIR(race_with_early_reader, 1, 64);
  PAIR(race_of_two_stores, 1, 64);
  PAIR(early_return, 1, 1024);
  PAIR(barrier_in_if, 1, 32);
  PAIR(two_barriers, 1, 64);
  PAIR(shuffle_with_ended_lanes, 1, 32);
  PAIR(shuffle_from_outside_mask, 1, 32);
  PAIR(lane_outside_its_mask, 1, 32);
  PAIR(different_masks, 1, 32);
  PAIR(deadlock, 1, 32);
  PAIR(exception, 1, 32);
#undef PAIR
  all.push_back({"one_block_of_a_cube/faulty", on_arrays(one_block_of_a_cube<true>)});
  all.push_back({"one_block_of_a_cube/sound", on_arrays(one_block_of_a_cube<false>)});
  all.push_back({"halves_of_a_warp", launch_of(halves_of_a_warp, 1, 32)});
  all.push_back({"two_types_in_dynamic_shared", launch_of(two_types_in_dynamic_shared, 1, 32)});
  all.push_back({"every_block_its_own", launch_of(every_block_its_own, 32, 32)});
  all.push_back({"warps_that_return", launch_of(warps_that_return, 1, 96)});
  return all;
}

}  // namespace smem::test
