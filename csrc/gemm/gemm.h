// The GEMM problem, and the table of kernels that solve it.
//
//   out = activation(alpha * A @ B + beta * C + bias)     A: M x K, B: K x N, C and out: M x N
#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>

#include "device/dtype.h"
#include "device/kernel_table.h"
#include "device/launch.h"
#include "device/offset_calculator.h"

namespace smem::gemm {

enum class Activation : int { none, relu, gelu, gelu_tanh, silu };

/// The least precision of float32's products and sums. `fp32`: an error within the bound that
/// docs/accuracy.md proves for every input, and on random data at most cuBLAS SGEMM's. `ieee`:
/// every product and sum is an IEEE fma. `tf32`: factors are rounded to 10 bits of mantissa. A
/// kernel that uses fma in Accumulator<T>, as every SIMT kernel does, satisfies all three.
enum class Precision : int { fp32, ieee, tf32 };

constexpr const char* name_of(Precision precision) {
  constexpr const char* names[] = {"fp32", "ieee", "tf32"};
  return names[static_cast<int>(precision)];
}

/// The tensors of a problem, as indices into the batch's offsets.
enum Tensor : int { A, B, C, OUT, TENSORS };

/// A matrix of the problem. Strides are in elements and may have any value; zero broadcasts.
struct Operand {
  const void* data = nullptr;
  int64_t row_stride = 0, col_stride = 0;
};

struct Problem {
  DType dtype;  ///< of A, B and bias
  int64_t M, N, K;
  Operand a, b;
  Operand c;  ///< data is null if beta is 0, so that C is not read
  const void* bias = nullptr;
  int64_t bias_stride = 0;
  Operand out;
  /// If not null, receives the pre-activation, in `dtype` and in the layout of out.
  void* pre = nullptr;
  double alpha = 1, beta = 0;
  Activation activation = Activation::none;
  Precision precision = Precision::fp32;
  DType out_dtype = dtype;          ///< or f32, not rounded, if `dtype` is f16 or bf16
  DType c_dtype = dtype;            ///< or out_dtype
  int variant = -1;                 ///< index in the kernel's variants; below 0 the kernel chooses
  OffsetCalculator<TENSORS> batch;  ///< offsets of A, B, C and out over the batch dimensions
  void* workspace = nullptr;        ///< as many bytes as the kernel's workspace_bytes returns
  /// If not null, B's split (fp16x3/split_problem.h): fp16x3 reads it and does not split B again.
  void* b_split = nullptr;
};

/// The GPUs whose tensor cores a kernel needs. A kernel that needs none runs on all GPUs.
struct TensorCores {
  int capability = 0;  ///< 10 * major + minor of the oldest GPU that has them; 0: none needed
  bool alone = false;  ///< only this capability: code for sm_90a runs on 9.0 only
  int float16 = 0;     ///< the oldest for float16; 0: the same

  constexpr int oldest(DType dtype) const {
    return dtype == DType::f16 && float16 > 0 ? float16 : capability;
  }
  /// Whether a GPU of this capability, or code compiled for it, has them.
  constexpr bool fit(int found, DType dtype) const {
    return alone ? found == capability : found >= oldest(dtype);
  }
};

/// A set of dtypes.
constexpr unsigned dtypes() { return 0; }
template <typename... Others>
constexpr unsigned dtypes(DType first, Others... others) {
  return 1u << static_cast<int>(first) | dtypes(others...);
}
constexpr unsigned FLOATS = dtypes(DType::f64, DType::f32, DType::f16, DType::bf16);

/// A row of the kernel table. In the table of the CPU build, kernels for tensor cores have no
/// `function`, and those that the emulator cannot run have no `launch`.
struct Kernel {
  const char* name;
  const char* summary;
  const char* requires_;  ///< requirements in words, for users
  void (*launch)(const Problem&, const Device&);
  /// The kernel's function for a dtype, for cudaFuncGetAttributes.
  const void* (*function)(DType);
  const char* (*symbol)(DType);  ///< symbol_of that function; null if there are several
  /// The largest K for this much shared memory per block; null if there is no limit.
  int64_t (*largest_k)(DType, size_t shared_bytes);
  unsigned dtypes = FLOATS;
  TensorCores tensor_cores = {};
  Precision float32 = Precision::ieee;  ///< the precision of its float32 products and sums
  /// Bytes of device memory that the kernel needs as workspace; null if it needs none.
  size_t (*workspace_bytes)(const Problem&, const Device&) = nullptr;
  /// Names of the variants (tiles) among which the kernel chooses.
  const char* const* variants = nullptr;
  int variant_count = 0;
  /// What each variant needs, if that is not the same for all.
  const TensorCores* variant_tensor_cores = nullptr;
  /// Null if all dtypes have all variants.
  bool (*has_variant)(int variant, DType, const Device&) = nullptr;
  /// The kernel's choice for a problem, in words.
  std::string (*approach)(const Problem&, const Device&) = nullptr;

  bool takes(DType dtype) const { return (dtypes >> static_cast<int>(dtype) & 1) != 0; }
  bool keeps(Precision precision) const {
    return float32 == Precision::ieee || precision == Precision::tf32 || float32 == precision;
  }
};

using KernelTable = smem::KernelTable<Kernel>;

/// The tables of the two builds hold the same rows, in the order of the ladder. A build without
/// CUDA has no device table.
KernelTable device_kernels();
KernelTable host_kernels();
KernelTable kernels(Build build);

}  // namespace smem::gemm
