// Runs the kernels of sm90_kernels.cpp on small problems, at several timings of what is
// asynchronous, until one has a wrong result or ends with an error. Prints that as JSON.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <random>
#include <string>
#include <vector>

#include "gemm/sm90/launch.cu"
#include "gemm/sm90/tensor_map.cu"

// The problems need no packing and no split-K.
namespace smem::gemm::inline SMEM_BUILD {
LoadableOperands pack_operands(const Problem& problem, const OperandDesc& a, const OperandDesc& b,
                               bool, WorkspaceAllocator&, const Device&) {
  if (a.packed || b.packed) std::abort();
  return {problem.a.data, problem.b.data};
}
void reduce_split_k(const Problem&, int64_t, int, const float*, const Device&) { std::abort(); }

uint32_t counter = 0;
uint32_t* tile_counter(const Device&) { return &counter; }
}  // namespace smem::gemm::inline SMEM_BUILD

namespace {

using namespace smem;        // NOLINT(google-build-using-namespace)
using namespace smem::gemm;  // NOLINT(google-build-using-namespace)

struct Case {
  const char* tile;
  int64_t M, N, K;
  bool a_is_m_major, b_is_n_major;
  int64_t out_gap = 0;          ///< elements between the rows of out
  int overlapping_columns = 0;  ///< from tile to tile; 0: they do not overlap
};

constexpr int64_t MARGIN = 32;  ///< elements before and behind out

/// -1, 0 and 1: all sums are exact, and no larger than 256, which bfloat16 represents.
template <typename T>
std::vector<T> numbers(int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<T> values(static_cast<size_t>(count));
  for (T& value : values) value = T(static_cast<float>(static_cast<int>(random() % 3) - 1));
  return values;
}

/// What is wrong with out = A B + bias, or nothing.
template <typename T>
std::string run(const Case& c, DType dtype, bool dynamic_scheduler) {
  const std::vector<T> a = numbers<T>(c.M * c.K, 1), b = numbers<T>(c.K * c.N, 2);
  const std::vector<T> bias = numbers<T>(c.N, 3);
  const int64_t out_stride = c.N + c.out_gap;
  std::vector<T> memory(static_cast<size_t>(c.M * out_stride + 2 * MARGIN), T(NAN));
  T* const out = memory.data() + MARGIN;
  Problem problem{};
  problem.dtype = problem.out_dtype = problem.c_dtype = dtype;
  problem.M = c.M;
  problem.N = c.N;
  problem.K = c.K;
  problem.a = {a.data(), c.a_is_m_major ? 1 : c.K, c.a_is_m_major ? c.M : 1};
  problem.b = {b.data(), c.b_is_n_major ? c.N : 1, c.b_is_n_major ? 1 : c.K};
  problem.bias = bias.data();
  problem.bias_stride = 1;
  problem.out = {out, out_stride, 1};
  problem.precision = Precision::tf32;
  problem.variant = sm90::tile_index(c.tile);
  // So few SMs that each block computes several tiles.
  Device device = HOST_DEVICE;
  device.sm_count = 2;
  sm90::Plan plan = sm90::plan(problem, device);
  plan.dynamic_scheduler = dynamic_scheduler;
  if (c.overlapping_columns != 0) {
    plan.tile_n = c.overlapping_columns;
    plan.overlaps = true;
  }
  try {
    sm90::launch(problem, plan, nullptr, device);
  } catch (const std::exception& error) {
    return error.what();
  }
  const auto is_written = [&](int64_t i) { return !std::isnan(static_cast<float>(out[i])); };
  for (int64_t i = 0; i < MARGIN; ++i) {
    if (is_written(i - MARGIN) || is_written(c.M * out_stride + i)) {
      return "wrong result outside of out";
    }
  }
  for (int64_t m = 0; m < c.M; ++m) {
    for (int64_t n = 0; n < c.N; ++n) {
      float expected = static_cast<float>(bias[static_cast<size_t>(n)]);
      for (int64_t k = 0; k < c.K; ++k) {
        expected +=
            static_cast<float>(a[static_cast<size_t>(c.a_is_m_major ? k * c.M + m : m * c.K + k)]) *
            static_cast<float>(b[static_cast<size_t>(c.b_is_n_major ? k * c.N + n : n * c.K + k)]);
      }
      if (static_cast<float>(out[m * out_stride + n]) != expected) {
        return "wrong result";
      }
    }
    for (int64_t n = c.N; n < out_stride; ++n) {
      if (is_written(m * out_stride + n)) return "wrong result between rows";
    }
  }
  return counter == 0 ? "" : "counter not reset";
}

}  // namespace

int main() {
  // Each pipeline goes round at least twice.
  const Case bf16_cases[] = {{"64x64", 130, 136, 1600, false, false},
                             {"128x64", 136, 72, 1104, true, false},
                             {"64x128_cluster2", 250, 136, 1104, false, true},
                             {"64x32", 70, 56, 2112, false, true}};
  const Case tf32_case{"64x64", 132, 72, 800, true, false};
  // Rows of out that begin anywhere, of several subtiles; the last tile of those that overlap has
  // more columns than the others, or fewer.
  const Case odd_rows[] = {{"64x128_cluster2", 70, 136, 64, false, true, 3},
                           {"64x128_cluster2", 70, 128, 64, false, true, 3},
                           {"64x128_cluster2", 70, 344, 64, false, true, 7, 112},
                           {"64x128_cluster2", 40, 296, 64, false, true, 3, 112}};
  // The producer is several work tiles ahead.
  const Case short_cases[] = {{"64x64", 520, 136, 64, false, false},
                              {"64x128_cluster2", 1000, 264, 64, false, true}};
  for (const char* timing : {"0", "1", "2", "late", "early"}) {
    setenv("SMEM_ASYNC_TIMING", timing, 1);
    const auto report = [&](const Case& c, const std::string& found) {
      if (found.empty()) return;
      std::printf("{\"timing\": \"%s\", \"tile\": \"%s\", \"found\": \"%s\"}\n", timing, c.tile,
                  found.c_str());
      std::exit(0);
    };
    for (const bool dynamic : {false, true}) {
      for (const Case& c : bf16_cases) report(c, run<bfloat16>(c, DType::bf16, dynamic));
      report(tf32_case, run<float>(tf32_case, DType::f32, dynamic));
    }
    for (const Case& c : odd_rows) report(c, run<bfloat16>(c, DType::bf16, false));
    for (const Case& c : short_cases) report(c, run<bfloat16>(c, DType::bf16, true));
  }
  std::printf("{\"found\": \"\"}\n");
}
