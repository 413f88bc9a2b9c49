// Runs the kernels of fp16x3_kernels_*.cpp on small problems, at several timings of what is
// asynchronous, until one has a wrong result or ends with an error. Prints that as JSON.
#include "gemm/fp16x3/fp16x3.cu"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <random>
#include <string>
#include <vector>

#include "gemm/fp16x3/split_problem.h"
#include "gemm/sm90/tensor_map.cu"

#ifndef SMEM_FP16X3_VARIANT
#define SMEM_FP16X3_VARIANT 0
#endif

namespace smem::gemm {
inline namespace SMEM_BUILD {
const Kernel double_buffered{};  // takes what fp16x3 does not: nothing here

uint32_t counter = 0;
bool has_counter = false;
uint32_t* tile_counter(const Device&) { return has_counter ? &counter : nullptr; }
}  // namespace SMEM_BUILD
}  // namespace smem::gemm

namespace {

using namespace smem;        // NOLINT(google-build-using-namespace)
using namespace smem::gemm;  // NOLINT(google-build-using-namespace)

struct Case {
  const char* name;
  int64_t M, N, K;
  int growth;          ///< binades by which B grows along K, so that its columns are scaled again
  bool has_outliers;   ///< in A and in B
  bool has_fallbacks;  ///< also in B, not only in A
  bool keeps_split = false;  ///< of B
  int sms = 1;               ///< one block computes all tiles; of two, a cluster
  int first_row_of_b = 0;    ///< B is MN-major, and its rows begin with this element
  int exponent = 0;          ///< of a power of two that A and B are multiplied by
};

/// Numbers of 24 bits, of A or of B; stored along K.
std::vector<float> numbers(const Case& c, bool is_a) {
  const int64_t lines = is_a ? c.M : c.N;
  const int growth = is_a ? 6 : c.growth;
  std::mt19937 random(is_a ? 1 : 2);
  std::vector<float> values(static_cast<size_t>(lines * c.K));
  const auto at = [&](int64_t line, int64_t k) -> float& {
    return values[static_cast<size_t>(line * c.K + k)];
  };
  for (int64_t line = 0; line < lines; ++line) {
    for (int64_t k = 0; k < c.K; ++k) {
      const float one = static_cast<float>(random() >> 8) / (1 << 23) - 1.0f;
      const auto grown = static_cast<int>(growth * k / c.K + line % 3);
      at(line, k) = std::ldexp(one, grown + c.exponent);
    }
  }
  if (!c.has_outliers) return values;
  // Line 1 is an outlier beside a large number that is only multiplied by zeros.
  const int64_t own = is_a ? 0 : 1, other = 1 - own;
  for (int64_t k = 0; k < c.K; ++k) at(1, k) = 0;
  at(1, own) = 1;
  at(1, c.K / 2 + own) = 0x1.234568p-40f;
  for (int64_t line = 0; line < lines; ++line) at(line, other) = 0;
  if (is_a || c.has_fallbacks) at(lines - 1, 3) = at(lines - 1, 4) = 0x1p-40f;
  return values;
}

/// B in rows along N.
std::vector<float> in_rows(const Case& c, const std::vector<float>& b) {
  std::vector<float> rows(b.size() + static_cast<size_t>(c.first_row_of_b));
  for (int64_t k = 0; k < c.K; ++k) {
    for (int64_t n = 0; n < c.N; ++n) {
      rows[static_cast<size_t>(c.first_row_of_b + k * c.N + n)] =
          b[static_cast<size_t>(n * c.K + k)];
    }
  }
  return rows;
}

/// Of C: so small that it hides no missing product.
constexpr float C_ELEMENT = 0x1p-60f;

/// The error of a sum is a part of the sum of its terms' magnitudes: docs/accuracy.md.
bool is_right(double found, double expected, double magnitude) {
  return std::abs(found - expected) <= std::ldexp(magnitude, -18);
}

/// Bytes that are not zero, at an address that the kernels take.
struct Memory {
  std::vector<unsigned char> bytes;

  explicit Memory(size_t size) : bytes(size + 256, 0xff) {}
  unsigned char* begin() {
    return bytes.data() + (256 - reinterpret_cast<uintptr_t>(bytes.data()) % 256);
  }
};

/// What is wrong with out = A B + beta C, or nothing.
std::string run(const Case& c) {
  const std::vector<float> a = numbers(c, true), b = numbers(c, false);
  std::vector<float> out(static_cast<size_t>(c.M * c.N), C_ELEMENT);
  Problem problem{};
  problem.dtype = problem.out_dtype = problem.c_dtype = DType::f32;
  problem.M = c.M;
  problem.N = c.N;
  problem.K = c.K;
  problem.a = {a.data(), c.K, 1};
  problem.b = {b.data(), 1, c.K};
  std::vector<float> b_rows;
  if (c.first_row_of_b > 0) {
    b_rows = in_rows(c, b);
    problem.b = {b_rows.data() + c.first_row_of_b, c.N, 1};
  }
  problem.out = {out.data(), c.N, 1};
  if (c.has_outliers) {
    problem.c = problem.out;
    problem.beta = 2;
  }
  problem.precision = Precision::fp32;
  problem.variant = SMEM_FP16X3_VARIANT;
  Device device = HOST_DEVICE;
  device.sm_count = c.sms;
  Memory b_split(fp16x3::b_split_bytes(problem));
  if (c.keeps_split) problem.b_split = b_split.begin();
  Memory workspace(fp16x3_row.workspace_bytes(problem, device));
  problem.workspace = workspace.begin();
  try {
    if (c.keeps_split) fp16x3::split_b(problem, problem.b_split, nullptr, device);
    fp16x3_row.launch(problem, device);
  } catch (const std::exception& error) {
    return error.what();
  }
  for (int64_t m = 0; m < c.M; ++m) {
    for (int64_t n = 0; n < c.N; ++n) {
      double expected = problem.beta * C_ELEMENT, magnitude = expected;
      for (int64_t k = 0; k < c.K; ++k) {
        const double product = double{a[static_cast<size_t>(m * c.K + k)]} *
                               double{b[static_cast<size_t>(n * c.K + k)]};
        expected += product;
        magnitude += std::abs(product);
      }
      if (!is_right(out[static_cast<size_t>(m * c.N + n)], expected, magnitude)) {
        return "wrong result";
      }
    }
  }
  return counter == 0 ? "" : "counter not reset";
}

}  // namespace

int main() {
  // Each pipeline goes round several times. 280 are nine k blocks: the last interval is short.
  const Case cases[] = {{"tiles", 200, 72, 700, 0, false, false},
                        {"outliers", 140, 40, 280, 0, true, false},
                        {"split-K", 70, 16, 2048, 0, true, true},
                        {"skinny", 13, 72, 900, 0, true, true},
                        {"skinny, growing", 13, 40, 900, 6, false, false},
                        {"skinny, small", 13, 40, 900, 0, false, false, false, 1, 0, -65},
                        {"again", 13, 40, 900, 25, false, false},
                        {"kept", 13, 72, 900, 6, true, true, true},
                        {"kept, split-K", 9, 16, 2048, 0, true, true, true},
                        {"kept, tiles", 70, 40, 280, 0, true, true, true},
                        {"rows", 13, 75, 900, 0, false, false, false, 1, 1},
                        {"odd rows of out", 70, 75, 280, 0, false, false},
                        {"columns", 15, 200, 900, 0, true, true},
                        {"columns, growing", 14, 72, 900, 6, false, false},
                        {"columns, again", 16, 140, 700, 25, false, false},
                        {"columns, MN-major", 15, 72, 900, 6, true, true, false, 1, 4},
                        {"columns, many rows", 60, 200, 900, 6, true, true},
                        {"small products", 70, 40, 280, 0, false, false, false, 1, 0, -65},
                        {"pairs of blocks", 200, 200, 280, 0, true, true, false, 2},
                        {"short K", 40, 150, 61, 0, true, true},
                        {"short K, one row", 1, 40, 64, 6, false, false},
                        {"short K, rows", 13, 75, 50, 0, false, false, false, 1, 1},
                        {"short K, small", 20, 40, 64, 0, false, false, false, 1, 0, -65}};
  for (const char* timing : {"0", "1", "2", "late", "early"}) {
    setenv("SMEM_ASYNC_TIMING", timing, 1);
    // Only the variant wgmma takes tiles from a counter.
    for (const bool with_counter : {false, true}) {
      if (with_counter && SMEM_FP16X3_VARIANT != 0) continue;
      has_counter = with_counter;
      for (const Case& c : cases) {
        // Only the variant wgmma has kernels for them.
        if ((c.first_row_of_b > 0 || c.M == 60) && SMEM_FP16X3_VARIANT != 0) continue;
        const std::string found = run(c);
        if (found.empty()) continue;
        std::printf("{\"timing\": \"%s\", \"case\": \"%s\", \"found\": \"%s\"}\n", timing, c.name,
                    found.c_str());
        return 0;
      }
    }
  }
  std::printf("{\"found\": \"\"}\n");
}
