// How a matrix of a product lies in memory.
#pragma once

namespace smem {

/// Which index of an operand is contiguous: K, or the other one (M of A, N of B).
enum class Major : int { K, MN };

}  // namespace smem
