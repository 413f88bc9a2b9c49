// Kernels whose lanes go different ways, each way marked `HERE: name`: the test knows how many
// requests of the warp a GPU makes there.
#include "cpu_emulator/report.h"
#include "device/launch.h"
#include "device/tile.h"

namespace smem::test {
namespace {

constexpr unsigned ALL_LANES = 0xffffffffu, LOW_HALF = 0xffffu;

using In = Matrix<const float>;

/// Takes a value, so that the compiler cannot leave out where it came from.
void use(float) {}

__global__ void one_lane_at_a_time(const __grid_constant__ In in) {
  const int lane = threadIdx.x;
  for (int i = 0; i < 32; ++i) {
    if (i == lane) use(in(0, i));  // HERE: each_alone
  }
}

__global__ void as_many_trips_as_the_lane(const __grid_constant__ In in) {
  const int lane = threadIdx.x;
  for (int i = 0; i <= lane; ++i) use(in(0, i));  // HERE: trips
  use(in(0, lane));                               // HERE: after_trips
}

__global__ void nested_trips(const __grid_constant__ In in) {
  const int lane = threadIdx.x;
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < lane % 4 + i; ++j) {
      use(in(0, j));  // HERE: inner
    }
    use(in(1, lane));  // HERE: after_inner
  }
}

__global__ void if_and_else(const __grid_constant__ In in) {
  const int lane = threadIdx.x;
  if (lane < 16) {
    use(in(0, lane));  // HERE: if_half
  } else {
    use(in(1, lane));  // HERE: else_half
  }
  use(in(2, lane));  // HERE: after_if
}

__global__ void break_and_continue(const __grid_constant__ In in) {
  const int lane = threadIdx.x;
  for (int i = 0; i < 8; ++i) {
    if (i == lane / 4) break;
    if ((i + lane) % 2 == 0) continue;
    use(in(0, i));  // HERE: unless_skipped
  }
  use(in(1, lane));  // HERE: after_break
}

__global__ void early_return(const __grid_constant__ In in) {
  const int lane = threadIdx.x;
  if (lane % 4 == 3) return;
  use(in(0, lane));  // HERE: after_return
}

__global__ void return_from_a_loop(const __grid_constant__ In in) {
  const int lane = threadIdx.x;
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < 2; ++j) {
      if (i == lane % 8) return;
      use(in(0, i));  // HERE: before_return
    }
  }
  use(in(1, lane));  // HERE: survivors
}

/// As `panel` fills its tiles: 16 x 2 threads a warp, K no multiple of 16.
__global__ void lane_dependent_start(const __grid_constant__ In in) {
  const int tx = threadIdx.x, ty = threadIdx.y, K = 16 * 2 + 5;
  for (int k = tx; k < K; k += 16) use(in(ty, k));  // HERE: ragged
}

__global__ void four_ways(const __grid_constant__ In in) {
  const int lane = threadIdx.x;
  switch (lane % 4) {
    case 0:
      use(in(0, lane));  // HERE: case_0
      break;
    case 1:
      use(in(1, lane));  // HERE: case_1
      break;
    case 2:
      use(in(2, lane));  // HERE: case_2
      [[fallthrough]];
    default:
      use(in(3, lane));  // HERE: case_2_and_3
  }
  use(in(0, lane));  // HERE: after_switch
}

/// Calls step(k) for chunks of 3, as gemm's for_each_step does.
template <typename Step>
__device__ void for_each_step(int K, const Step& step) {
  for (int k = 0; k < K;) {
    const int end = K - k < 3 ? K : k + 3;
    for (; k < end; ++k) step(k);
  }
}

__global__ void lambdas_and_ranges(const __grid_constant__ In in) {
  const int lane = threadIdx.x;
  const auto read = [&](int row, int col) { use(in(row, col)); };  // HERE: in_lambda
  for_each_step(5, [&](int k) {
    if (lane > k) read(0, k);
    for (const int row : {1, 2}) {
      for_each_step(lane % 2 + 1, [&](int i) { use(in(row, i)); });  // HERE: in_range
    }
  });
  read(3, lane);
}

/// Half a warp shuffles among itself while the others go ahead to the common line.
__global__ void shuffle_in_half(const __grid_constant__ In in) {
  const int lane = threadIdx.x;
  float x = 1;
  if (lane < 16) {
    for (int offset = 8; offset > 0; offset /= 2) {
      x += __shfl_xor_sync(LOW_HALF, x, offset);  // HERE: shuffles
      use(in(0, lane));                           // HERE: between_shuffles
    }
  }
  use(in(1, lane));  // HERE: after_shuffles
}

/// The same, with a meeting of all lanes behind it.
__global__ void halves_then_all(const __grid_constant__ In in) {
  const int lane = threadIdx.x;
  for (int round = 0; round < 2; ++round) {
    if (lane < 16) {
      __shfl_xor_sync(LOW_HALF, 1.0f, 1);
      __shfl_xor_sync(LOW_HALF, 1.0f, 2);  // HERE: second_shuffle
    } else {
      use(in(0, lane));  // HERE: other_half
    }
    use(in(1, lane));       // HERE: before_meeting
    __syncwarp(ALL_LANES);  // HERE: meeting
    use(in(2, lane));       // HERE: after_meeting
  }
}

// ------------------------------------------------------- what the tracer can only guess, and says
// so

/// Without a Site of its own, the helper's line is all that is known of its callers.
__device__ float peek(const In& in, int row, int col) {
  return in(row, col);  // HERE: peek
}

__device__ float peek_from(const In& in, int row, int col, Site site = Site::here()) {
  return in(row, col, site);
}

__global__ void helper_without_site(const __grid_constant__ In in) {
  const int lane = threadIdx.x;
  if (lane < 16) use(peek(in, 0, 8 * lane));
  use(peek(in, 1, lane));
}

__global__ void helper_with_site(const __grid_constant__ In in) {
  const int lane = threadIdx.x;
  if (lane < 16) use(peek_from(in, 0, 8 * lane));  // HERE: half_peeks
  use(peek_from(in, 1, lane));                     // HERE: all_peek
}

__global__ void goto_loop(const __grid_constant__ In in) {
  const int lane = threadIdx.x;
  int i = 0;
again:
  use(in(0, i));  // HERE: in_goto
  if (i++ < lane) goto again;
}

std::function<void()> launch_of(void (*kernel)(In), dim3 threads) {
  return [=] {
    Buffer<float> in("in", 4 * 256);
    smem::launch("kernel", kernel, {1, threads}, HOST_DEVICE, In{in.data(), 4, 256, 256, 1});
  };
}

}  // namespace

std::vector<Case> cases() {
  std::vector<Case> all;
#define CASE(kernel, ...) all.push_back({#kernel, launch_of(kernel, {__VA_ARGS__})})
  CASE(one_lane_at_a_time, 32);
  CASE(as_many_trips_as_the_lane, 32);
  CASE(nested_trips, 32);
  CASE(if_and_else, 32);
  CASE(break_and_continue, 32);
  CASE(early_return, 32);
  CASE(return_from_a_loop, 32);
  CASE(lane_dependent_start, 16, 2);
  CASE(four_ways, 32);
  CASE(lambdas_and_ranges, 32);
  CASE(shuffle_in_half, 32);
  CASE(halves_then_all, 32);
  CASE(helper_without_site, 32);
  CASE(helper_with_site, 32);
  CASE(goto_loop, 32);
#undef CASE
  return all;
}

}  // namespace smem::test
