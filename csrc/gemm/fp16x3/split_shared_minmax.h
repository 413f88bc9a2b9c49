// The extremes of neighbouring lines in shared memory.
#pragma once

#include "device/tile.h"
#include "gemm/fp16x3/scale.h"

namespace smem::gemm::fp16x3::split {
inline namespace SMEM_BUILD {

/// Of LINES lines, as each of GROUPS of threads has found them.
template <int GROUPS, int LINES>
struct SharedExtremes {
  Tile<uint32_t, 3 * GROUPS, LINES> rows;

  /// Those of RUN lines from `line` on.
  __device__ __forceinline__ void store(int group, int line, const Extremes (&extremes)[RUN]) {
    Vector<uint32_t, RUN> largest, least, second;
#pragma unroll
    for (int i = 0; i < RUN; ++i) {
      largest.lane[i] = extremes[i].largest;
      least.lane[i] = extremes[i].least_less_one;
      second.lane[i] = extremes[i].second_less_one;
    }
    store_vector<RUN>(rows.at(3 * group, line), largest);
    store_vector<RUN>(rows.at(3 * group + 1, line), least);
    store_vector<RUN>(rows.at(3 * group + 2, line), second);
  }
  __device__ __forceinline__ void add_to(Extremes (&extremes)[RUN], int group, int line) const {
    const auto largest = load_vector<RUN>(rows.at(3 * group, line));
    const auto least = load_vector<RUN>(rows.at(3 * group + 1, line));
    const auto second = load_vector<RUN>(rows.at(3 * group + 2, line));
#pragma unroll
    for (int i = 0; i < RUN; ++i) {
      extremes[i].add({largest.lane[i], least.lane[i], second.lane[i]});
    }
  }

  /// Of one line, over all groups.
  __device__ __forceinline__ Extremes of_all(int line) const {
    Extremes all;
#pragma unroll
    for (int group = 0; group < GROUPS; ++group) {
      all.add({rows(3 * group, line), rows(3 * group + 1, line), rows(3 * group + 2, line)});
    }
    return all;
  }
};

}  // namespace SMEM_BUILD
}  // namespace smem::gemm::fp16x3::split
