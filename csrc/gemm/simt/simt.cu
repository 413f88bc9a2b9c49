// simt: the fastest IEEE product without tensor cores.
//
// Over double_buffered: 8 x 16 sums a thread instead of 8 x 8, so that 128 products stand against 6
// reads of shared memory and not against 4 for 64; fragments are read one step ahead into
// registers, and stages filled four ahead; the sums of chunks lie in shared memory instead of
// local; two blocks share an SM, and each fills the pauses of the other. gemm/simt/ has
// the parts: kernel.h (the kernel), load_multistage.h and load_pipelined.h (operands on their way), epilogue.h (sums
// on theirs), heuristics.h (which tile, and why), reduce_split_k.h (K cut over blocks, where there are too few
// tiles), pack.h (operands that are turned first).
//
// The same bits as the other SIMT kernels': K is cut only where block.h begins a new sum anyway,
// and the parts are added in its order. Reads: A ceil(N/128) times, B ceil(M/128) times, out of L2
// mostly. Writes: out once. 16-bit types, whose products are the tensor cores', are left to
// register_tiled.
#include <string>

#include "gemm/ladder.h"
#include "gemm/simt/launch.h"

namespace smem::gemm {
namespace simt {
inline namespace SMEM_BUILD {

template void launch_plan<float>(const Problem&, const Plan&, const Device&);
template const void* large_kernel<float>();
// A file of its own, so that none takes long to compile: simt_float64.cu.
extern template void launch_plan<double>(const Problem&, const Plan&, const Device&);
extern template const void* large_kernel<double>();

}  // namespace SMEM_BUILD
}  // namespace simt

inline namespace SMEM_BUILD {

void launch_simt(const Problem& problem, const Device& device) {
  if (size_of(problem.dtype) < 4) return register_tiled.launch(problem, device);
  const simt::Plan plan = simt::remembered_plan(problem, device);
  if (problem.dtype == DType::f64) {
    simt::launch_plan<double>(problem, plan, device);
  } else {
    simt::launch_plan<float>(problem, plan, device);
  }
}

size_t simt_workspace_bytes(const Problem& problem, const Device& device) {
  if (size_of(problem.dtype) < 4) return 0;
  return simt::workspace_of(problem, simt::remembered_plan(problem, device)).bytes();
}

const void* simt_function(DType dtype) {
  if (size_of(dtype) < 4) return register_tiled.function(dtype);
  return dtype == DType::f64 ? simt::large_kernel<double>() : simt::large_kernel<float>();
}

bool simt_has_variant(int variant, DType dtype) {
  return size_of(dtype) < 4 || simt::has_tile(variant, size_of(dtype));
}

std::string simt_approach(const Problem& problem, const Device& device) {
  if (size_of(problem.dtype) < 4) return "left to register_tiled";
  return simt::text_of(simt::plan(problem, device));
}

const Kernel simt_row = {
    .name = "simt",
    .summary = "8 x 16 a thread, fragments a step ahead; the tile, and cuts of K, by a model",
    .requires_ = "any shape, any strides",
    .launch = launch_simt,
    .function = simt_function,
    .symbol = nullptr,
    .largest_k = nullptr,
    .workspace_bytes = simt_workspace_bytes,
    .variants = simt::TILE_NAMES,
    .variant_count = simt::TILE_COUNT,
    .has_variant = simt_has_variant,
    .approach = simt_approach,
};

}  // namespace SMEM_BUILD
}  // namespace smem::gemm
