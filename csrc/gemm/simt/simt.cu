// simt: the fastest kernel without tensor cores, every product and sum an IEEE fma.
//
// What it adds over double_buffered: 8 x 16 accumulators per thread instead of 8 x 8, which makes
// 128 products per 6 vector loads from shared memory instead of 64 per 4; fragments are read one k
// ahead into registers; stages are filled four steps ahead; the accumulators of intervals are in
// shared memory instead of local memory; and two blocks share an SM, so that each multiplies while
// the other does something else.
//
//   kernel.h            the kernel: problem, thread map and pipeline (start here)
//   kernel_ldg.h        without stages, for a short K and a narrow output
//   kernel_warps_k.h    warps divide K, for few columns or few elements of out
//   tile_config.h       tiles and operand layouts: the table of configurations
//   thread_map.h        which thread computes which elements
//   load_multistage.h   operands to shared memory by cp.async
//   load_pipelined.h    operands to shared memory through registers, for unaligned layouts
//   fragments.h         values of the operands in registers
//   promoted_accum.h    accumulators of complete intervals and superblocks
//   epilogue.h          accumulators to out
//   reduce_split_k.h    the second kernel of split-K, for problems with too few tiles
//   pack.h              operands copied to an MN-major layout first
//   heuristics.h        the choice of tile, split-K and packing
//   cost_model.h        the time that a plan is expected to take
//   operand_layout.h    the kernels of a tile that can load both operands
//   launch.h            the launches of a plan
//
// It gives the same bits as the other SIMT kernels: K is split only where accumulation_order.h
// promotes an accumulator anyway, and the partials are added in its order. 16-bit types are left to
// register_tiled, as their products belong on tensor cores.
//
//   Reads:  A ceil(N/128) times, B ceil(M/128) times, mostly from L2.
//   Writes: out once.
#include <string>

#include "gemm/ladder.h"
#include "gemm/simt/launch.h"

namespace smem::gemm {
namespace simt {
inline namespace SMEM_BUILD {

template void launch_plan<float>(const Problem&, const SimtPlan&, const Device&);
template const void* large_kernel<float>();
// float64 is compiled in its own file, simt_float64.cu, to keep compile times short.
extern template void launch_plan<double>(const Problem&, const SimtPlan&, const Device&);
extern template const void* large_kernel<double>();

}  // namespace SMEM_BUILD
}  // namespace simt

inline namespace SMEM_BUILD {

void launch_simt(const Problem& problem, const Device& device) {
  if (size_of(problem.dtype) < 4) return register_tiled.launch(problem, device);
  const simt::SimtPlan plan = simt::cached_plan(problem, device);
  if (problem.dtype == DType::f64) {
    simt::launch_plan<double>(problem, plan, device);
  } else {
    simt::launch_plan<float>(problem, plan, device);
  }
}

size_t simt_workspace_bytes(const Problem& problem, const Device& device) {
  if (size_of(problem.dtype) < 4) return 0;
  return simt::workspace_of(problem, simt::cached_plan(problem, device)).bytes();
}

const void* simt_function(DType dtype) {
  if (size_of(dtype) < 4) return register_tiled.function(dtype);
  return dtype == DType::f64 ? simt::large_kernel<double>() : simt::large_kernel<float>();
}

bool simt_has_variant(int variant, DType dtype, const Device& device) {
  return size_of(dtype) < 4 || simt::has_tile(variant, size_of(dtype), device);
}

std::string simt_approach(const Problem& problem, const Device& device) {
  if (size_of(problem.dtype) < 4) return "left to register_tiled";
  return simt::text_of(simt::make_plan(problem, device));
}

const Kernel simt_row = {
    .name = "simt",
    .summary = "8 x 16 per thread, fragments one k ahead; tile and split-K by a cost model",
    .requires_ = "any shape, any strides",
    .launch = launch_simt,
    .function = simt_function,
    .symbol = nullptr,
    .largest_k = nullptr,
    .workspace_bytes = simt_workspace_bytes,
    .variants = simt::TILE_NAMES.data(),
    .variant_count = simt::TILE_COUNT,
    .has_variant = simt_has_variant,
    .approach = simt_approach,
};

}  // namespace SMEM_BUILD
}  // namespace smem::gemm
