// Kernels of tests/test_raw_kernel_coverage.py: cooperative groups, pipelines, libcu++.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <cuda_pipeline.h>

#include <cuda/atomic>
#include <cuda/barrier>
#include <cuda/pipeline>

namespace cg = cooperative_groups;

// The example of the CUDA guide: any group of threads.
__device__ int sum_of(cg::thread_group group, int* temporary, int value) {
  const int rank = group.thread_rank();
  for (int i = group.size() / 2; i > 0; i /= 2) {
    temporary[rank] = value;
    group.sync();  // HERE: group_sync
    if (rank < i) value += temporary[rank + i];
    group.sync();
  }
  return value;
}

__global__ void blocks_and_grids(int* out) {
  const cg::thread_block block = cg::this_thread_block();
  const cg::grid_group grid = cg::this_grid();
  __shared__ int temporary[64];
  const int sum = sum_of(block, temporary, block.thread_rank());
  if (block.thread_rank() == 0) out[grid.num_threads() + block.group_index().x] = sum;
  out[grid.thread_rank()] = block.size() + 100 * grid.num_blocks() + 1000 * grid.block_rank() +
                            10000 * block.thread_index().y + 100000 * block.dim_threads().y;
}

__global__ void grid_sync(int* out) {
  const auto grid = cg::this_grid();
  out[grid.thread_rank()] = grid.thread_rank();
  grid.sync();  // HERE: grid_sync
  out[grid.size() + grid.thread_rank()] = out[grid.size() - 1 - grid.thread_rank()];
}

__global__ void tiles(const int* in, int* out) {
  const auto block = cg::this_thread_block();
  const cg::thread_block_tile<32> warp = cg::tiled_partition<32>(block);
  const auto tile = cg::tiled_partition<8>(warp);
  const int n = blockDim.x, i = block.thread_rank();
  out[i] = warp.meta_group_rank() + 10 * warp.meta_group_size() + 100 * tile.meta_group_rank() +
           1000 * tile.meta_group_size() + 10000 * tile.thread_rank();
  out[n + i] = tile.shfl(i, 3) + 100 * tile.shfl_up(i, 1);
  out[2 * n + i] = tile.shfl_down(i, 1) + 100 * tile.shfl_xor(i, 2);
  out[3 * n + i] =
      tile.ballot(in[i] > 2) + 1000 * tile.any(in[i] == 5) + 2000 * tile.all(in[i] < 9);
  out[4 * n + i] = tile.match_any(in[i] % 2);
  tile.sync();
  warp.sync();  // HERE: warp_sync
}

__global__ void coalesced(int* out) {
  const auto warp = cg::tiled_partition<32>(cg::this_thread_block());
  const int i = threadIdx.x;
  if (i % 3 == 0) {
    const cg::coalesced_group active = cg::coalesced_threads();
    out[i] = active.thread_rank() + 100 * active.size() + 10000 * active.shfl(i, 2);
    out[32 + i] =
        cg::reduce(active, i, cg::plus<int>()) + cg::reduce(active, 1.5f, cg::plus<float>());
  }
  const auto parity = cg::binary_partition(warp, i % 2 == 1);
  out[64 + i] = parity.size() + 100 * parity.shfl(i, 1);
  const auto quarter = cg::labeled_partition(warp, i / 8);
  out[96 + i] = quarter.thread_rank();
}

__global__ void group_reductions(const float* floats, const int* numbers, float* sums, int* out) {
  const auto warp = cg::tiled_partition<32>(cg::this_thread_block());
  const auto tile = cg::tiled_partition<8>(cg::this_thread_block());
  const int i = threadIdx.x, n = blockDim.x;
  sums[i] = cg::reduce(warp, floats[i], cg::plus<float>());  // HERE: reduce_floats
  out[i] = cg::reduce(warp, numbers[i], cg::plus<int>());    // HERE: reduce_integers
  out[n + i] = cg::reduce(tile, numbers[i], cg::greater<int>());
  out[2 * n + i] = cg::reduce(tile, numbers[i], cg::less<int>());
  out[3 * n + i] = cg::reduce(warp, numbers[i], [](int a, int b) { return a ^ b; });
  out[4 * n + i] = cg::inclusive_scan(warp, numbers[i]);  // HERE: scan
  out[5 * n + i] = cg::exclusive_scan(tile, numbers[i], cg::plus<int>());
}

// Two stages: the next tile is copied while this one is used.
__global__ void pipeline_primitives(int tiles, const float* in, float* out) {
  __shared__ float stages[2][64];
  const int i = threadIdx.x;
  float sum = 0;
  __pipeline_memcpy_async(&stages[0][i], &in[i], 4);
  __pipeline_commit();
  for (int tile = 0; tile < tiles; ++tile) {
    if (tile + 1 < tiles) {
      __pipeline_memcpy_async(&stages[(tile + 1) % 2][i], &in[(tile + 1) * 64 + i], 4);  // HERE: cp
    }
    __pipeline_commit();
    __pipeline_wait_prior(1);
    __syncthreads();
    sum += stages[tile % 2][63 - i];
    __syncthreads();
  }
  out[i] = sum;
}

__global__ void zero_filled(const float4* in, float4* out) {
  __shared__ float4 tile[32];
  __pipeline_memcpy_async(&tile[threadIdx.x], &in[threadIdx.x], 16, threadIdx.x < 8 ? 12 : 0);
  __pipeline_commit();
  __pipeline_wait_prior(0);
  out[threadIdx.x] = tile[threadIdx.x];
}

template <cuda::thread_scope SCOPE>
__device__ auto make_pipeline_of(cuda::pipeline_shared_state<SCOPE, 2>* state) {
  if constexpr (SCOPE == cuda::thread_scope_thread) {
    return cuda::make_pipeline();
  } else {
    return cuda::make_pipeline(cg::this_thread_block(), state);
  }
}

template <cuda::thread_scope SCOPE>
__global__ void pipelines(int tiles, const float* in, float* out) {
  __shared__ float stages[2][64];
  __shared__ cuda::pipeline_shared_state<SCOPE, 2> state;
  auto pipeline = make_pipeline_of<SCOPE>(&state);
  const int i = threadIdx.x;
  float sum = 0;
  for (int compute = 0, fetch = 0; compute < tiles; ++compute) {
    for (; fetch < tiles && fetch < compute + 2; ++fetch) {
      pipeline.producer_acquire();
      cuda::memcpy_async(&stages[fetch % 2][i], &in[fetch * 64 + i], sizeof(float), pipeline);
      pipeline.producer_commit();
    }
    pipeline.consumer_wait();
    if (SCOPE == cuda::thread_scope_thread) __syncthreads();
    sum += stages[compute % 2][63 - i];
    if (SCOPE == cuda::thread_scope_thread) __syncthreads();
    pipeline.consumer_release();
  }
  out[i] = sum;
}

__global__ void group_copies(const float* in, float* out) {
  __shared__ __align__(16) float tile[128];
  __shared__ cuda::barrier<cuda::thread_scope_block> barrier;
  const auto block = cg::this_thread_block();
  if (block.thread_rank() == 0) init(&barrier, block.size());
  cg::memcpy_async(block, tile, in, sizeof(float) * 64);  // HERE: by_group
  cg::wait(block);
  cuda::memcpy_async(block, tile + 64, in + 64, cuda::aligned_size_t<16>(256), barrier);
  auto token = barrier.arrive();
  barrier.wait(std::move(token));
  out[threadIdx.x] = tile[127 - threadIdx.x];
  barrier.arrive_and_wait();
}

__device__ cuda::atomic<int, cuda::thread_scope_device> ticket;

__global__ void library_atomics(int* count, float* sum, int* order) {
  cuda::atomic_ref<int, cuda::thread_scope_device> counter(*count);
  cuda::atomic_ref<float> total(*sum);
  counter.fetch_add(2, cuda::memory_order_relaxed);  // HERE: fetch_add
  ++counter;
  total += 0.5f;
  order[threadIdx.x] = ticket.fetch_add(1, cuda::std::memory_order_acq_rel);
  int expected = 96;
  if (counter.compare_exchange_strong(expected, 1000)) counter.fetch_max(2000);
}
