// Stores a warp's staged rows to rows of out that begin at any element, by whole sectors wherever
// possible (stored_columns.h).
//
// Each row is staged as many elements behind a sector as it is in out. A row that has more columns
// than a subtile is stored subtile by subtile. What lies in the sector behind a subtile's last one
// is kept for the next subtile:
//
//   subtile 0    sector 0 . . . e0 e1 ... | sector 1 | sector 2 | sector 3 | e61 e62 e63 . . .
//   subtile 1    sector 0 e61 e62 e63 ... | sector 1 | sector 2 | sector 3 | ...
#pragma once

#include "device/opaque.h"
#include "device/vector.h"
#include "device/warpgroup.h"
#include "gemm/sm90/stored_columns.h"

namespace smem::gemm::sm90::inline SMEM_BUILD {

/// A row of out, from a tile's first column on.
template <typename T>
struct OutRow {
  T* data;
  bool is_valid;  ///< whether out has the row
};

/// 16 rows of 128 bytes, a subtile. A lane's vector and rows are the same in all functions. They
/// are computed for each subtile again: read from a table in shared memory, they took longer.
template <typename T>
struct ShiftedRows {
  unsigned char* staging;

  static constexpr int ROWS = 16, VEC = VECTOR_WIDTH<T>, VECS = 8, COLS = VECS * VEC;
  static constexpr int SECTOR = SECTOR_BYTES / int{sizeof(T)};
  /// A subtile's vectors, those of one sector more, and one so that rows are 12 banks apart: the
  /// four banks that a row's lanes write are then other ones for each of eight rows.
  static constexpr int PITCH = (VECS + 3) * 16, BYTES = ROWS * PITCH;
  static constexpr int ROWS_PER_PASS = WARP / VECS, PASSES = ROWS / ROWS_PER_PASS;

  /// Whether a subtile has columns that are stored. The last one stores what it has in the sector
  /// behind it, too.
  __device__ __forceinline__ static bool is_used(int subtile, const StoredColumns& columns) {
    return subtile * COLS < columns.needed();
  }

  /// Call it before a subtile is staged: it keeps what the subtile before has left. For a tile's
  /// first one it fills the ends, which are read but not stored.
  __device__ __forceinline__ void begin(int subtile) const {
    __syncwarp();  // the subtile before has been read
    const int lane = threadIdx.x % WARP;
    auto* const first = reinterpret_cast<T*>(staging + lane / 2 * PITCH) + lane % 2 * VEC;
    if (subtile == 0) store_vector<VEC>(first + COLS, Vector<T, VEC>{});
    store_vector<VEC>(first, load_vector<VEC>(first + COLS));
    __syncwarp();
  }

  /// Where column `col` of a subtile's row is staged; `data`: the tile's first column in out.
  __device__ __forceinline__ T* staged(int row, const T* data, int col) const {
    const auto shift = reinterpret_cast<uintptr_t>(data) % SECTOR_BYTES;
    return reinterpret_cast<T*>(staging + row * PITCH + shift) + col;
  }

  /// Stores the places of a subtile of each row of out: out_row(row) is an OutRow.
  template <typename OutRowOf>
  __device__ __forceinline__ void store(const OutRowOf& out_row, const StoredColumns& columns,
                                        int subtile) const {
    __syncwarp();
    const int lane = threadIdx.x % WARP, part = lane % VECS, first_row = lane / VECS;
    const int first_place = subtile * COLS;
    const bool is_last = !is_used(subtile + 1, columns);
    Rows rows;
#pragma unroll
    for (int pass = 0; pass < PASSES; ++pass) {
      const OutRow<T> row = out_row(first_row + pass * ROWS_PER_PASS);
      const auto address = reinterpret_cast<uintptr_t>(row.data);
      const int shift = static_cast<int>(address % SECTOR_BYTES / sizeof(T));
      rows.aligned[pass] = reinterpret_cast<T*>(address - address % SECTOR_BYTES) + first_place;
      opaque(rows.aligned[pass]);
      const int end = columns.template end<SECTOR>(shift) - first_place;
      rows.begin[pass] = max(columns.template begin<SECTOR>(shift) - first_place, 0);
      rows.end[pass] = row.is_valid ? max(is_last ? end : min(end, COLS), 0) : 0;
    }
    const auto* const from = reinterpret_cast<const T*>(staging + first_row * PITCH);
    store_vectors(rows, from, part);
    if (subtile == 0 && !columns.shares_first) store_elements<true>(rows, from, part);
    if (is_last && !columns.shares_last) {
      if (part == 0) store_vectors(rows, from, VECS);
      store_elements<false>(rows, from, part);
    }
  }

 private:
  static constexpr int PASS_PITCH = ROWS_PER_PASS * PITCH / static_cast<int>(sizeof(T));

  /// A lane's rows: the subtile's first place in out, and the places that are stored.
  struct Rows {
    T* aligned[PASSES];
    int begin[PASSES], end[PASSES];
  };

  __device__ __forceinline__ static void store_vectors(const Rows& rows, const T* from, int vec) {
    Vector<T, VEC> values[PASSES];
#pragma unroll
    for (int pass = 0; pass < PASSES; ++pass) {
      values[pass] = load_vector<VEC>(from + pass * PASS_PITCH + vec * VEC);
    }
#pragma unroll
    for (int pass = 0; pass < PASSES; ++pass) {
      if (rows.begin[pass] <= vec * VEC && vec * VEC + VEC <= rows.end[pass]) {
        store_global_vector<VEC>(rows.aligned[pass] + vec * VEC, values[pass]);
      }
    }
  }

  /// Stores the elements of the vector in which a row begins, or else those of the one in which it
  /// ends if that is another, where the vector is not whole.
  template <bool OF_FIRST>
  __device__ __forceinline__ static void store_elements(const Rows& rows, const T* from, int part) {
    T values[PASSES];
    int places[PASSES];
#pragma unroll
    for (int pass = 0; pass < PASSES; ++pass) {
      const int begin = rows.begin[pass], end = rows.end[pass];
      const int first = begin / VEC * VEC, vector = OF_FIRST ? first : end / VEC * VEC;
      const bool is_whole = begin <= vector && vector + VEC <= end;
      const bool is_done = !OF_FIRST && vector == first && begin > first;
      values[pass] = from[pass * PASS_PITCH + vector + part % VEC];
      places[pass] = part < VEC && !is_whole && !is_done ? vector + part : end;
    }
#pragma unroll
    for (int pass = 0; pass < PASSES; ++pass) {
      if (rows.begin[pass] <= places[pass] && places[pass] < rows.end[pass]) {
        rows.aligned[pass][places[pass]] = values[pass];
      }
    }
  }
};

}  // namespace smem::gemm::sm90::inline SMEM_BUILD
