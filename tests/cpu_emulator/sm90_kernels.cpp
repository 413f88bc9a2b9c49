// The wgmma kernels that sm90.cpp runs; tests/test_sm90_mutants.py compiles mutants of them.
#include "gemm/sm90/instance_table.h"
#include "gemm/sm90/mainloop_tf32_rs.h"

namespace smem::gemm::sm90 {
inline namespace SMEM_BUILD {
namespace {

template <typename T, Major A_MAJOR, Major B_MAJOR, int INDEX>
const void* instance() {
  return reinterpret_cast<const void*>(gemm_kernel<T, A_MAJOR, B_MAJOR, INDEX, EpilogueKind::any>);
}

constexpr int ONE_WARPGROUP = tile_index("64x64"), TWO_WARPGROUPS = tile_index("128x64"),
              IN_CLUSTERS = tile_index("64x128_cluster2"), NARROW = tile_index("64x32");

}  // namespace

template <>
const void* find_kernel<ONE_WARPGROUP>(EpilogueKind, DType, Major, Major) {
  return instance<bfloat16, Major::K, Major::K, ONE_WARPGROUP>();
}
template <>
const void* find_kernel<TWO_WARPGROUPS>(EpilogueKind, DType, Major, Major) {
  return instance<bfloat16, Major::MN, Major::K, TWO_WARPGROUPS>();
}
template <>
const void* find_kernel<IN_CLUSTERS>(EpilogueKind, DType, Major, Major) {
  return instance<bfloat16, Major::K, Major::MN, IN_CLUSTERS>();
}
template <>
const void* find_kernel<NARROW>(EpilogueKind, DType, Major, Major) {
  return instance<bfloat16, Major::K, Major::MN, NARROW>();
}
/// No case of sm90.cpp has this tile.
template <>
const void* find_kernel<tile_index("64x64_3cta")>(EpilogueKind, DType, Major, Major) {
  return nullptr;
}
template <>
const void* find_kernel_tf32<ONE_WARPGROUP>(EpilogueKind, DType, Major, Major) {
  return instance<float, Major::MN, Major::K, ONE_WARPGROUP>();
}

}  // namespace SMEM_BUILD
}  // namespace smem::gemm::sm90
