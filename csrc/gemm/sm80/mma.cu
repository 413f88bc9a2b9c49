// The row `mma` of the kernel table: GEMM by mma.sync and cp.async (sm_80 and newer; sm_75
// for float16). The kernel itself is in kernel.h.
//
// What it adds to tensor_core: tiles for every shape, chosen by a cost model of the GPU; copies
// spread over the products; rows of any alignment, packed first or shifted in shared memory; a
// long K in slices; and an order of the tiles whose rows and columns stay in L2.
//
//   kernel.h             the kernel
//   mainloop.h           the mainloop, with a diagram of its pipeline
//   load_multistage.h    copies of an operand into the stages
//   mainloop_unaligned.h, load_unaligned.h   the same for rows that begin anywhere
//   mainloop_unaligned_tf32.h   for rows of floats that begin anywhere
//   mainloop_ldg.h       without stages, for narrow and small products
//   epilogue.h           how accumulators are stored; epilogue_any.h: with any epilogue
//   tile_config.h        the table of tiles
//   heuristics.h, cost_model.h   which tile a problem gets, and why
//   launch.cu            the launches: packing before, split-K after
//   ../tile_scheduler.h, ../pack.h, ../reduce_split_k.h   shared with wgmma
//
// Bits: each element of out is one chain of mma with K ascending by 16 (tf32: by 8), from zero, per
// accumulation interval (gemm/accum_interval.h), and the intervals are added in order: those of
// wgmma on the same GPU. sm_75 adds float16 by 8 of K.
// Reads: A ceil(N/256) times, B ceil(M/128) times, mostly from L2. Writes: out once.
#include <string>

#include "device/device.h"
#include "gemm/ladder.h"
#include "gemm/sm80/heuristics.h"

namespace smem::gemm::inline SMEM_BUILD {

/// For problems whose K is 0, or where a size is beyond 32 bits.
const Kernel& kernel_of_any_size(const Device& device) {
  return device.code_capability < 80 ? register_tiled : tensor_core;
}

void launch_mma(const Problem& problem, const Device& device) {
  if (!sm80::can_implement(problem, device)) {
    return kernel_of_any_size(device).launch(problem, device);
  }
  sm80::launch(problem, sm80::cached_plan(problem, device), problem.workspace, device);
}

size_t mma_workspace_bytes(const Problem& problem, const Device& device) {
  if (!sm80::can_implement(problem, device)) return 0;
  return sm80::workspace_bytes(problem, sm80::cached_plan(problem, device));
}

std::string mma_approach(const Problem& problem, const Device& device) {
  if (!sm80::can_implement(problem, device)) {
    return std::string("left to ") + kernel_of_any_size(device).name;
  }
  return sm80::describe(sm80::plan(problem, device));
}

#ifdef __CUDACC__
/// The kernel for K-major operands of the largest tile for which this build has code on the current
/// device: sm_75 does not have all.
const void* mma_function(DType dtype) {
  sm80::Plan plan{};
  plan.a.major = plan.b.major = Major::K;
  while (plan.tile + 1 < sm80::TILE_COUNT &&
         !cuda_kernel_resources(sm80::kernel_function(dtype, plan))) {
    ++plan.tile;
  }
  return sm80::kernel_function(dtype, plan);
}
#else
constexpr std::nullptr_t mma_function = nullptr;
#endif

const Kernel mma_row = {
    .name = "mma",
    .summary = "mma.sync from 3 to 16 stages of cp.async, rows of any alignment, split-K",
    .requires_ =
        "16-bit floats or precision tf32, compute capability 8.0 or newer; 7.5 for float16",
    .launch = launch_mma,
    .function = mma_function,
    .symbol = nullptr,
    .largest_k = nullptr,
    .dtypes = dtypes(DType::f32, DType::f16, DType::bf16),
    .tensor_cores = sm80::TENSOR_CORES,
    .float32 = Precision::tf32,
    .workspace_bytes = mma_workspace_bytes,
    .variants = sm80::TILE_NAMES.data(),
    .variant_count = sm80::TILE_COUNT,
    .has_variant = sm80::has_tile,
    .approach = mma_approach,
};

}  // namespace smem::gemm::inline SMEM_BUILD
