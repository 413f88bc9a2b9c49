// Products of 64 x 64 x 64 whose operands TMA loads and wgmma reads in every layout: with each
// swizzle and without, K-major and MN-major. Prints JSON: how many elements are wrong, by the bytes
// of a row and the majors.
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "bindings/json.h"
#include "device/launch.h"
#include "device/tile.h"
#include "device/tma.h"
#include "device/warpgroup.h"
#include "device/wgmma.h"

namespace smem::test {
inline namespace SMEM_BUILD {

constexpr int SIZE = 64, ELEMENT = 2, K16_BYTES = 16 * ELEMENT;
constexpr uint32_t TILE_BYTES = SIZE * SIZE * ELEMENT;

struct Params {
  CUtensorMap a, b;
  uint32_t width;  ///< bytes of a box's rows
  float* out;
};

/// An operand in boxes of `width` bytes by SIZE rows, which follow each other.
template <Major MAJOR>
struct Operand {
  uint32_t tile, width;

  __device__ uint32_t box_bytes() const { return SIZE * width; }

  __device__ void load(unsigned char* to, const CUtensorMap& map, Barrier& full) const {
    const int step = static_cast<int>(width) / ELEMENT;
    for (int i = 0; i < SIZE / step; ++i)
      tma_load(to + i * box_bytes(), map, {i * step, 0, 0}, full);
  }
  /// PTX ISA, "Matrix Descriptor Format" and "Strides" of wgmma.
  __device__ uint64_t descriptor(int k) const {
    const uint64_t layout = width == 16 ? 0 : width == 128 ? 1 : width == 64 ? 2 : 3;
    const uint32_t eight_rows = 8 * width;
    uint32_t start = tile, leading = box_bytes(), stride = eight_rows;
    if (MAJOR == Major::K) {
      const uint32_t byte = k * ELEMENT;
      start += byte / width * box_bytes() + byte % width;
    } else {
      start += k * width;
      if (width == 16) {
        leading = eight_rows;
        stride = box_bytes();
      }
    }
    const auto units = [](uint32_t bytes) { return uint64_t{descriptor_units(bytes)}; };
    return units(start & 0x3ffff) | units(leading) << 16 | units(stride) << 32 | layout << 62;
  }
};

template <Major A_MAJOR, Major B_MAJOR>
__global__ void multiply(Params params) {
  auto* tiles = dynamic_shared<unsigned char>();
  tiles += -shared_address(tiles) & (ATOM_ROWS * 128 - 1);
  auto& full = *reinterpret_cast<Barrier*>(tiles + 2 * TILE_BYTES);
  const Operand<A_MAJOR> a{shared_address(tiles), params.width};
  const Operand<B_MAJOR> b{shared_address(tiles + TILE_BYTES), params.width};
  if (threadIdx.x == 0) {
    full.init(1);
    fence_barrier_init();
    full.arrive_and_expect_tx(2 * TILE_BYTES);
    a.load(tiles, params.a, full);
    b.load(tiles + TILE_BYTES, params.b, full);
  }
  __syncthreads();
  full.wait(0);
  float accum[SIZE / 2];
  warpgroup_arrive();
  for (int k = 0; k < SIZE; k += 16) {
    wgmma<bfloat16, A_MAJOR, B_MAJOR, SIZE>(accum, a.descriptor(k), b.descriptor(k), k > 0);
  }
  warpgroup_commit_batch();
  warpgroup_wait<0>();
  for (int i = 0; i < SIZE / 2; ++i) {
    const int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4 + (i & 2) * 4;
    params.out[row * SIZE + i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2] = accum[i];
  }
}

struct Widths {
  const void *a, *b;  ///< 64 x 16 and 256 x 16 elements of 2 bytes
  float* out;         ///< 64 x n of each width, one after the other
};
constexpr int MOST_N = 256, STEP_N = 8;

/// A in registers, in all widths that PTX has. device/wgmma.h has neither: no kernel uses them.
template <typename T>
__global__ void multiply_from_registers(Widths params) {
  auto* tile = dynamic_shared<unsigned char>();
  tile += -shared_address(tile) & (ATOM_ROWS * 128 - 1);
  const auto* const b = static_cast<const uint32_t*>(params.b);
  for (int i = threadIdx.x; i < MOST_N * 8; i += WARPGROUP) {
    const int row = i / 8, word = i % 8;
    reinterpret_cast<uint32_t*>(tile)[row * 32 + (word ^ row % 8 * 4)] = b[i];
  }
  fence_view_async_shared();
  __syncthreads();
  const int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4, pair = threadIdx.x % 4;
  uint32_t fragment[4];
  for (int i = 0; i < 4; ++i) {
    fragment[i] = static_cast<const uint32_t*>(params.a)[(row + i % 2 * 8) * 8 + i / 2 * 4 + pair];
  }
  const uint64_t descriptor = tile_descriptor(descriptor_at(shared_address(tile)));
  float* out = params.out;
  for (int n = STEP_N; n <= MOST_N; n += STEP_N) {
    float accum[MOST_N / 2];
    warpgroup_arrive();
    smem_wgmma({FORMAT<T>, n, false, false}, accum, fragment, 0, descriptor, false);
    warpgroup_commit_batch();
    warpgroup_wait<0>();
    for (int i = 0; i < n / 2; ++i) {
      out[(row + (i & 2) * 4) * n + i / 4 * 8 + pair * 2 + i % 2] = accum[i];
    }
    out += SIZE * n;
  }
}

}  // namespace SMEM_BUILD

namespace {

template <typename T>
std::vector<T> numbers(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<T> values(count);
  for (T& x : values) x = T(static_cast<float>(static_cast<int>(random() % 9) - 4));
  return values;
}
using Numbers = std::vector<bfloat16>;

CUtensorMap map_of(Numbers& data, uint32_t width) {
  const cuuint64_t sizes[] = {SIZE, SIZE, 1}, strides[] = {SIZE * ELEMENT, TILE_BYTES};
  const cuuint32_t box[] = {width / ELEMENT, SIZE, 1}, steps[] = {1, 1, 1};
  const auto swizzle = width == 16   ? CU_TENSOR_MAP_SWIZZLE_NONE
                       : width == 32 ? CU_TENSOR_MAP_SWIZZLE_32B
                       : width == 64 ? CU_TENSOR_MAP_SWIZZLE_64B
                                     : CU_TENSOR_MAP_SWIZZLE_128B;
  CUtensorMap map;
  const CUresult result =
      cuTensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 3, data.data(), sizes, strides,
                             box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle,
                             CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) std::abort();
  return map;
}

template <Major A_MAJOR, Major B_MAJOR>
int64_t wrong(uint32_t width) {
  Numbers a = numbers<bfloat16>(SIZE * SIZE, 1), b = numbers<bfloat16>(SIZE * SIZE, 2);
  std::vector<float> out(SIZE * SIZE);
  const Params params{map_of(a, width), map_of(b, width), width, out.data()};
  launch("multiply", multiply<A_MAJOR, B_MAJOR>, {1, {WARPGROUP}, 2 * TILE_BYTES + 1024 + 64},
         HOST_DEVICE, params);
  const auto at = [](const Numbers& x, Major major, int mn, int k) {
    return static_cast<float>(
        x[static_cast<size_t>(major == Major::K ? mn * SIZE + k : k * SIZE + mn)]);
  };
  int64_t count = 0;
  for (int m = 0; m < SIZE; ++m) {
    for (int n = 0; n < SIZE; ++n) {
      float sum = 0;
      for (int k = 0; k < SIZE; ++k) sum += at(a, A_MAJOR, m, k) * at(b, B_MAJOR, n, k);
      count += out[static_cast<size_t>(m * SIZE + n)] != sum;
    }
  }
  return count;
}

template <typename T>
int64_t wrong_from_registers() {
  constexpr int K = 16;
  const auto a = numbers<T>(SIZE * K, 1), b = numbers<T>(MOST_N * K, 2);
  std::vector<float> out(SIZE * STEP_N * (MOST_N / STEP_N) * (MOST_N / STEP_N + 1) / 2);
  launch("multiply_from_registers", multiply_from_registers<T>,
         {1, {WARPGROUP}, MOST_N * 128 + 1024}, HOST_DEVICE,
         Widths{a.data(), b.data(), out.data()});
  int64_t count = 0;
  const float* found = out.data();
  for (int n = STEP_N; n <= MOST_N; n += STEP_N) {
    for (int i = 0; i < SIZE * n; ++i) {
      float sum = 0;
      for (int k = 0; k < K; ++k) {
        sum += static_cast<float>(a[static_cast<size_t>(i / n * K + k)]) *
               static_cast<float>(b[static_cast<size_t>(i % n * K + k)]);
      }
      count += *found++ != sum;
    }
  }
  return count;
}

}  // namespace
}  // namespace smem::test

int main() {
  using namespace smem;
  using bindings::json;
  constexpr struct {
    uint32_t width;
    const char* name;
  } WIDTHS[] = {{16, "16"}, {32, "32"}, {64, "64"}, {128, "128"}};
  std::vector<bindings::JsonField> fields;
  for (const auto& [width, name] : WIDTHS) {
    fields.emplace_back(name,
                        bindings::json_array({json(test::wrong<Major::K, Major::K>(width)),
                                              json(test::wrong<Major::K, Major::MN>(width)),
                                              json(test::wrong<Major::MN, Major::K>(width)),
                                              json(test::wrong<Major::MN, Major::MN>(width))}));
  }
  fields.emplace_back("from registers",
                      bindings::json_array({json(test::wrong_from_registers<bfloat16>()),
                                            json(test::wrong_from_registers<half>())}));
  std::puts(bindings::json_object(fields).c_str());
}
