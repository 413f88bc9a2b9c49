// The elements that halves cannot give.
#pragma once

#include <cstdint>

#include "gemm/gemm.h"

namespace smem::gemm::halves {

/// Which lines halves could not carry: 1 for them, member after member.
struct Marks {
  const uint8_t *rows, *cols;
  int64_t next_rows, next_cols;  ///< to the next member's, 0 where all share
};

/// Computes the elements in marked rows and columns by float32 fmas, as the SIMT kernels do. The
/// problem's batch is one loop at most.
void compute_exactly(const Problem& problem, const Marks& marks, const Device& device);

}  // namespace smem::gemm::halves
