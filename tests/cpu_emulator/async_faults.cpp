// One small kernel with TMA, an mbarrier and wgmma, and one fault at a time planted in it. The line
// above that of a fault has a comment with its name, for tests/test_sm90_faults.py.
#include <cmath>
#include <stdexcept>

#include "cpu_emulator/report.h"
#include "device/launch.h"
#include "device/tile.h"
#include "device/tma.h"
#include "device/warpgroup.h"
#include "device/wgmma.h"

namespace smem::test {
inline namespace SMEM_BUILD {

enum class Plant {
  none,
  no_wait_for_bytes,
  bytes_missing,
  bytes_in_excess,
  tile_reloaded,
  tile_overwritten,
  tile_not_fenced,
  accumulators_read,
  accumulators_written,
  no_wgmma_fence,
  staging_overwritten,
  staging_not_fenced,
  no_wait_for_store,
  load_outside,
  store_outside,
  misaligned_box,
  misaligned_descriptor,
  misaligned_barrier,
};

constexpr int SIZE = 64;                                     // a tile has SIZE x SIZE elements
constexpr uint32_t TILE_BYTES = SIZE * SIZE * 2;             // rows of 128 bytes: one swizzle atom
constexpr size_t SHARED_BYTES = 2 * TILE_BYTES + 1024 + 64;  // with room to align

struct Params {
  CUtensorMap in, out;
  float* accum;  ///< SIZE * SIZE, by thread
  Plant plant;
};

/// accum = in @ in^T, and out = in, by a warpgroup.
__global__ void square(Params params) {
  const auto is = [&](Plant plant) { return params.plant == plant; };
  unsigned char* tile = dynamic_shared<unsigned char>();
  tile += -shared_address(tile) & (ATOM_ROWS * 128 - 1);
  unsigned char* const staging = tile + TILE_BYTES;
  const int shift = is(Plant::misaligned_barrier) ? 4 : 0;
  auto* const full = reinterpret_cast<Barrier*>(staging + TILE_BYTES + shift);
  const bool is_first = threadIdx.x == 0;
  if (is_first) {
    // misaligned_barrier
    full->init(1);
    fence_barrier_init();
  }
  __syncthreads();
  if (is_first) {
    uint32_t bytes = TILE_BYTES;
    if (is(Plant::bytes_missing)) bytes += 128;
    if (is(Plant::bytes_in_excess)) bytes -= 128;
    full->arrive_and_expect_tx(bytes);
    const int matrix = is(Plant::load_outside) ? 1 : 0;
    unsigned char* const to = tile + (is(Plant::misaligned_box) ? 64 : 0);
    // load_outside, misaligned_box
    tma_load(to, params.in, {0, 0, matrix}, *full);
  }
  if (!is(Plant::no_wait_for_bytes)) {
    // bytes_missing, bytes_in_excess
    full->wait(0);
  }
  auto* const words = reinterpret_cast<uint32_t*>(tile);
  if (is(Plant::tile_not_fenced)) {
    volatile uint32_t& word = words[threadIdx.x];
    word = word;
    __syncthreads();
  }

  float accum[SIZE / 2];
  const uint32_t offset = is(Plant::misaligned_descriptor) ? 128 : 0;
  const uint32_t low = warp_uniform(descriptor_at(shared_address(tile) + offset));
  if (!is(Plant::no_wgmma_fence)) warpgroup_arrive();
  for (int k = 0; k < SIZE / 16; ++k) {
    const uint64_t operand = tile_descriptor(low + k * K16_STEP<Major::K>);
    // no_wait_for_bytes, tile_not_fenced, no_wgmma_fence, misaligned_descriptor
    wgmma<bfloat16, Major::K, Major::K, SIZE>(accum, operand, operand, k > 0);
  }
  warpgroup_commit_batch();
  if (is(Plant::accumulators_written)) accum[0] = 0;
  float early = 0;
  if (is(Plant::accumulators_read)) early = accum[0];
  if (is(Plant::tile_reloaded) && is_first) {
    // tile_reloaded
    tma_load(tile, params.in, {0, 0, 0}, *full);
  }
  if (is(Plant::tile_overwritten) && is_first) {
    // tile_overwritten
    words[0] = 0;
  }
  // accumulators_written
  warpgroup_wait<0>();
  for (int i = 0; i < SIZE / 2; ++i) params.accum[threadIdx.x * (SIZE / 2) + i] = accum[i];
  if (is(Plant::accumulators_read)) params.accum[threadIdx.x * (SIZE / 2)] = early;

  auto* const to = reinterpret_cast<uint32_t*>(staging);
  for (uint32_t i = threadIdx.x; i < TILE_BYTES / 4; i += WARPGROUP) to[i] = words[i];
  if (!is(Plant::staging_not_fenced)) fence_view_async_shared();
  __syncthreads();
  if (is_first) {
    const int column = is(Plant::store_outside) ? SIZE : 0;
    // store_outside, staging_not_fenced, no_wait_for_store
    tma_store(params.out, {column, 0, 0}, staging);
    tma_store_commit();
    // staging_overwritten
    if (is(Plant::staging_overwritten)) to[0] = 0;
    if (!is(Plant::no_wait_for_store)) tma_store_wait_read<0>();
  }
}

}  // namespace SMEM_BUILD

namespace {

CUtensorMap map_of(bfloat16* data) {
  const cuuint64_t sizes[] = {SIZE, SIZE, 1}, strides[] = {SIZE * 2, SIZE * SIZE * 2};
  const cuuint32_t box[] = {SIZE, SIZE, 1}, steps[] = {1, 1, 1};
  CUtensorMap map;
  const CUresult result =
      cuTensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 3, data, sizes, strides, box,
                             steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                             CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) throw std::runtime_error("no tensor map");
  return map;
}

/// Element (i, k) is 1 where k = i, and i / 64 in the last column, so that the product is known.
void run(Plant plant) {
  Buffer<bfloat16> in("in", SIZE * SIZE), out("out", SIZE * SIZE);
  Buffer<float> accum("accum", SIZE * SIZE, NAN);
  const auto element = [](int i, int k) { return k == i ? 1.0f : k == SIZE - 1 ? i / 64.0f : 0; };
  for (int i = 0; i < SIZE * SIZE; ++i) in.data()[i] = bfloat16(element(i / SIZE, i % SIZE));
  launch("square", square, {1, {WARPGROUP}, SHARED_BYTES}, HOST_DEVICE,
         Params{map_of(in.data()), map_of(out.data()), accum.data(), plant});
  const auto expect = [](bool right) {
    if (!right) throw std::runtime_error("wrong result");
  };
  for (int i = 0; i < SIZE * SIZE; ++i) expect(float(out.data()[i]) == float(in.data()[i]));
  for (int thread = 0; thread < WARPGROUP; ++thread) {
    for (int i = 0; i < SIZE / 2; ++i) {
      const int row = thread / 32 * 16 + thread % 32 / 4 + (i & 2) * 4;
      const int col = i / 4 * 8 + thread % 4 * 2 + i % 2;
      float sum = 0;
      for (int k = 0; k < SIZE; ++k) sum += element(row, k) * element(col, k);
      expect(accum.data()[thread * (SIZE / 2) + i] == sum);
    }
  }
}

}  // namespace

std::vector<Case> cases() {
#define SMEM_CASE(name)             \
  {                                 \
    #name, [] { run(Plant::name); } \
  }
  return {SMEM_CASE(none),
          SMEM_CASE(no_wait_for_bytes),
          SMEM_CASE(bytes_missing),
          SMEM_CASE(bytes_in_excess),
          SMEM_CASE(tile_reloaded),
          SMEM_CASE(tile_overwritten),
          SMEM_CASE(tile_not_fenced),
          SMEM_CASE(accumulators_read),
          SMEM_CASE(accumulators_written),
          SMEM_CASE(no_wgmma_fence),
          SMEM_CASE(staging_overwritten),
          SMEM_CASE(staging_not_fenced),
          SMEM_CASE(no_wait_for_store),
          SMEM_CASE(load_outside),
          SMEM_CASE(store_outside),
          SMEM_CASE(misaligned_box),
          SMEM_CASE(misaligned_descriptor),
          SMEM_CASE(misaligned_barrier)};
}

}  // namespace smem::test
