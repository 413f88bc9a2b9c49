// The launches of wgmma, and the kernels beside the GEMM itself, built for cpu_emulator.
#include "gemm/pack.cu"
#include "gemm/reduce_split_k.cu"
#include "gemm/sm90/launch.cu"
#include "gemm/sm90/tensor_map.cu"

namespace smem::gemm::inline SMEM_BUILD {

uint32_t* tile_counter(const Device&) { return nullptr; }

}  // namespace smem::gemm::inline SMEM_BUILD
