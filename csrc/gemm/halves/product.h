// The product of two operands that have been split into halves (gemm/split/split.h).
#pragma once

#include <cstdint>

#include "gemm/gemm.h"

namespace smem::gemm::halves {

/// A split operand. Lines are rows of A or columns of B, and lie member after member.
struct SplitOperand {
  const void* pieces;             ///< halves: 32 hi and their 32 lo, again and again along K
  const int32_t* exponents;       ///< of lines: x = (hi + lo / 2^12) * 2^exponent
  int64_t lines, pitch, members;  ///< pitch: halves from a line to the next
};

/// out of the members of the problem's one batch loop.
void multiply(const Problem& problem, const SplitOperand& a, const SplitOperand& b,
              const Device& device);

/// The kernel's function, for cudaFuncGetAttributes.
const void* product_function();

}  // namespace smem::gemm::halves
