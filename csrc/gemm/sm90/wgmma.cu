// wgmma: Hopper's tensor cores, fed by its TMA (sm_90a).
//
// Over tensor_core: a warpgroup of four warps multiplies 64 x 256 by one instruction that reads
// both operands from shared memory itself, so that no register and no ldmatrix stands between. One
// warp only tells TMA (TMA) what to load, stages ahead; two warpgroups multiply; blocks
// live for many tiles, and those of a cluster load B once for both. gemm/sm90/ has the parts:
// kernel.h (the kernel), pipeline.h (the stages), epilogue_op.h (from sums to elements), epilogue_tma.h and
// epilogue_scalar.h (their ways to out), mainloop_tf32_rs.h and epilogue_tf32.h (what is different where operands are
// floats, multiplied as tf32), tile_config.h and heuristics.h (which tile, and why), pack.h (operands that the
// TMA cannot read).
//
// Every sum is one chain of products with K ascending by 16 (of floats by 8), from zero, as
// tensor_core's is; where N is at most 256 and K long (heuristics.cpp), the sums of chunks of K are added
// in order. Reads: A ceil(N/256) times, B ceil(M/256) times, out of L2 mostly. Writes: out once.
#include <string>

#include "gemm/sm90/heuristics.h"
#include "gemm/ladder.h"

namespace smem::gemm {
inline namespace SMEM_BUILD {

#ifdef __CUDACC__

void launch_wgmma(const Problem& problem, const Device& device) {
  // No products to make, or sizes beyond 32 bits.
  if (!sm90::takes(problem, device)) return tensor_core.launch(problem, device);
  sm90::launch(problem, sm90::remembered_plan(problem, device), problem.workspace, device);
}

size_t wgmma_workspace_bytes(const Problem& problem, const Device& device) {
  if (!sm90::takes(problem, device)) return 0;
  return sm90::workspace_bytes(problem, sm90::remembered_plan(problem, device));
}

/// That of a large problem whose operands lie along K.
const void* wgmma_function(DType dtype) {
  Problem problem{};
  problem.dtype = dtype;
  problem.M = problem.N = problem.K = 8192;
  problem.a = {nullptr, problem.K, 1};
  problem.b = {nullptr, 1, problem.K};
  problem.out = {nullptr, problem.N, 1};
  problem.out_dtype = problem.c_dtype = dtype;
  return sm90::kernel_function(dtype, sm90::plan(problem, HOST_DEVICE));
}

#else
constexpr std::nullptr_t launch_wgmma = nullptr, wgmma_function = nullptr,
                         wgmma_workspace_bytes = nullptr;
#endif

#ifdef SMEM_TRACED
// Nobody asks for them where kernels are traced.
constexpr std::nullptr_t wgmma_approach = nullptr, wgmma_has_variant = nullptr;
#else
constexpr auto wgmma_has_variant = sm90::has_tile;

std::string wgmma_approach(const Problem& problem, const Device& device) {
  if (!sm90::takes(problem, device)) return "left to tensor_core";
  return sm90::text_of(sm90::plan(problem, device));
}
#endif

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
    .variants = sm90::TILE_NAMES,
    .variant_count = sm90::TILE_COUNT,
    .has_variant = wgmma_has_variant,
    .approach = wgmma_approach,
};

}  // namespace SMEM_BUILD
}  // namespace smem::gemm
