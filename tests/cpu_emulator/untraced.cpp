// What the untraced runtime does, for Python to compare with what CUDA says: prints JSON.
#include <atomic>
#include <cstdio>
#include <string>
#include <vector>

#include "bindings/json.h"
#include "cpu_emulator/cpu_emulator.h"
#include "device/cp_async.h"
#include "device/tile.h"

namespace smem::test {
namespace {

using bindings::json;
using bindings::json_array;
using bindings::json_object;

template <typename Numbers>
std::string numbers(const Numbers& values) {
  std::vector<std::string> items;
  for (const auto& value : values) items.push_back(json(static_cast<int64_t>(value)));
  return json_array(items);
}

template <typename Kernel>
void run(dim3 grid, dim3 threads, const Kernel& kernel) {
  Kernel copy = kernel;
  cpu_emulator::run(grid, threads, 0, [](void* it) { (*static_cast<Kernel*>(it))(); }, &copy);
}

// ------------------------------------------------------------------------------------- shuffles

enum Kind { IDX, UP, DOWN, XOR };
constexpr const char* KINDS[] = {"idx", "up", "down", "xor"};

int shuffle(Kind kind, unsigned mask, int value, int by, int width) {
  switch (kind) {
    case IDX:
      return __shfl_sync(mask, value, by, width);
    case UP:
      return __shfl_up_sync(mask, value, static_cast<unsigned>(by), width);
    case DOWN:
      return __shfl_down_sync(mask, value, static_cast<unsigned>(by), width);
    default:
      return __shfl_xor_sync(mask, value, by, width);
  }
}

/// Lane l gives 100 + l. Lanes outside the mask shuffle among themselves at the same time.
std::string shuffle_json(Kind kind, unsigned mask, int width, int by) {
  int taken[32];
  run({1}, {32}, [&] {
    const int lane = threadIdx.x;
    const unsigned group = mask >> lane & 1 ? mask : ~mask;
    taken[lane] = shuffle(kind, group, 100 + lane, by, width);
  });
  return json_object({{"kind", json(KINDS[kind])},
                      {"mask", json(int64_t{mask})},
                      {"width", json(int64_t{width})},
                      {"by", json(int64_t{by})},
                      {"taken", numbers(taken)}});
}

std::string shuffles() {
  std::vector<std::string> all;
  for (const Kind kind : {IDX, UP, DOWN, XOR}) {
    for (const unsigned mask : {0xffffffffu, 0x0000ffffu, 0x55555555u, 0x000ff0f1u}) {
      for (const int width : {32, 16, 8}) {
        for (const int by : {0, 1, 3, 8, 17, 31}) {
          all.push_back(shuffle_json(kind, mask, width, by));
        }
      }
    }
  }
  return json_array(all);
}

/// Every size that a shuffle can move, and all its bits.
template <typename T>
bool moves_whole(T low, T high) {
  bool right = true;
  run({1}, {32}, [&] {
    const T own = threadIdx.x % 2 ? high : low, other = threadIdx.x % 2 ? low : high;
    if (__shfl_xor_sync(0xffffffffu, own, 1) != other) right = false;
  });
  return right;
}

std::string sizes() {
  return numbers(std::vector<bool>{
      moves_whole<uint8_t>(1, 0xfe), moves_whole<int16_t>(-2, 3), moves_whole<float>(1.5f, -2.25f),
      moves_whole<double>(1.0 / 3, -1e300), moves_whole<int64_t>(INT64_MIN + 1, INT64_MAX)});
}

/// Three groups of lanes shuffle, each a different number of times, before all lanes meet.
std::string groups() {
  int taken[32];
  run({1}, {32}, [&] {
    const int lane = threadIdx.x, group = lane % 3;
    const unsigned every_third = 0x49249249u, mask = every_third << group;
    int sum = lane;
    for (int round = 0; round <= group; ++round) sum += __shfl_sync(mask, sum, group + 3 * round);
    taken[lane] = __shfl_sync(0xffffffffu, sum, 31 - lane);
  });
  return numbers(taken);
}

// ------------------------------------------------------------------------------------- cp.async

/// Four copies of 16 bytes, the last of 8; what the thread sees in shared memory at each step.
std::string copies() {
  float from[4][4];
  for (int i = 0; i < 16; ++i) from[i / 4][i % 4] = static_cast<float>(1 + i);
  std::vector<std::string> seen;
  run({1}, {1}, [&] {
    __shared__ Tile<float, 4, 4> tile;
    const auto look = [&] { seen.push_back(numbers(tile.data)); };
    for (float& element : tile.data) element = -1;
    for (int group = 0; group < 3; ++group) {
      cp_async<4>(tile.at(group, 0), from[group], 4);
      cp_async_commit();
    }
    cp_async<4>(tile.at(3, 0), from[3], 2);
    look();
    cp_async_wait<3>();
    look();
    cp_async_wait<2>();
    look();
    cp_async_wait<1>();
    look();
    cp_async_wait<0>();
    look();
    cp_async_wait_all();
    look();
  });
  return json_array(seen);
}

// ---------------------------------------------------------------------------------------- grids

/// How often each thread of each block ran, and whether all saw the launch's sizes.
std::string grid_json(dim3 grid, dim3 threads) {
  const auto count = [](dim3 size) { return size.x * size.y * size.z; };
  const auto same = [](dim3 a, dim3 b) { return a.x == b.x && a.y == b.y && a.z == b.z; };
  std::vector<std::atomic<int>> runs(count(grid) * count(threads));
  std::atomic<bool> sizes_right = true;
  run(grid, threads, [&] {
    if (!same(gridDim, grid) || !same(blockDim, threads)) sizes_right = false;
    const unsigned block = (blockIdx.z * grid.y + blockIdx.y) * grid.x + blockIdx.x;
    const unsigned thread = (threadIdx.z * threads.y + threadIdx.y) * threads.x + threadIdx.x;
    ++runs.at(block * count(threads) + thread);
    __syncthreads();
  });
  return json_object({{"runs", numbers(runs)}, {"sizes_right", json(int64_t{sizes_right.load()})}});
}

std::string grids() {
  return json_array({grid_json({5, 3}, {8, 4}), grid_json({3, 2, 4}, {4, 2, 5}),
                     grid_json({1, 1, 7}, {1, 1, 33}), grid_json({70000}, {1})});
}

// --------------------------------------------------------------------------------------- errors

template <typename Kernel>
std::string error_of(dim3 grid, dim3 threads, const Kernel& kernel) {
  try {
    run(grid, threads, kernel);
  } catch (const std::exception& error) {
    return json(error.what());
  }
  return json("");
}

/// A warp ends, half of another waits at a barrier, the rest at a shuffle that all should reach.
std::string deadlock() {
  return error_of({1}, {64}, [] {
    if (threadIdx.x >= 32) return;
    if (threadIdx.x < 12) {
      __syncthreads();
    } else {
      __shfl_sync(0xffffffffu, 1, 0);
    }
  });
}

std::string warp_deadlock() {
  return error_of({2, 3}, {32}, [] {
    if (threadIdx.x == 0) {
      __syncthreads();
    } else {
      __syncwarp();
    }
  });
}

std::string exception() {
  return error_of({4}, {64}, [] {
    if (blockIdx.x == 2 && threadIdx.x == 40) throw std::runtime_error("thrown in a fiber");
    __syncthreads();
  });
}

/// The processor refuses what one thread does (cpu_emulator/traps.h).
std::string trap() {
#ifdef __x86_64__
  return error_of({4}, {64}, [] {
    volatile int* volatile nowhere = nullptr;
    if (blockIdx.x == 2 && threadIdx.x == 40) *nowhere = 1;
    __syncthreads();
  });
#else
  return json("");
#endif
}

}  // namespace
}  // namespace smem::test

int main() {
  using namespace smem::test;
  std::puts(json_object({{"shuffles", shuffles()},
                         {"sizes", sizes()},
                         {"groups", groups()},
                         {"copies", copies()},
                         {"grids", grids()},
                         {"deadlock", deadlock()},
                         {"warp_deadlock", warp_deadlock()},
                         {"exception", exception()},
                         {"trap", trap()},
                         {"after_errors", moves_whole<int>(1, 2) ? "1" : "0"}})
                .c_str());
}
