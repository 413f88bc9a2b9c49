// What the programs that run mma's kernels share: problems in float16 and tf32 whose sums are
// exact, in every layout, with the kernels that a program compiles.
#pragma once

#include <cmath>
#include <random>
#include <stdexcept>
#include <string_view>

#include "cpu_emulator/report.h"
#include "gemm/accum_interval.cpp"
#include "gemm/gpu_rates.cpp"
#include "gemm/operand_desc.cpp"
#include "gemm/sm80/cost_model.cpp"
#include "gemm/sm80/heuristics.cpp"
#include "gemm/sm80/instance_table.h"
#include "gemm/sm80/kernel.h"

namespace smem::gemm::sm80::inline SMEM_BUILD {

constexpr int index_of_tile(std::string_view name) {
  int tile = 0;
  while (TILES[tile].name != name) ++tile;
  return tile;
}

/// The program defines these.
template <>
MmaKernel<half> find_kernel<half>(int tile, Major a, Major b);
template <>
MmaKernel<float> find_kernel<float>(int tile, Major a, Major b);
template <>
MmaKernel<bfloat16> find_kernel<bfloat16>(int, Major, Major) {
  return nullptr;
}

}  // namespace smem::gemm::sm80::inline SMEM_BUILD

// Behind the kernels that it launches.
#include "gemm/sm80/launch.cu"

namespace smem::gemm::inline SMEM_BUILD {

// The problems need no packing and no split-K.
LoadableOperands pack_operands(const Problem& problem, const OperandDesc&, const OperandDesc&, bool,
                               WorkspaceAllocator&, const Device&) {
  return {problem.a.data, problem.b.data};
}
void reduce_split_k(const Problem&, int64_t, int, const float*, const Device&) {
  throw std::runtime_error("no problem has slices of K");
}

}  // namespace smem::gemm::inline SMEM_BUILD

namespace smem::test {

/// -1, 0 and 1: all sums are exact.
template <typename T>
class Number {
 public:
  explicit Number(unsigned seed) : random_(seed) {}
  T next() { return T(static_cast<float>(static_cast<int>(random_() % 3) - 1)); }

 private:
  std::mt19937 random_;
};

/// X(mn, k) of each matrix of a batch: rows along k (K-major) or along mn, `pitch` apart. It begins
/// `first` elements behind an aligned address, and so many are between two matrices. NaN is between
/// the rows.
template <typename T>
class TestOperand {
 public:
  TestOperand(const char* name, unsigned seed, int64_t batch, int64_t mn, int64_t k, bool k_major,
              int64_t pitch, int64_t first)
      : mn_stride(k_major ? pitch : 1),
        k_stride(k_major ? 1 : pitch),
        batch_stride(pitch * (k_major ? mn : k) + first),
        memory_(name, static_cast<size_t>(batch * batch_stride), T(NAN),
                static_cast<size_t>(first)) {
    Number<T> number(seed);
    for (int64_t b = 0; b < batch; ++b) {
      for (int64_t i = 0; i < mn; ++i) {
        for (int64_t j = 0; j < k; ++j) at(b, i, j) = number.next();
      }
    }
  }
  T& at(int64_t b, int64_t i, int64_t j) {
    return data()[b * batch_stride + i * mn_stride + j * k_stride];
  }
  T* data() { return memory_.data(); }

  const int64_t mn_stride, k_stride, batch_stride;

 private:
  Buffer<T> memory_;
};

struct MmaCase {
  int tile;
  int64_t M, N, K;
  bool a_k_major, b_k_major;
  int64_t batch = 1;
  int64_t first = 0;  ///< of both operands, see TestOperand
  int64_t gap = -1;   ///< between an operand's rows; below zero: up to whole vectors
};

/// Runs the case; throws what is wrong.
template <typename T>
void run(const MmaCase& c, const Device& device) {
  const auto pitch = [&](int64_t row) { return c.gap < 0 ? (row + 7) / 8 * 8 : row + c.gap; };
  TestOperand<T> a("a", 1, c.batch, c.M, c.K, c.a_k_major, pitch(c.a_k_major ? c.K : c.M), c.first);
  TestOperand<T> b("b", 2, c.batch, c.N, c.K, c.b_k_major, pitch(c.b_k_major ? c.K : c.N), c.first);
  Buffer<T> out("out", static_cast<size_t>(c.batch * c.M * c.N), T(NAN));
  gemm::Problem problem{};
  constexpr bool TF32 = sizeof(T) == 4;
  problem.dtype = problem.out_dtype = problem.c_dtype = TF32 ? DType::f32 : DType::f16;
  problem.precision = TF32 ? gemm::Precision::tf32 : gemm::Precision::fp32;
  problem.M = c.M;
  problem.N = c.N;
  problem.K = c.K;
  problem.a = {a.data(), a.mn_stride, a.k_stride};
  problem.b = {b.data(), b.k_stride, b.mn_stride};
  problem.out = {out.data(), c.N, 1};
  if (c.batch > 1) {
    problem.batch.rank = 1;
    problem.batch.size[0] = c.batch;
    problem.batch.stride[gemm::A][0] = a.batch_stride;
    problem.batch.stride[gemm::B][0] = b.batch_stride;
    problem.batch.stride[gemm::OUT][0] = c.M * c.N;
  }
  problem.variant = c.tile;
  gemm::sm80::launch(problem, gemm::sm80::plan(problem, device), nullptr, device);
  for (int64_t i = 0; i < c.batch; ++i) {
    for (int64_t m = 0; m < c.M; ++m) {
      for (int64_t n = 0; n < c.N; ++n) {
        float expected = 0;
        for (int64_t k = 0; k < c.K; ++k) {
          expected += static_cast<float>(a.at(i, m, k)) * static_cast<float>(b.at(i, n, k));
        }
        if (static_cast<float>(out.data()[(i * c.M + m) * c.N + n]) != expected) {
          throw std::runtime_error("wrong result");
        }
      }
    }
  }
}

}  // namespace smem::test
