// Which elements of a matrix the registers of a warp's lanes hold, in mma.sync and in wgmma alike.
// PTX ISA, "Matrix Fragments for mma.m16n8k16" and "Register Fragments" of wgmma.
#pragma once

#include <cstdint>

#include "cpu_emulator/sm90/tensor_core.h"

namespace smem::cpu_emulator::sm90 {

constexpr int FRAGMENT_ROWS = 16;  ///< of A and of the accumulators, per warp

/// A lane's registers of the accumulators: register i is in row lane / 4, or eight below if i & 2,
/// and in column 8 (i / 4) + 2 (lane % 4) + i % 2.
struct Position {
  int row, col;
};
inline Position position_of_accumulator(unsigned lane, int i) {
  return {static_cast<int>(lane / 4) + (i & 2) * 4,
          i / 4 * 8 + static_cast<int>(lane % 4) * 2 + i % 2};
}

/// Calls visit(k, element) for the 4 bytes of K of a register that lane `lane` has in half `half`
/// of K; elements are their bits.
template <typename Visit>
void for_each_element(Format format, unsigned lane, int half, uint32_t bits, const Visit& visit) {
  const int bytes = element_bytes(format), per_register = 4 / bytes;
  const int k = half * (mma_k(format) / 2) + static_cast<int>(lane % 4) * per_register;
  for (int i = 0; i < per_register; ++i) {
    visit(k + i, bytes == 4 ? bits : bits >> (16 * i) & 0xffff);
  }
}

/// Writes the lane's fragment of A into rows of mma_k(format) elements. It has four registers: rows
/// lane / 4 and eight below, in the first half of K and in the second.
inline void gather_a(Format format, unsigned lane, const uint32_t* registers, uint32_t* a) {
  for (int r = 0; r < 4; ++r) {
    const int row = static_cast<int>(lane / 4) + r % 2 * 8;
    for_each_element(format, lane, r / 2, registers[r],
                     [&](int k, uint32_t bits) { a[row * mma_k(format) + k] = bits; });
  }
}

/// Writes the lane's fragment of an mma.sync's B into rows of MOST_COLS elements: column lane / 4,
/// the first half of K and the second.
inline void gather_b(Format format, unsigned lane, const uint32_t* registers, uint32_t* b) {
  for (int r = 0; r < 2; ++r) {
    for_each_element(format, lane, r, registers[r],
                     [&](int k, uint32_t bits) { b[k * MOST_COLS + lane / 4] = bits; });
  }
}

}  // namespace smem::cpu_emulator::sm90
