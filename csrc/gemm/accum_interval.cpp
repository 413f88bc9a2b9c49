#include "gemm/accum_interval.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "gemm/operand_desc.h"

namespace smem::gemm {

/// Less than all of K for outputs so narrow that their tiles alone cannot fill the SMs. More
/// intervals gain more if M is small and cost more if M is large, because their results are added:
/// 64 x 256 x 6144 takes 13.1 us with one interval and 6.5 us with eight, 12,544 x 128 x 6400
/// 10% more. Wider outputs gain less, unless K is long: 64 x 1024 x 28672 takes 53 us and 22 us,
/// 8192 x 1024 x 28672 takes 599 us and 687 us. The number of intervals is a power of two, as the
/// number of tiles often is; together they fill nearly all SMs then: 2048 x 200 x 9000 takes 43 us
/// with nine intervals and 33 us with eight.
///
/// The limits of narrow outputs are fitted to 1,120 problems in bfloat16 and tf32 with one, two,
/// four and eight intervals on an H100 (bench/NOTES.md): those of more than one interval take
/// 0.68 times as long (geometric mean), and at most 1.19 times.
int64_t accum_interval_of(const Problem& problem) {
  constexpr int64_t NARROW_N = 512, NARROW_K = 3072, NARROW_K_PER_N = 12;
  constexpr int64_t WIDE_N = 2048, WIDE_K_PER_N = 24;
  constexpr int64_t SMALLEST_INTERVAL = 560;
  constexpr int64_t MOST_INTERVALS = 128;
  constexpr int64_t FEW_COLUMNS = 256,
                    MOST_COLUMNS = 8192;  // beyond few: of all intervals together
  const int64_t N = problem.N, K = problem.K, k_tiles = ceil_div(K, line_elements(problem.dtype));
  // What a k-tile takes depends on its bytes.
  const int64_t k_of_16_bits = k_tiles * line_elements(DType::bf16);
  const bool is_cut = N <= NARROW_N ? k_of_16_bits >= std::max(NARROW_K, NARROW_K_PER_N * N)
                                    : N <= WIDE_N && K >= WIDE_K_PER_N * N;
  if (!is_cut) return k_tiles;
  // Fitted to a sweep of 433 narrow problems over the number of intervals.
  const auto fitted = static_cast<int64_t>(3.3 * std::pow(double(K) / double(N), 0.4));
  // 64 columns for each of 128 SMs fill them.
  const int64_t filling = N <= FEW_COLUMNS ? MOST_INTERVALS : MOST_COLUMNS / N;
  const auto most = static_cast<uint64_t>(
      std::min({MOST_INTERVALS, k_of_16_bits / SMALLEST_INTERVAL, fitted, filling}));
  return round_up(ceil_div(k_tiles, static_cast<int64_t>(std::bit_floor(most))), 2);
}

}  // namespace smem::gemm
