// The memory layout of a GEMM operand, as cute::UMMA::Major and cute::GMMA::Major.
#pragma once

namespace smem {

/// The contiguous index of an operand: K, or the other one (M for A, N for B).
enum class Major : int { K, MN };

}  // namespace smem
