// The producer's TMA loads of one operand.
#pragma once

#include "device/major.h"
#include "device/tma.h"
#include "gemm/sm90/params.h"

namespace smem::gemm::sm90::inline SMEM_BUILD {

/// Loads an operand's tile of at most ROWS rows ("row" is a row of A or a column of B). With
/// MULTICAST > 1 it loads one part of the tile and multicasts it to that many blocks of the
/// cluster, which load the other parts. Rows beyond the operand are not loaded, not even as zeros:
/// zeros take TMA longer than other rows (2.5 ns and 0.95 ns). What shared memory holds in their
/// place only affects results that are not stored.
template <typename T, Major MAJOR, int ROWS, int CLUSTER, int MULTICAST = 1>
struct OperandLoader {
  /// An MN-major tile consists of panels: k-tiles of PANEL_ROWS rows, a row of shared memory for
  /// each k.
  static constexpr int PANEL_ROWS = stage_row_bytes(MAJOR, ROWS, sizeof(T)) / int{sizeof(T)};
  static constexpr bool BY_PANELS = MAJOR == Major::MN;

  const CUtensorMap* maps;
  int rows;  ///< a multiple of MULTICAST for a K-major tile, of which each block loads equally many
  int rank;  ///< of this block among the MULTICAST blocks

  __device__ __forceinline__ OperandLoader(const CUtensorMap* all_maps, const LoadExtent& extent,
                                           int row, int rank = 0)
      : maps(all_maps), rows(extent.size), rank(rank) {
    // In a cluster some blocks may have no rows at all, so all of them load whole tiles.
    if (!BY_PANELS && CLUSTER == 1 && row + extent.step > extent.end) {
      maps = all_maps + 1;
      rows = extent.last_size;
    }
  }

  __device__ __forceinline__ void load(unsigned char* tile, int row, int k, int batch,
                                       Barrier& barrier) const {
    if constexpr (!BY_PANELS) {
      const int first = rank * (rows / MULTICAST);
      copy(maps[0], tile + first * ROW_BYTES, {k, row + first, batch}, barrier);
    } else {
      const auto load_panel = [&](int panel, const CUtensorMap& map) {
        if (panel % MULTICAST != rank) return;
        const int first = panel * PANEL_ROWS;
        copy(map, tile + first * ROW_BYTES, {row + first, k, batch}, barrier);
      };
      const int whole = rows / PANEL_ROWS;
#pragma unroll
      for (int panel = 0; panel < ROWS / PANEL_ROWS; ++panel) {
        if (panel < whole) load_panel(panel, maps[0]);
      }
      if (rows % PANEL_ROWS != 0) load_panel(whole, maps[1]);
    }
  }
  /// The bytes that arrive in this block, from all blocks that load for it.
  __device__ __forceinline__ uint32_t bytes() const { return rows * ROW_BYTES; }

 private:
  __device__ __forceinline__ void copy(const CUtensorMap& map, unsigned char* to, Coordinates from,
                                       Barrier& barrier) const {
    if constexpr (MULTICAST > 1) {
      tma_load(to, map, from, barrier, (1 << MULTICAST) - 1);
    } else {
      tma_load(to, map, from, barrier);
    }
  }
};

}  // namespace smem::gemm::sm90::inline SMEM_BUILD
