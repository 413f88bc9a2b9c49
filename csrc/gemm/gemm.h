// The GEMM problem, and the table of kernels that solve it.
//
//   out = activation(alpha * A @ B + beta * C + bias)     A: M x K, B: K x N, C and out: M x N
#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>

#include "device/dtype.h"
#include "device/launch.h"
#include "device/offset_calculator.h"

namespace smem::gemm {

enum class Activation : int { none, relu, gelu, gelu_tanh, silu };

/// The least that float32's products and sums keep. `fp32`: the error that docs/accuracy.md proves
/// for every input, and on random data cuBLAS SGEMM's or less; `ieee`: each of them an IEEE fma;
/// `tf32`: factors of 10 bits. What computes by fmas in Accumulator<T>, as every SIMT kernel does,
/// keeps all three.
enum class Precision : int { fp32, ieee, tf32 };

constexpr const char* name_of(Precision precision) {
  constexpr const char* names[] = {"fp32", "ieee", "tf32"};
  return names[static_cast<int>(precision)];
}

/// The tensors of a problem, as the batch loop numbers them.
enum Tensor : int { A, B, C, OUT, TENSORS };

/// A matrix of the problem: strides in elements, any value, zero to broadcast.
struct Operand {
  const void* data = nullptr;
  int64_t row_stride = 0, col_stride = 0;
};

struct Problem {
  DType dtype;  ///< of A, B and bias
  int64_t M, N, K;
  Operand a, b;
  Operand c;  ///< data is null where beta is 0: C is not read then
  const void* bias = nullptr;
  int64_t bias_stride = 0;
  Operand out;
  /// Unless null: what the activation is applied to is stored here, in `dtype`, laid out as out.
  void* pre = nullptr;
  double alpha = 1, beta = 0;
  Activation activation = Activation::none;
  Precision precision = Precision::fp32;
  DType out_dtype = dtype;    ///< or f32 where `dtype` is f16 or bf16: the sums, not rounded
  DType c_dtype = dtype;      ///< or that of out
  int variant = -1;           ///< of the kernel's variants; below 0 it chooses by itself
  OffsetCalculator<TENSORS> batch;        ///< offsets of A, B, C and out over the batch dimensions
  void* workspace = nullptr;  ///< the bytes the kernel asked for
};

/// The GPUs whose tensor cores a kernel is written for. Without any it runs on all, and by
/// cpu_emulator.
struct TensorCores {
  int capability = 0;  ///< 10 * major + minor of the oldest that has them; 0: none needed
  bool alone = false;  ///< and no newer one: code for sm_90a, say, runs on 9.0 only

  /// Whether they are there at this capability, be it of a GPU or of the code compiled for it.
  constexpr bool fit(int found) const { return alone ? found == capability : found >= capability; }
};

/// A set of dtypes.
constexpr unsigned dtypes() { return 0; }
template <typename... Others>
constexpr unsigned dtypes(DType first, Others... others) {
  return 1u << static_cast<int>(first) | dtypes(others...);
}
constexpr unsigned FLOATS = dtypes(DType::f64, DType::f32, DType::f16, DType::bf16);

/// A row of the kernel table. What needs tensor cores has no `launch` and `function` in the tables
/// for the CPU.
struct Kernel {
  const char* name;
  const char* summary;
  const char* requires_;  ///< in words, for users
  void (*launch)(const Problem&, const Device&);
  /// The kernel's function for a dtype, for cudaFuncGetAttributes.
  const void* (*function)(DType);
  const char* (*symbol)(DType);  ///< symbol_of that function; null where it is one of several
  /// The largest K the kernel takes with this much shared memory a block; null where there is none.
  int64_t (*largest_k)(DType, size_t shared_bytes);
  unsigned dtypes = FLOATS;
  TensorCores tensor_cores = {};
  Precision float32 = Precision::ieee;  ///< what it keeps of float32's products and sums
  /// Device memory the kernel needs to work in; null where it needs none.
  size_t (*workspace_bytes)(const Problem&, const Device&) = nullptr;
  /// Names of what it chooses among by itself, and its choice for a problem in words.
  const char* const* variants = nullptr;
  int variant_count = 0;
  bool (*has_variant)(int variant, DType) = nullptr;  ///< null where it has each for all dtypes
  std::string (*approach)(const Problem&, const Device&) = nullptr;

  bool takes(DType dtype) const { return (dtypes >> static_cast<int>(dtype) & 1) != 0; }
  bool keeps(Precision precision) const {
    return float32 == Precision::ieee || precision == Precision::tf32 || float32 == precision;
  }
};

struct KernelTable {
  const Kernel* const* kernels;
  int count;
};

/// The tables of the three builds hold the same rows, in the order of the ladder. Without CUDA
/// there is none for the device.
KernelTable device_kernels();
KernelTable host_kernels();
KernelTable traced_kernels();
KernelTable kernels(Build build);

}  // namespace smem::gemm
