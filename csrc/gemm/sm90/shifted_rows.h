// Stores a warp's staged rows to rows of out that begin at any element, by vectors of 16 bytes.
//
// Each row is staged as many elements behind a vector as it is in out, so that whole vectors leave.
// A row that has more columns than a subtile is stored subtile by subtile. What the last vector of
// one has too few elements for is kept for the next:
//
//   subtile 0    vector 0 . . . e0 e1 ... e4 | vector 1 | ... | vector 8 e61 e62 e63 . . . . .
//   subtile 1    vector 0 e61 e62 e63 e64 ...| vector 1 | ... | vector 8 ...
//
// Only the first vector of a row and the last one are stored by elements.
#pragma once

#include "device/opaque.h"
#include "device/vector.h"
#include "device/warpgroup.h"

namespace smem::gemm::sm90::inline SMEM_BUILD {

/// A row of out, from a subtile's first column on.
template <typename T>
struct OutRow {
  T* data;
  bool is_valid;  ///< whether out has the row
};

/// 16 rows of 128 bytes, a subtile. Places in a staged row are counted from the aligned vector in
/// which the row begins in out. A lane's vector and rows are the same in all functions.
template <typename T>
struct ShiftedRows {
  unsigned char* staging;

  static constexpr int ROWS = 16, VEC = VECTOR_WIDTH<T>, VECS = 8, COLS = VECS * VEC;
  /// One vector more than a subtile has: rows are four banks apart.
  static constexpr int PITCH = (VECS + 1) * 16, BYTES = ROWS * PITCH;
  static constexpr int ROWS_PER_PASS = WARP / VECS, PASSES = ROWS / ROWS_PER_PASS;

  /// Call it before a subtile is staged: it keeps what the subtile before has left. For the first
  /// one of a row (`is_first`) it fills the ends, which are read but not stored.
  __device__ __forceinline__ void begin(bool is_first) const {
    __syncwarp();  // the subtile before has been read
    const int row = threadIdx.x % WARP;
    auto* const first = reinterpret_cast<T*>(staging + row * PITCH);
    if (row < ROWS) {
      if (is_first) store_vector<VEC>(first + COLS, Vector<T, VEC>{});
      store_vector<VEC>(first, load_vector<VEC>(first + COLS));
    }
    __syncwarp();
  }

  /// Where column `col` of a row is staged; `data`: its first column in out.
  __device__ __forceinline__ T* staged(int row, const T* data, int col) const {
    const auto shift = reinterpret_cast<uintptr_t>(data) % 16;
    return reinterpret_cast<T*>(staging + row * PITCH + shift) + col;
  }

  /// Stores `cols` staged columns of each row of out: out_row(row) is an OutRow. All COLS, unless
  /// this is the row's last subtile.
  template <typename OutRowOf>
  __device__ __forceinline__ void store(const OutRowOf& out_row, int cols, bool is_first,
                                        bool is_last) const {
    __syncwarp();
    const int lane = threadIdx.x % WARP, part = lane % VECS, first_row = lane / VECS;
    Rows rows;
#pragma unroll
    for (int pass = 0; pass < PASSES; ++pass) {
      const OutRow<T> row = out_row(first_row + pass * ROWS_PER_PASS);
      const auto address = reinterpret_cast<uintptr_t>(row.data);
      const int shift = static_cast<int>(address % 16 / sizeof(T));
      rows.aligned[pass] = reinterpret_cast<T*>(address - address % 16);
      opaque(rows.aligned[pass]);
      rows.begin[pass] = is_first ? shift : 0;
      rows.end[pass] = !row.is_valid ? 0 : is_last ? shift + cols : COLS;
    }
    const auto* const from = reinterpret_cast<const T*>(staging + first_row * PITCH);
    store_vectors(rows, from, part);
    if (is_first) store_elements<true>(rows, from, part);
    if (is_last) store_elements<false>(rows, from, part);
  }

 private:
  static constexpr int PASS_PITCH = ROWS_PER_PASS * PITCH / static_cast<int>(sizeof(T));

  /// A lane's rows: their first aligned vector in out, and the places that are stored.
  struct Rows {
    T* aligned[PASSES];
    int begin[PASSES], end[PASSES];
  };

  __device__ __forceinline__ static void store_vectors(const Rows& rows, const T* from, int part) {
    Vector<T, VEC> values[PASSES];
#pragma unroll
    for (int pass = 0; pass < PASSES; ++pass) {
      values[pass] = load_vector<VEC>(from + pass * PASS_PITCH + part * VEC);
    }
#pragma unroll
    for (int pass = 0; pass < PASSES; ++pass) {
      if (rows.begin[pass] <= part * VEC && part * VEC + VEC <= rows.end[pass]) {
        store_global_vector<VEC>(rows.aligned[pass] + part * VEC, values[pass]);
      }
    }
  }

  /// Stores the elements of each row's first vector, or else those of its last one if that is
  /// another, where the vector is not whole.
  template <bool OF_FIRST>
  __device__ __forceinline__ static void store_elements(const Rows& rows, const T* from, int part) {
    T values[PASSES];
    int places[PASSES];
#pragma unroll
    for (int pass = 0; pass < PASSES; ++pass) {
      const int begin = rows.begin[pass], end = rows.end[pass];
      const int vector = OF_FIRST ? 0 : end / VEC * VEC;
      const bool is_whole = begin <= vector && vector + VEC <= end;
      const bool is_done = !OF_FIRST && vector == 0 && begin > 0;
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
