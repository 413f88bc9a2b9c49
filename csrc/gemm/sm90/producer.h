// What TMA is told to load of an operand, by one thread.
#pragma once

#include "device/major.h"
#include "device/tma.h"
#include "gemm/sm90/params.h"

namespace smem::gemm::sm90 {
inline namespace SMEM_BUILD {

/// Loads an operand's tile of at most ROWS rows; or with the SHARERS blocks of a cluster, a part of
/// it for all of them. Rows that nobody needs are not loaded, not even as zeros: those take the
/// TMA longer than others, and what stands in shared memory instead meets no row that is
/// kept.
template <typename T, Major MAJOR, int ROWS, int CLUSTER, int SHARERS = 1>
struct Loader {
  static constexpr int PANEL = STEP_K<T>;  ///< neighbours in a row of an MN-major tile
  static constexpr bool BY_PANELS = MAJOR == Major::MN;

  const CUtensorMap* maps;
  int rows;  ///< of K-major tiles each of the SHARERS loads an equal part
  int part;  ///< which of SHARERS this block loads

  __device__ __forceinline__ Loader(const CUtensorMap* all, const TileRows& tile, int row,
                                    int part = 0)
      : maps(all), rows(tile.rows), part(part) {
    // The blocks of a cluster, of which some may have no rows at all, load whole tiles.
    if (!BY_PANELS && CLUSTER == 1 && row + tile.rows > tile.end) {
      maps = all + 1;
      rows = tile.last_rows;
    }
  }

  __device__ __forceinline__ void load(unsigned char* tile, int row, int k, int batch,
                                       Barrier& barrier) const {
    if constexpr (!BY_PANELS) {
      const int first = part * (rows / SHARERS);
      box(maps[0], tile + first * ROW_BYTES, {k, row + first, batch}, barrier);
    } else {
      const auto panel_at = [&](int panel, const CUtensorMap& map) {
        if (panel % SHARERS != part) return;
        const int first = panel * PANEL;
        box(map, tile + first * ROW_BYTES, {row + first, k, batch}, barrier);
      };
      const int whole = rows / PANEL;
#pragma unroll
      for (int panel = 0; panel < ROWS / PANEL; ++panel) {
        if (panel < whole) panel_at(panel, maps[0]);
      }
      if (rows % PANEL != 0) panel_at(whole, maps[1]);
    }
  }
  /// What arrives in this block, from all that share.
  __device__ __forceinline__ uint32_t bytes() const { return rows * ROW_BYTES; }

 private:
  __device__ __forceinline__ void box(const CUtensorMap& map, unsigned char* to, Coordinates at,
                                      Barrier& barrier) const {
    if constexpr (SHARERS > 1) {
      tma_load(to, map, at, barrier, (1 << SHARERS) - 1);
    } else {
      tma_load(to, map, at, barrier);
    }
  }
};

}  // namespace SMEM_BUILD
}  // namespace smem::gemm::sm90
