// The row `wgmma` of the kernel table: GEMM by Hopper's wgmma and TMA (sm_90a). The kernel itself
// is in kernel.h.
//
// What it adds to tensor_core: a warpgroup of four warps multiplies up to 64 x 256 by one
// instruction that reads both operands from shared memory, without ldmatrix and without registers
// for them. One warp issues TMA loads, stages ahead of the two warpgroups that multiply. Blocks are
// persistent, and the blocks of a cluster load B once for all of them.
//
//   kernel.h             the kernel: the two roles, the mainloop, the pipeline diagram
//   pipeline.h           shared memory stages and their barriers
//   producer.h           TMA loads of an operand
//   epilogue_op.h        what happens to accumulators: alpha, bias, activation, rounding
//   epilogue_tma.h, epilogue_scalar.h     how they are stored
//   epilogue_direct.h, shifted_rows.h     how, where rows of out begin anywhere
//   mainloop_tf32_rs.h, epilogue_tf32.h   what is different for tf32
//   tile_config.h        the table of tiles
//   heuristics.h, cost_model.h            which tile a problem gets, and why
//   launch.cu            the launches: GEMM, packing before, split-K after
//   ../tile_scheduler.h, ../pack.h, ../reduce_split_k.h   shared with mma: the order of the work
//                        tiles, packing, and adding the slices of a split K
//   ../dynamic_scheduler.h, ../tile_counter.h   shared with fp16x3: work tiles from a counter
//
// Bits: each element of out is one chain of products with K ascending by 16 (tf32: by 8), from
// zero, as tensor_core's is. If N is narrow and K is long, there is a chain for each
// accumulation interval of K (gemm/accum_interval.h), and their results are added in order.
// Reads: A ceil(N/256) times, B ceil(M/256) times, mostly from L2. Writes: out once.
#include <string>

#include "gemm/ladder.h"
#include "gemm/sm90/heuristics.h"

namespace smem::gemm::inline SMEM_BUILD {

void launch_wgmma(const Problem& problem, const Device& device) {
  // K is 0, or a size is beyond 32 bits.
  if (!sm90::can_implement(problem, device)) return tensor_core.launch(problem, device);
  sm90::launch(problem, sm90::cached_plan(problem, device), problem.workspace, device);
}

size_t wgmma_workspace_bytes(const Problem& problem, const Device& device) {
  if (!sm90::can_implement(problem, device)) return 0;
  return sm90::workspace_bytes(problem, sm90::cached_plan(problem, device));
}

#ifdef __CUDACC__
/// The kernel of a large problem with K-major operands.
const void* wgmma_function(DType dtype) {
  Problem problem{};
  problem.dtype = dtype;
  problem.M = problem.N = problem.K = 8192;
  problem.a = {nullptr, problem.K, 1};
  problem.b = {nullptr, 1, problem.K};
  problem.out = {nullptr, problem.N, 1};
  problem.out_dtype = problem.c_dtype = dtype;
  Device h200 = HOST_DEVICE;
  h200.host = false;
  return sm90::kernel_function(dtype, sm90::plan(problem, h200));
}
#else
constexpr std::nullptr_t wgmma_function = nullptr;
#endif

std::string wgmma_approach(const Problem& problem, const Device& device) {
  if (!sm90::can_implement(problem, device)) return "left to tensor_core";
  return sm90::describe(sm90::plan(problem, device));
}

const Kernel wgmma_row = {
    .name = "wgmma",
    .summary = "wgmma: 64 x 256 x 16 products an instruction, TMA ahead of them",
    .requires_ = "16-bit floats or precision tf32, compute capability 9.0",
    .launch = launch_wgmma,
    .function = wgmma_function,
    .symbol = nullptr,
    .largest_k = nullptr,
    .dtypes = dtypes(DType::f32, DType::f16, DType::bf16),
    .tensor_cores = {.capability = 90, .alone = true},
    .float32 = Precision::tf32,
    .workspace_bytes = wgmma_workspace_bytes,
    .variants = sm90::TILE_NAMES.data(),
    .variant_count = sm90::TILE_COUNT,
    .has_variant = sm90::has_tile,
    .approach = wgmma_approach,
};

}  // namespace smem::gemm::inline SMEM_BUILD
