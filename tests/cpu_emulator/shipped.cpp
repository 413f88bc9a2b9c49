// Runs shipped kernels, or a mutant of one, on small ragged problems in float32. The compiler is
// told which: SHIPPED_FILE="gemm/ladder/tiled.cu" and SHIPPED=smem::gemm::tiled32; some take a
// SECOND_SHIPPED_FILE.
#include <algorithm>
#include <bit>
#include <stdexcept>

#include "cpu_emulator/report.h"
#include "gemm/gemm.h"
#include "reduce/reduce.h"
#include "transpose/transpose.h"
#include SHIPPED_FILE
#ifdef SECOND_SHIPPED_FILE
#include SECOND_SHIPPED_FILE
#endif
// Not part of a kernel's file, but its launch asks for it.
#include "transpose/tiling.cpp"
#include "transpose/unaligned_tile.cpp"

namespace smem::test {
namespace {

void expect(bool right) {
  if (!right) throw std::runtime_error("wrong result");
}

/// `pitch` is the step between rows, or between columns where the operands lie transposed.
void run_gemm(const gemm::Kernel& kernel, int64_t pitch, bool transposed) {
  constexpr int64_t M = 37, N = 45, K = 70;
  const auto operand = [&](const void* data) {
    return transposed ? gemm::Operand{data, 1, pitch} : gemm::Operand{data, pitch, 1};
  };
  const auto count = [&](int64_t rows, int64_t cols) {
    return static_cast<size_t>(transposed ? (cols - 1) * pitch + rows : (rows - 1) * pitch + cols);
  };
  Buffer<float> a("a", count(M, K), 1), b("b", count(K, N), 1), out("out", N * M);
  gemm::Problem problem{DType::f32, M, N, K, operand(a.data()), operand(b.data())};
  problem.out = {out.data(), N, 1};
  kernel.launch(problem, HOST_DEVICE);
  for (int64_t i = 0; i < M * N; ++i) expect(out.data()[i] == K);
}

void run_transpose(const transpose::Kernel& kernel) {
  constexpr int64_t ROWS = 40, COLS = 45;
  Buffer<float> in("in", ROWS * COLS), out("out", ROWS * COLS);
  for (int i = 0; i < ROWS * COLS; ++i) in.data()[i] = static_cast<float>(i);
  kernel.launch({sizeof(float), ROWS, COLS, in.data(), COLS, 1, out.data(), 1, ROWS, {}},
                HOST_DEVICE);
  for (int i = 0; i < ROWS * COLS; ++i) {
    expect(out.data()[i % COLS * ROWS + i / COLS] == in.data()[i]);
  }
}

constexpr int64_t OUTPUTS = 3;

reduce::Problem sum_problem(const float* in, float* out, int64_t count) {
  reduce::Problem problem{reduce::Operator::sum, DType::f32, DType::f32, in, out};
  problem.output_count = OUTPUTS;
  problem.count = count;
  problem.splits = 1;
  problem.elements_per_partial = 8;
  problem.outputs = {1, {OUTPUTS}, {{count}, {1}}};
  problem.reduced = {1, {count}, {{1}}};
  return problem;
}

void run_sum(const reduce::Kernel& kernel, int64_t count) {
  Buffer<float> in("in", static_cast<size_t>(OUTPUTS * count), 1), out("out", OUTPUTS);
  kernel.launch(sum_problem(in.data(), out.data(), count), HOST_DEVICE);
  for (int o = 0; o < OUTPUTS; ++o) expect(out.data()[o] == static_cast<float>(count));
}

std::vector<Case> cases_of(const gemm::Kernel& kernel) {
  const std::string name = kernel.name;
  return {{name + "/rows", [&] { run_gemm(kernel, 72, false); }},
          {name + "/columns", [&] { run_gemm(kernel, 72, true); }},
          {name + "/odd_rows", [&] { run_gemm(kernel, 73, false); }}};
}
std::vector<Case> cases_of(const transpose::Kernel& kernel) {
  return {{kernel.name, [&] { run_transpose(kernel); }}};
}
std::vector<Case> cases_of(const reduce::Kernel& kernel) {
  constexpr int64_t SHORT = 300, LONG = 5000;  // a warp and several, of those that share a row
  const std::string name = kernel.name;
  std::vector<Case> cases{{name + "/short", [&] { run_sum(kernel, SHORT); }}};
  const bool one_pass = kernel.splits(sum_problem(nullptr, nullptr, LONG), HOST_DEVICE) == 1;
  if (one_pass) cases.push_back({name + "/long", [&] { run_sum(kernel, LONG); }});
  return cases;
}

}  // namespace

std::vector<Case> cases() { return cases_of(SHIPPED); }

}  // namespace smem::test
