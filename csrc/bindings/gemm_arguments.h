// The arguments of gemm and linear, and the checks of what a user passed.
#pragma once

#include <utility>

#include "bindings/tensors.h"
#include "gemm/gemm.h"

namespace smem::bindings {

/// A tensor as a batch of matrices: the last two dimensions are rows and columns.
struct MatrixView {
  const Tensor* tensor;
  Sizes sizes, strides;

  explicit MatrixView(const Tensor& t) : tensor(&t), sizes(sizes_of(t)), strides(strides_of(t)) {}

  void transpose() {
    std::swap(sizes.at[sizes.count - 1], sizes.at[sizes.count - 2]);
    std::swap(strides.at[strides.count - 1], strides.at[strides.count - 2]);
  }
  void add_row_dimension() {
    sizes.push(sizes.at[0]);
    strides.push(strides.at[0]);
    sizes.at[0] = 1;
    strides.at[0] = 0;
  }
  gemm::Operand operand() const {
    return {tensor->const_data_ptr(), strides.last(2), strides.last(1)};
  }
  /// Size and stride of dimension d of `dims` broadcast dimensions; a missing one has size 1.
  int64_t size(int d, int dims) const {
    return d < dims - sizes.count ? 1 : sizes.at[d - (dims - sizes.count)];
  }
  int64_t stride(int d, int dims) const {
    return size(d, dims) == 1 ? 0 : strides.at[d - (dims - sizes.count)];
  }
};

/// The arguments of gemm, and of linear as a gemm.
struct GemmArguments {
  const char* op;
  MatrixView a, b;
  const OptionalTensor& bias;
  const OptionalTensor& c;
  double alpha = 1, beta = 0;
  int64_t activation = 0, precision = 0, kernel = 0;  ///< codes; 0: none, the default, auto
  OptionalType out_dtype = {};
  void* b_split = nullptr;  ///< as of gemm::Problem

  ScalarType out_type() const { return out_dtype.value_or(a.tensor->scalar_type()); }
};

/// Throws unless the arguments, except `out`, fit together. Returns the shape of the result.
Sizes check_gemm(const GemmArguments& args);
Sizes check_linear(const Tensor& x, const Tensor& weight, const OptionalTensor& bias,
                   int64_t activation, int64_t precision, const OptionalType& out_dtype);

/// Whether writing `out` could change an operand before it is read. C may be `out` itself: one
/// thread reads each of its elements and then writes it.
bool output_aliases_input(const GemmArguments& args, const Tensor& out);

}  // namespace smem::bindings
