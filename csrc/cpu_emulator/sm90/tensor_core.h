// How Hopper's tensor cores multiply and add. Khattak and Mikaitis, "Accurate Models of NVIDIA
// Tensor Cores" (arXiv 2512.07004), found it by experiments; bench/fp16x3_model.py is the same
// model in Python, and docs/accuracy.md derives bounds from it.
//
// For one element, an instruction adds K products and the accumulator:
//
//   1. Products are exact.
//   2. All addends are aligned to the largest exponent, and truncated two bits below the last bit
//      that a float32 of this exponent has. A product's exponent is the sum of its factors'; a
//      subnormal factor has the exponent of the smallest normal number.
//   3. Their sum, which is exact, is truncated to the 24 bits of a float32.
#pragma once

#include <cstdint>

#include "cpu_emulator/cuda/warp_matrix_api.h"

namespace smem::cpu_emulator::sm90 {

using Format = smem_mma_format;

constexpr int element_bytes(Format format) { return format == Format::tf32 ? 4 : 2; }
/// K of one instruction: 32 bytes.
constexpr int mma_k(Format format) { return 32 / element_bytes(format); }

constexpr int MOST_K = 16, MOST_COLS = 256;

/// Floating-point operations of an instruction; a multiply-add is two.
constexpr uint64_t flop_of(int rows, int cols, int k) {
  return 2 * static_cast<uint64_t>(rows * cols * k);
}
/// The cycles that a tensor core takes for them at its full rate: 1024 FLOP of 16-bit numbers a
/// cycle, half as many in tf32. An SM has four, among which a wgmma is spread: 4096 FLOP a cycle.
/// (NVIDIA H100 Tensor Core GPU Architecture: 989 TFLOP/s by 132 SMs at 1.83 GHz.)
constexpr uint64_t full_rate_cycles(Format format, int rows, int cols, int k) {
  return flop_of(rows, cols, k) / (format == Format::tf32 ? 512 : 1024);
}

/// A float's bits rounded to tf32, as cvt.rn.tf32 and TMA round them: 10 bits of mantissa, ties to
/// even. NaN and Inf stay.
constexpr uint32_t rounded_to_tf32(uint32_t bits) {
  constexpr uint32_t EXPONENT = 0x7f800000, CUT = 13;
  if ((bits & EXPONENT) == EXPONENT) return bits;
  bits += (1u << (CUT - 1)) - 1 + (bits >> CUT & 1);
  return bits & ~((1u << CUT) - 1);
}

/// accum = A @ B + (accumulate ? accum : 0) by one instruction. A has `rows` rows of K elements, B
/// has K rows of MOST_COLS elements, of which `cols` are used, and `accum` has rows of MOST_COLS.
/// Elements are their bits. The low 13 bits of a float are ignored: it is multiplied as tf32.
void multiply_add(Format format, int rows, int cols, const uint32_t* a, const uint32_t* b,
                  float* accum, bool accumulate);

}  // namespace smem::cpu_emulator::sm90
