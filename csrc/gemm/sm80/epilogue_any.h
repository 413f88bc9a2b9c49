// Stores staged rows of accumulators into any out, with any epilogue.
#pragma once

#include "gemm/sm80/params.h"
#include "gemm/smem_layout.h"

namespace smem::gemm::sm80::inline SMEM_BUILD {

/// ROWS x WARP_N accumulators that a warp has staged in shared memory. (row0, col0): their position
/// in out.
template <typename T, int ROWS, int WARP_N>
class StagedRows {
  using Acc = Accumulator<T>;

 public:
  using Layout = SmemLayout<Acc, false, WARP_N, ROWS>;

  __device__ __forceinline__ StagedRows(const Acc* staging, const Epilogue<T>& epilogue,
                                        int64_t row0, int64_t col0)
      : staging_(staging), epilogue_(epilogue), row0_(row0), col0_(col0) {}

  __device__ __forceinline__ void store() const {
    if (!has_vectors()) return store_elements();
    if (epilogue_.c.data || epilogue_.pre.data || (ROUNDS && epilogue_.out_unrounded)) {
      return store_vectors();
    }
    const Vector<Acc, VEC> bias = load_bias();
    switch (epilogue_.activation) {
      case Activation::none:
        return store_activated<Activation::none>(bias);
      case Activation::relu:
        return store_activated<Activation::relu>(bias);
      case Activation::gelu:
        return store_activated<Activation::gelu>(bias);
      case Activation::gelu_tanh:
        return store_activated<Activation::gelu_tanh>(bias);
      case Activation::silu:
        return store_activated<Activation::silu>(bias);
    }
  }

 private:
  static constexpr int VEC = 4;  ///< elements that a lane stores at once
  static constexpr int VECS_PER_ROW = WARP_N / VEC, ROWS_PER_PASS = 32 / VECS_PER_ROW;
  static_assert(Layout::VEC == VEC && 32 % VECS_PER_ROW == 0 && ROWS % ROWS_PER_PASS == 0,
                "a lane has the same columns of every row that it stores");
  static constexpr bool ROUNDS = !std::is_same_v<T, Unrounded<T>>;

  /// Whether store_vectors can store out. Activations that are not rounded are left to
  /// store_elements, since they have other formulas.
  __device__ __forceinline__ bool has_vectors() const {
    const auto& out = epilogue_.out;
    const bool is_unrounded = ROUNDS && epilogue_.out_unrounded;
    return out.cols % VEC == 0 && rows_are_vectors<VEC>(out) &&
           (!epilogue_.pre.data || rows_are_vectors<VEC>(epilogue_.pre)) &&
           (!is_unrounded ||
            (epilogue_.activation == Activation::none && smem::is_aligned<2 * VEC>(out.data)));
  }

  /// The bias of the lane's columns, or zeros.
  __device__ __forceinline__ Vector<Acc, VEC> load_bias() const {
    Vector<Acc, VEC> bias{};
#pragma unroll
    for (int i = 0; i < VEC && epilogue_.bias; ++i) {
      const int64_t at = min(col() + i, epilogue_.out.cols - 1) * epilogue_.bias_stride;
      bias.lane[i] = to_accumulator(epilogue_.bias[at]);
    }
    return bias;
  }

  /// Without C, in the inputs' dtype. ACTIVATION is a template argument so that its evaluations
  /// overlap.
  template <Activation ACTIVATION>
  __device__ __forceinline__ void store_activated(const Vector<Acc, VEC>& bias) const {
    const bool has_bias = epilogue_.bias != nullptr;
    T* to = epilogue_.out.at(row0_ + lane_row(), col());
    for_each_row([&](int64_t, Vector<Acc, VEC> z) {
#pragma unroll
      for (int i = 0; i < VEC; ++i) {
        z.lane[i] = rounded_product(epilogue_.alpha, z.lane[i]);
        if (has_bias) z.lane[i] += bias.lane[i];
        z.lane[i] =
            ROUNDS ? activate_approximate(ACTIVATION, z.lane[i]) : activate(ACTIVATION, z.lane[i]);
      }
      store_vector(to, z);
      to += ROWS_PER_PASS * epilogue_.out.row_stride;
    });
  }

  __device__ __forceinline__ void store_vectors() const {
    for_each_row([&](int64_t row, Vector<Acc, VEC> z) {
#pragma unroll
      for (int i = 0; i < VEC; ++i) z.lane[i] = epilogue_.preactivation(row, col() + i, z.lane[i]);
      if (epilogue_.pre.data) store_vector(epilogue_.pre.at(row, col()), z);
      if (ROUNDS && epilogue_.out_unrounded) {
        auto* const out = reinterpret_cast<Unrounded<T>*>(epilogue_.out.data);
        return store_vector(out + row * epilogue_.out.row_stride + col(), z);
      }
      if (epilogue_.activation != Activation::none) {
        z = call_activate<ROUNDS>(epilogue_.activation, z);
      }
      store_vector(epilogue_.out.at(row, col()), z);
    });
  }

  /// Neighbouring lanes store neighbouring elements.
  __device__ __forceinline__ void store_elements() const {
#pragma unroll 1
    for (int i = threadIdx.x % 32; i < ROWS * WARP_N; i += 32) {
      const int row = i / WARP_N, col = i % WARP_N;
      epilogue_.store(row0_ + row, col0_ + col,
                      staging_[Layout::offset(row, col / VEC) + col % VEC]);
    }
  }

  static __device__ __forceinline__ int lane_vec() { return threadIdx.x % 32 % VECS_PER_ROW; }
  static __device__ __forceinline__ int lane_row() { return threadIdx.x % 32 / VECS_PER_ROW; }
  __device__ __forceinline__ int64_t col() const { return col0_ + lane_vec() * VEC; }

  /// Calls f(row of out, accumulators from col() on) for this lane's vectors.
  template <typename F>
  __device__ __forceinline__ void for_each_row(const F& f) const {
    if (col() >= epilogue_.out.cols) return;
    const int rows = static_cast<int>(min(epilogue_.out.rows - row0_, int64_t{ROWS}));
#pragma unroll 1
    for (int row = lane_row(); row < rows; row += ROWS_PER_PASS) {
      f(row0_ + row, load_vector<VEC>(staging_ + Layout::offset(row, lane_vec())));
    }
  }

  template <typename U>
  __device__ __forceinline__ static void store_vector(U* to, const Vector<Acc, VEC>& values) {
    Vector<U, VEC> rounded;
#pragma unroll
    for (int i = 0; i < VEC; ++i) rounded.lane[i] = from_accumulator<U>(values.lane[i]);
    store_global_vector<VEC>(to, rounded);
  }

  const Acc* staging_;
  const Epilogue<T>& epilogue_;
  int64_t row0_, col0_;
};

/// A function that is called: inlined, it would be two thirds of every kernel's code, and what is
/// executed would lie further apart.
template <typename T, int ROWS, int WARP_N>
__device__ __attribute__((noinline)) void store_staged_rows(const Accumulator<T>* staging,
                                                            const MmaParams<T>& params, int batch,
                                                            int64_t row0, int64_t col0) {
  const auto epilogue = epilogue_at_batch(params.epilogue, params.strides, batch);
  StagedRows<T, ROWS, WARP_N>(staging, epilogue, row0, col0).store();
}

}  // namespace smem::gemm::sm80::inline SMEM_BUILD
