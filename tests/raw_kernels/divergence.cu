// Device functions whose lanes go different ways, each way marked `HERE: name`: the test knows how
// many requests of the warp a GPU makes there.

constexpr unsigned ALL_LANES = 0xffffffffu, LOW_HALF = 0xffffu;
constexpr int COLS = 256;

/// Takes a value, so that the compiler cannot leave out where it came from.
__device__ inline void use(float x) { asm volatile("" ::"x"(x)); }

__device__ void one_lane_at_a_time(const float* in, int lane) {
  for (int i = 0; i < 32; ++i) {
    if (i == lane) use(in[i]);  // HERE: each_alone
  }
}

__device__ void as_many_trips_as_the_lane(const float* in, int lane) {
  for (int i = 0; i <= lane; ++i) use(in[i]);  // HERE: trips
  use(in[lane]);                               // HERE: after_trips
}

__device__ void nested_trips(const float* in, int lane) {
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < lane % 4 + i; ++j) {
      use(in[j]);  // HERE: inner
    }
    use(in[COLS + lane + i]);  // HERE: after_inner
  }
}

__device__ void if_and_else(const float* in, int lane) {
  if (lane < 16) {
    use(in[lane]);  // HERE: if_half
  } else {
    use(in[COLS + lane]);  // HERE: else_half
  }
  use(in[2 * COLS + lane]);  // HERE: after_if
}

__device__ void break_and_continue(const float* in, int lane) {
  int i = -1;
  while (++i < 8) {
    if (i == lane / 4) break;
    if ((i + lane) % 2 == 0) continue;
    use(in[i]);  // HERE: unless_skipped
  }
  use(in[COLS + lane]);  // HERE: after_break
}

__device__ void early_return(const float* in, int lane) {
  if (lane % 4 == 3) return;
  use(in[lane]);  // HERE: after_return
}

__device__ void return_from_a_loop(const float* in, int lane) {
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j < 2; ++j) {
      if (i == lane % 8) return;
      use(in[2 * i + j]);  // HERE: before_return
    }
  }
  use(in[COLS + lane]);  // HERE: survivors
}

/// 16 x 2 threads a warp, K no multiple of 16.
__device__ void lane_dependent_start(const float* in, int) {
  const int tx = threadIdx.x, ty = threadIdx.y, K = 16 * 2 + 5;
  for (int k = tx; k < K; k += 16) use(in[ty * COLS + k]);  // HERE: ragged
}

__device__ void four_ways(const float* in, int lane) {
  switch (lane % 4) {
    case 0:
      use(in[lane]);  // HERE: case_0
      break;
    case 1:
      use(in[COLS + lane]);  // HERE: case_1
      break;
    case 2:
      use(in[2 * COLS + lane]);  // HERE: case_2
      [[fallthrough]];
    default:
      use(in[3 * COLS + lane]);  // HERE: case_2_and_3
  }
  use(in[COLS / 2 + lane]);  // HERE: after_switch
}

/// Half a warp shuffles among itself while the others go ahead to the common line.
__device__ void shuffle_in_half(const float* in, int lane) {
  float x = 1;
  if (lane < 16) {
    for (int offset = 8; offset > 0; offset /= 2) {
      x += __shfl_xor_sync(LOW_HALF, x, offset);  // HERE: shuffles
      use(in[lane]);                              // HERE: between_shuffles
    }
  }
  use(in[COLS + lane] + x);  // HERE: after_shuffles
}

/// The same, with a meeting of all lanes behind it.
__device__ void halves_then_all(const float* in, int lane) {
  for (int round = 0; round < 2; ++round) {
    if (lane < 16) {
      use(__shfl_xor_sync(LOW_HALF, 1.0f, 1));
      use(__shfl_xor_sync(LOW_HALF, 1.0f, 2));  // HERE: second_shuffle
    } else {
      use(in[lane]);  // HERE: other_half
    }
    use(in[COLS + lane]);      // HERE: before_meeting
    __syncwarp(ALL_LANES);     // HERE: meeting
    use(in[2 * COLS + lane]);  // HERE: after_meeting
  }
}

__noinline__ __device__ float peek(const float* in, int at) {
  return in[at];  // HERE: peek
}

/// A function that is not inlined: half the lanes call it first, then all.
__device__ void helper(const float* in, int lane) {
  if (lane < 16) use(peek(in, 8 * lane));
  use(peek(in, COLS + lane));
}

/// Each lane goes as deep as its number says; on the way back all lanes meet at every depth.
__noinline__ __device__ float down(const float* in, int levels) {
  if (levels == 0) return 0;
  const float below = down(in, levels - 1);
  return below + in[levels];  // HERE: way_back
}

__device__ void recursion(const float* in, int lane) { use(down(in, lane % 4)); }

__device__ void goto_loop(const float* in, int lane) {
  int i = 0;
again:
  use(in[i]);  // HERE: in_goto
  if (i++ < lane) goto again;
}

/// Rows of a sparse matrix: lanes of different trips meet as on the hardware.
__device__ void ragged_rows(const float* in, int lane) {
  int i = lane;
  do {
    if (i % 2) {
      use(in[i]);  // HERE: odd
    } else {
      use(in[COLS + i]);  // HERE: even
    }
  } while (i-- > lane / 2);
}

/// Two lambdas, one calling the other.
__device__ void lambdas(const float* in, int lane) {
  const auto read = [&](int at) { use(in[at]); };  // HERE: in_lambda
  const auto read_if = [&](int k) {
    if (lane > k) read(k);
  };
  for (int k = 0; k < 5; ++k) read_if(k);
  read(lane);
}

/// More events than a lane keeps until the others have come as far.
__device__ void long_and_ragged(const float* in, int lane) {
  for (int i = 0; i < 5000 + lane; ++i) {
    if ((i + lane) % 2) use(in[lane]);  // HERE: every_second
    use(in[COLS + i % COLS]);           // HERE: each_trip
  }
}

__device__ void long_apart(const float* in, int lane) {
  use(in[lane]);  // HERE: before_parting
  if (lane < 16) {
    for (int i = 0; i < 10000; ++i) use(in[i % COLS]);  // HERE: long_way
  }
  use(in[COLS + lane]);  // HERE: after_long_way
}

__global__ void call(int which, const float* in) {
  const int lane = threadIdx.x % 32;
  switch (which) {
#define CASE(number, function) \
  case number:                 \
    return function(in, lane);
    CASE(0, one_lane_at_a_time)
    CASE(1, as_many_trips_as_the_lane)
    CASE(2, nested_trips)
    CASE(3, if_and_else)
    CASE(4, break_and_continue)
    CASE(5, early_return)
    CASE(6, return_from_a_loop)
    CASE(7, lane_dependent_start)
    CASE(8, four_ways)
    CASE(9, shuffle_in_half)
    CASE(10, halves_then_all)
    CASE(11, helper)
    CASE(12, recursion)
    CASE(13, goto_loop)
    CASE(14, ragged_rows)
    CASE(15, lambdas)
    CASE(16, long_and_ragged)
    CASE(17, long_apart)
  }
}
