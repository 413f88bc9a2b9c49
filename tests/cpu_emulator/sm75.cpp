// Runs mma's kernels as they are compiled for sm_75 (SMEM_EMULATE_SM75): products of 8 of K, and
// two stages that are filled through registers.
#include <tuple>

#include "cpu_emulator/mma.h"

namespace smem::gemm::sm80::inline SMEM_BUILD {

template <int TILE>
MmaKernel<half> kernel_of(Major a, Major b) {
  static_assert(TILES[TILE].is_for_sm75, "sm_75 has no kernels of this tile");
  const bool a_k_major = a == Major::K, b_k_major = b == Major::K;
  return a_k_major
             ? b_k_major ? mma_kernel<half, TILE, true, true> : mma_kernel<half, TILE, true, false>
         : b_k_major ? mma_kernel<half, TILE, false, true>
                     : mma_kernel<half, TILE, false, false>;
}

constexpr int LARGE = index_of_tile("128x128_k32"), MEDIUM = index_of_tile("64x64"),
              SMALL = index_of_tile("16x32");

template <>
MmaKernel<half> find_kernel<half>(int tile, Major a, Major b) {
  return tile == LARGE    ? kernel_of<LARGE>(a, b)
         : tile == MEDIUM ? kernel_of<MEDIUM>(a, b)
                          : kernel_of<SMALL>(a, b);
}
template <>
MmaKernel<float> find_kernel<float>(int, Major, Major) {
  return nullptr;
}

}  // namespace smem::gemm::sm80::inline SMEM_BUILD

namespace smem::test {

std::vector<Case> cases() {
  Device device = HOST_DEVICE;
  device.code_capability = 75;
  std::vector<Case> cases;
  for (const int tile : {gemm::sm80::LARGE, gemm::sm80::MEDIUM, gemm::sm80::SMALL}) {
    for (const bool a_k_major : {true, false}) {
      for (const bool b_k_major : {true, false}) {
        const std::string name = std::string(gemm::sm80::TILES[tile].name) + "/" +
                                 (a_k_major ? "k" : "m") + (b_k_major ? "k" : "n") + "/";
        // A last k-tile of every length, blocks at both edges; less than one tile; whole tiles.
        for (const auto& [m, n, k] : {std::tuple{140, 136, 200}, {7, 9, 5}, {128, 128, 64}}) {
          const std::string sizes =
              std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k);
          const MmaCase problem{tile, m, n, k, a_k_major, b_k_major};
          cases.push_back({name + sizes, [=] { run<half>(problem, device); }});
        }
      }
    }
  }
  return cases;
}

}  // namespace smem::test
