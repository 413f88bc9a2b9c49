// The sum problem, the table of kernels that solve it, and how long sums are cut into chunks.
//
//   out[o] = sum over i of in[o, i]     for every output o; i runs over the reduced dimensions
#pragma once

#include <cstdint>
#include <string_view>

#include "device/dtype.h"
#include "device/launch.h"
#include "device/loop.h"

namespace smem::sum {

enum Tensor : int { IN, OUT, TENSORS };

/// Longer sums are cut into chunks of this many elements, a block each, and the chunks' sums are
/// summed in turn. It depends on nothing else: an output has the same bits whatever stands beside
/// it.
constexpr int64_t CHUNK = 8192;

/// One pass: chunk j of output o is summed into out[o * chunks + j].
struct Problem {
  DType in_dtype, out_dtype;
  const void* in;
  void* out;
  int64_t first_output = 0;  ///< of this launch; a grid may hold fewer blocks than are needed
  int64_t count;             ///< elements of an output
  int64_t chunks;            ///< ceil(count / CHUNK), at least 1
  Loop<TENSORS> outputs;     ///< steps of in and out over the outputs
  Loop<1> reduced;           ///< steps of in over the elements of an output
};

/// A row of the kernel table.
struct Kernel {
  const char* name;
  const char* summary;
  const char* requires_;
  void (*launch)(const Problem&, const Device&);
  const void* (*function)(DType in_dtype);
  std::string_view (*symbol)(DType in_dtype);  ///< that function's name
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

/// The type in which a dtype is summed.
constexpr DType accumulator_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return DType::f64;
    case DType::f32:
    case DType::f16:
    case DType::bf16:
      return DType::f32;
    default:
      return DType::i64;
  }
}

}  // namespace smem::sum
