// Kernels of tests/test_raw_kernel_barriers.py: cuda::barrier and cuda::pipeline. FAULTY ones lack
// what their name says; a comment `FAULT: name` marks the line that must be found.
#include <cooperative_groups.h>

#include <cuda/barrier>
#include <cuda/pipeline>

namespace cg = cooperative_groups;
using barrier = cuda::barrier<cuda::thread_scope_block>;

// ---------------------------------------------------------------------------------- cuda::barrier

// What needs no other thread's result is computed between the arrival and the wait.
__global__ void split_arrival(const float* in, float* out) {
  __shared__ float row[64];
  __shared__ barrier bar;
  const int t = threadIdx.x;
  if (t == 0) init(&bar, blockDim.x);
  __syncthreads();
  float sum = 0;
  for (int i = 0; i < 4; ++i) {
    row[t] = in[64 * i + t];
    barrier::arrival_token token = bar.arrive();  // HERE: arrive
    const float own = in[64 * i + t];
    bar.wait(std::move(token));  // HERE: wait
    sum += own - row[63 - t];
    bar.arrive_and_wait();  // HERE: arrive_and_wait
  }
  out[t] = sum;
}

// The CUDA guide's spatial partition: one warp fills two buffers, two warps empty them.
__global__ void specialized_warps(int tiles, const float* in, float* out) {
  __shared__ float tile[2][64];
  __shared__ barrier emptied[2], filled[2];
  const int t = threadIdx.x;
  if (t < 2) {
    init(&emptied[t], blockDim.x);
    init(&filled[t], blockDim.x);
  }
  __syncthreads();
  if (t < 32) {
    for (int i = 0; i < tiles; ++i) {
      emptied[i % 2].arrive_and_wait();
      tile[i % 2][t] = in[64 * i + t];
      tile[i % 2][32 + t] = in[64 * i + 32 + t];
      (void)filled[i % 2].arrive();
    }
    return;
  }
  float sum = 0;
  (void)emptied[0].arrive();
  (void)emptied[1].arrive();
  for (int i = 0; i < tiles; ++i) {
    filled[i % 2].arrive_and_wait();
    sum += tile[i % 2][95 - t];
    (void)emptied[i % 2].arrive();
  }
  out[t - 32] = sum;
}

// Thread t takes part in t + 1 phases.
__global__ void threads_that_drop_out(int* out) {
  __shared__ int count;
  __shared__ barrier bar;
  const int t = threadIdx.x;
  if (t == 0) {
    init(&bar, blockDim.x);
    count = 0;
  }
  __syncthreads();
  for (int phase = 0; phase < t; ++phase) {
    atomicAdd(&count, 1);
    bar.arrive_and_wait();
    out[blockDim.x * phase + t] = atomicAdd(&count, 0);
    bar.arrive_and_wait();
  }
  bar.arrive_and_drop();
}

// One thread arrives for its warp; the others only wait, by the phase's parity.
__global__ void arrivals_of_warps(int* out) {
  __shared__ int row[96];
  __shared__ alignas(barrier) unsigned char memory[sizeof(barrier)];
  auto* const bar = reinterpret_cast<barrier*>(memory);
  const int t = threadIdx.x;
  if (t == 0) new (bar) barrier(2 * blockDim.x / 32);
  __syncthreads();
  for (int i = 0; i < 3; ++i) {
    row[t] = 100 * i + t;
    __syncwarp();
    if (t % 32 == 0) (void)bar->arrive(2);
    bar->wait_parity(i % 2);
    out[96 * i + t] = row[95 - t] + (barrier::max() > 1000);
    __syncthreads();
  }
}

// All forms of copies that a barrier waits for, one after the other.
__global__ void copies(const float* in, float* out) {
  __shared__ alignas(16) float tile[4][128];
  __shared__ barrier bar;
  const auto block = cg::this_thread_block();
  const auto warp = cg::tiled_partition<32>(block);
  const int t = threadIdx.x;
  if (t == 0) init(&bar, blockDim.x);
  block.sync();
  if (t == 0) cuda::memcpy_async(tile[0], in, cuda::aligned_size_t<16>(512), bar);  // HERE: one
  cuda::memcpy_async(block, tile[1], in + 128, sizeof(float) * 128, bar);           // HERE: group
  cuda::memcpy_async(&tile[2][t], &in[256 + t], sizeof(float), bar);                // HERE: each
  if (t < 32) {
    cuda::memcpy_async(warp, reinterpret_cast<float4*>(tile[3]),
                       reinterpret_cast<const float4*>(in + 384), sizeof(float4) * 32, bar);
  }
  bar.arrive_and_wait();
  for (int i = 0; i < 4; ++i) out[128 * i + t] = tile[i][127 - t];
}

// A pipeline's copies, which a barrier waits for.
__global__ void committed_to_a_barrier(const float* in, float* out) {
  __shared__ float tile[64];
  __shared__ barrier bar;
  const int t = threadIdx.x;
  if (t == 0) init(&bar, blockDim.x);
  __syncthreads();
  auto pipeline = cuda::make_pipeline();
  cuda::memcpy_async(&tile[t], &in[t], sizeof(float), pipeline);
  cuda::pipeline_producer_commit(pipeline, bar);
  bar.arrive_and_wait();
  out[t] = tile[63 - t];
}

// --------------------------------------------------------------------------------- cuda::pipeline

// A thread's own copies, two stages ahead.
__global__ void own_pipeline(int tiles, const float* in, float* out) {
  __shared__ float tile[3][64];
  auto pipeline = cuda::make_pipeline();
  const int t = threadIdx.x;
  float sum = 0;
  for (int i = 0; i < tiles + 2; ++i) {
    pipeline.producer_acquire();
    if (i < tiles) cuda::memcpy_async(&tile[i % 3][t], &in[64 * i + t], sizeof(float), pipeline);
    pipeline.producer_commit();
    if (i < 2) continue;
    cuda::pipeline_consumer_wait_prior<2>(pipeline);
    sum += tile[(i - 2) % 3][t];
    pipeline.consumer_release();
  }
  out[t] = sum;
}

constexpr int STAGES = 3;
using State = cuda::pipeline_shared_state<cuda::thread_scope_block, STAGES>;
enum Split { BY_ROLE, BY_COUNT };

template <Split SPLIT>
__device__ auto make_split_pipeline(State* state) {
  const auto block = cg::this_thread_block();
  if constexpr (SPLIT == BY_COUNT) {
    return cuda::make_pipeline(block, state, 32);
  } else {
    const auto role =
        threadIdx.x < 32 ? cuda::pipeline_role::producer : cuda::pipeline_role::consumer;
    return cuda::make_pipeline(block, state, role);
  }
}

// One warp copies, two warps compute.
template <Split SPLIT>
__global__ void split_pipeline(int tiles, const float* in, float* out) {
  __shared__ alignas(16) float tile[STAGES][64];
  __shared__ State state;
  auto pipeline = make_split_pipeline<SPLIT>(&state);
  const int t = threadIdx.x;
  if (t < 32) {
    for (int i = 0; i < tiles; ++i) {
      pipeline.producer_acquire();
      const float* from = &in[64 * i + 2 * t];
      const cuda::aligned_size_t<8> bytes(8);
      cuda::memcpy_async(&tile[i % STAGES][2 * t], from, bytes, pipeline);  // HERE: copy
      pipeline.producer_commit();
    }
    return;
  }
  float sum = 0;
  for (int i = 0; i < tiles; ++i) {
    pipeline.consumer_wait();
    sum += tile[i % STAGES][95 - t];
    pipeline.consumer_release();
  }
  out[t - 32] = sum;
}

// Each warp has a pipeline; a stage is copied by the warp together.
__global__ void pipelines_of_warps(int tiles, const float* in, float* out) {
  __shared__ float tile[2][STAGES][32];
  __shared__ State states[2];
  const auto warp = cg::tiled_partition<32>(cg::this_thread_block());
  const int w = warp.meta_group_rank(), t = warp.thread_rank();
  auto pipeline = cuda::make_pipeline(warp, &states[w]);
  float sum = 0;
  for (int compute = 0, fetch = 0; compute < tiles; ++compute) {
    for (; fetch < tiles && fetch < compute + STAGES; ++fetch) {
      pipeline.producer_acquire();
      cuda::memcpy_async(warp, tile[w][fetch % STAGES], in + 64 * fetch + 32 * w, 128, pipeline);
      pipeline.producer_commit();
    }
    pipeline.consumer_wait();
    sum += tile[w][compute % STAGES][31 - t];
    pipeline.consumer_release();
  }
  out[32 * w + t] = sum;
}

// ----------------------------------------------------------------------------------------- faults

enum Fault {
  NONE,
  NO_INIT,
  EARLY_USE,
  INIT_WITH_ZERO,
  THREAD_MISSING,
  ARRIVAL_TOO_MANY,
  NO_WAIT,
  NO_WAIT_FOR_COPY,
};

template <Fault FAULT>
__global__ void faulty_barrier(const float* in, float* out) {
  __shared__ float row[64], tile[64];
  __shared__ barrier bar;
  const int t = threadIdx.x;
  if (t == 0 && FAULT != NO_INIT) {
    init(&bar, FAULT == INIT_WITH_ZERO ? 0 : blockDim.x);  // FAULT: INIT_WITH_ZERO
  }
  if (FAULT != EARLY_USE) __syncthreads();
  if (FAULT == THREAD_MISSING && t == 7) return;
  row[t] = in[t];
  cuda::memcpy_async(&tile[t], &in[t], 4, bar);  // FAULT: NO_INIT EARLY_USE
  auto token = bar.arrive();
  if (FAULT == ARRIVAL_TOO_MANY && t == 63) (void)bar.arrive(65);  // FAULT: ARRIVAL_TOO_MANY
  if (FAULT != NO_WAIT && FAULT != NO_WAIT_FOR_COPY)
    bar.wait(std::move(token));                         // FAULT: THREAD_MISSING
  if (FAULT != NO_WAIT) out[64 + t] = tile[t];          // FAULT: NO_WAIT_FOR_COPY
  if (FAULT != NO_WAIT_FOR_COPY) out[t] = row[63 - t];  // FAULT: NO_WAIT
}

enum PipelineFault { RIGHT, NO_WAIT_OF_CONSUMER, NO_RELEASE, NO_ACQUIRE };

template <PipelineFault FAULT>
__global__ void faulty_pipeline(int tiles, const float* in, float* out) {
  __shared__ float tile[STAGES][32];
  __shared__ State state;
  auto pipeline = cuda::make_pipeline(cg::this_thread_block(), &state, 32);
  const int t = threadIdx.x;
  if (t < 32) {
    for (int i = 0; i < tiles; ++i) {
      if (FAULT != NO_ACQUIRE) pipeline.producer_acquire();  // FAULT: NO_RELEASE
      float* to = &tile[i % STAGES][t];
      cuda::memcpy_async(to, &in[32 * i + t], 4, pipeline);  // FAULT: NO_ACQUIRE
      pipeline.producer_commit();
    }
    return;
  }
  float sum = 0;
  for (int i = 0; i < tiles; ++i) {
    if (FAULT != NO_WAIT_OF_CONSUMER) pipeline.consumer_wait();
    sum += tile[i % STAGES][63 - t];  // FAULT: NO_WAIT_OF_CONSUMER
    if (FAULT != NO_RELEASE) pipeline.consumer_release();
  }
  out[t - 32] = sum;
}
