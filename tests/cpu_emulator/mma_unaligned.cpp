// Runs mma's kernels for rows that begin anywhere on a GPU of one SM, so that a block computes
// several work tiles; tests/test_mma_mutants.py compiles mutants of them.
#include "cpu_emulator/mma.h"

namespace smem::gemm::sm80::inline SMEM_BUILD {

constexpr int SMALL = index_of_tile("16x32_unaligned"), TALL = index_of_tile("128x16_unaligned"),
              WIDE = index_of_tile("16x128_unaligned"), MEDIUM = index_of_tile("64x64_unaligned");

/// A problem of each tile has its layout.
template <typename T>
MmaKernel<T> kernel_of_tile(int tile) {
  return tile == SMALL  ? mma_kernel<T, SMALL, true, false>
         : tile == TALL ? mma_kernel<T, TALL, false, true>
         : tile == WIDE ? mma_kernel<T, WIDE, true, false>
                        : mma_kernel<T, MEDIUM, true, true>;
}
template <>
MmaKernel<half> find_kernel<half>(int tile, Major, Major) {
  return kernel_of_tile<half>(tile);
}
template <>
MmaKernel<float> find_kernel<float>(int tile, Major, Major) {
  return kernel_of_tile<float>(tile);
}

}  // namespace smem::gemm::sm80::inline SMEM_BUILD

namespace smem::test {

std::vector<Case> cases() {
  Device device = HOST_DEVICE;
  device.sm_count = 1;
  std::vector<Case> cases;
  const auto add = [&](const std::string& name, const MmaCase& problem) {
    cases.push_back({name, [=] { run<half>(problem, device); }});
    cases.push_back({name + ", tf32", [=] { run<float>(problem, device); }});
  };
  // Rows, columns and k-tiles of every length; each matrix begins elsewhere within its vectors.
  add("small", {gemm::sm80::SMALL, 35, 70, 300, true, false, 3, 3, 1});
  add("tall", {gemm::sm80::TALL, 300, 20, 150, false, true, 2, 5, 3});
  add("wide", {gemm::sm80::WIDE, 20, 300, 150, true, false, 2, 7, 1});
  add("medium", {gemm::sm80::MEDIUM, 130, 70, 200, true, true, 3, 1, 0});
  add("one k-tile", {gemm::sm80::SMALL, 40, 70, 9, true, false, 1, 2, 1});
  add("one work tile", {gemm::sm80::SMALL, 7, 9, 5, true, false, 1, 1, 0});
  return cases;
}

}  // namespace smem::test
