// Runs mma's kernels as they are compiled for sm_75 (SMEM_EMULATE_SM75): products of 8 of K, and
// two stages that are filled through registers.
#include <cmath>
#include <random>
#include <stdexcept>
#include <string_view>
#include <tuple>

#include "cpu_emulator/report.h"
#include "gemm/accum_interval.cpp"
#include "gemm/gpu_rates.cpp"
#include "gemm/operand_desc.cpp"
#include "gemm/sm80/cost_model.cpp"
#include "gemm/sm80/heuristics.cpp"
#include "gemm/sm80/instance_table.h"
#include "gemm/sm80/kernel.h"

namespace smem::gemm::sm80::inline SMEM_BUILD {

template <int TILE>
MmaKernel<half> kernel_of(bool a_k_major, bool b_k_major) {
  static_assert(TILES[TILE].is_for_sm75, "sm_75 has no kernels of this tile");
  return a_k_major
             ? b_k_major ? mma_kernel<half, TILE, true, true> : mma_kernel<half, TILE, true, false>
         : b_k_major ? mma_kernel<half, TILE, false, true>
                     : mma_kernel<half, TILE, false, false>;
}

constexpr int index_of_tile(std::string_view name) {
  int tile = 0;
  while (TILES[tile].name != name) ++tile;
  return tile;
}
constexpr int LARGE = index_of_tile("128x128_k32"), MEDIUM = index_of_tile("64x64"),
              SMALL = index_of_tile("16x32");

template <>
MmaKernel<half> find_kernel<half>(int tile, Major a, Major b) {
  const bool a_k_major = a == Major::K, b_k_major = b == Major::K;
  return tile == LARGE    ? kernel_of<LARGE>(a_k_major, b_k_major)
         : tile == MEDIUM ? kernel_of<MEDIUM>(a_k_major, b_k_major)
                          : kernel_of<SMALL>(a_k_major, b_k_major);
}
template <>
MmaKernel<bfloat16> find_kernel<bfloat16>(int, Major, Major) {
  return nullptr;
}
template <>
MmaKernel<float> find_kernel<float>(int, Major, Major) {
  return nullptr;
}

}  // namespace smem::gemm::sm80::inline SMEM_BUILD

// Behind the kernels that it launches.
#include "gemm/sm80/launch.cu"

namespace smem::gemm::inline SMEM_BUILD {

// The problems need no packing and no split-K.
LoadableOperands pack_operands(const Problem& problem, const OperandDesc&, const OperandDesc&,
                               WorkspaceAllocator&, const Device&) {
  return {problem.a.data, problem.b.data};
}
void reduce_split_k(const Problem&, int64_t, int, const float*, const Device&) {
  throw std::runtime_error("no problem has slices of K");
}

}  // namespace smem::gemm::inline SMEM_BUILD

namespace smem::test {
namespace {

/// -1, 0 and 1: all sums are exact.
void fill(half* values, int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  for (int64_t i = 0; i < count; ++i) {
    values[i] = half(static_cast<float>(static_cast<int>(random() % 3) - 1));
  }
}

/// Rows (K-major) or columns (MN-major) of a matrix begin at multiples of 16 bytes.
struct HalfMatrix {
  int64_t mn, k;
  bool k_major;

  int64_t pitch() const { return ((k_major ? k : mn) + 7) / 8 * 8; }
  size_t count() const { return static_cast<size_t>(pitch() * (k_major ? mn : k)); }
  int64_t at(int64_t i, int64_t j) const { return k_major ? i * pitch() + j : j * pitch() + i; }
};

void run(int tile, int64_t M, int64_t N, int64_t K, bool a_k_major, bool b_k_major) {
  const HalfMatrix a{M, K, a_k_major}, b{N, K, b_k_major};
  Buffer<half> a_data("a", a.count()), b_data("b", b.count());
  Buffer<half> out("out", static_cast<size_t>(M * N), half(NAN));
  fill(a_data.data(), static_cast<int64_t>(a.count()), 1);
  fill(b_data.data(), static_cast<int64_t>(b.count()), 2);
  gemm::Problem problem{};
  problem.dtype = problem.out_dtype = problem.c_dtype = DType::f16;
  problem.M = M;
  problem.N = N;
  problem.K = K;
  problem.a = {a_data.data(), a_k_major ? a.pitch() : 1, a_k_major ? 1 : a.pitch()};
  problem.b = {b_data.data(), b_k_major ? 1 : b.pitch(), b_k_major ? b.pitch() : 1};
  problem.out = {out.data(), N, 1};
  problem.variant = tile;
  Device device = HOST_DEVICE;
  device.code_capability = 75;
  gemm::sm80::launch(problem, gemm::sm80::plan(problem, device), nullptr, device);
  for (int64_t m = 0; m < M; ++m) {
    for (int64_t n = 0; n < N; ++n) {
      float expected = 0;
      for (int64_t k = 0; k < K; ++k) {
        expected += static_cast<float>(a_data.data()[a.at(m, k)]) *
                    static_cast<float>(b_data.data()[b.at(n, k)]);
      }
      if (static_cast<float>(out.data()[m * N + n]) != expected) {
        throw std::runtime_error("wrong result");
      }
    }
  }
}

}  // namespace

std::vector<Case> cases() {
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
          cases.push_back({name + sizes,
                           [=, m = m, n = n, k = k] { run(tile, m, n, k, a_k_major, b_k_major); }});
        }
      }
    }
  }
  return cases;
}

}  // namespace smem::test
