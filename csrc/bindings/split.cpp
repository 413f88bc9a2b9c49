#include "bindings/split.h"

#include "gemm/fp16x3/split.h"

namespace smem::bindings {
namespace {

using gemm::fp16x3::split::Split;
using gemm::fp16x3::split::Workspace;

constexpr const char* OP = "_split";

void check(const Tensor& x, int64_t part_length) {
  if (x.dim() < 2) {
    fail(std::string("smem.") + OP + ": x is " + shape_text(sizes_of(x)) +
         ", expected at least 2 dimensions");
  }
  if (x.scalar_type() != ScalarType::Float) {
    fail(std::string("smem.") + OP + ": x has dtype " + dtype_text(x.scalar_type()) +
         ", expected float32");
  }
  if (part_length < 0 || part_length % gemm::fp16x3::split::PIECE != 0) {
    fail(std::string("smem.") + OP + ": part_length is " + std::to_string(part_length) +
         ", expected a multiple of " + std::to_string(gemm::fp16x3::split::PIECE));
  }
}

/// All dimensions but the last two as one; a copy where strides do not allow that.
Tensor as_members(const Tensor& x) {
  if (x.dim() <= 3) return x;
  const Sizes sizes = sizes_of(x);
  int64_t members = 1;
  for (int d = 0; d < sizes.count - 2; ++d) members *= sizes.at[d];
  return torch::stable::reshape(x, {members, sizes.last(2), sizes.last(1)});
}

Split split_of(const Tensor& matrices, bool lines_last) {
  const int dims = static_cast<int>(matrices.dim());
  const int along = dims - (lines_last ? 2 : 1), across = dims - (lines_last ? 1 : 2);
  const bool batched = dims > 2;
  return {static_cast<const float*>(matrices.const_data_ptr()),
          batched ? matrices.size(0) : 1,
          matrices.size(across),
          matrices.size(along),
          batched ? matrices.stride(0) : 0,
          matrices.stride(across),
          matrices.stride(along)};
}

}  // namespace

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> split(const Tensor& x, bool lines_last,
                                                         int64_t part_length) {
  check(x, part_length);
  const Tensor matrices = as_members(x);
  Split split = split_of(matrices, lines_last);
  Sizes of_lines = sizes_of(x);
  of_lines.count -= 2;
  if (part_length > 0) {
    split.part_length = part_length;
    split.parts = ceil_div(split.length, part_length);
    of_lines.push(split.parts);
  }
  of_lines.push(split.lines);
  Sizes of_halves = of_lines;
  of_halves.push(split.padded_length() / gemm::fp16x3::split::PIECE);
  of_halves.push(2);
  of_halves.push(gemm::fp16x3::split::PIECE);
  Sizes of_extremes;
  of_extremes.push(static_cast<int64_t>(Workspace(split).extremes_bytes));

  const Tensor halves = empty(OP, of_halves, ScalarType::Half, x);
  const Tensor exponent = empty(OP, of_lines, ScalarType::Int, x);
  const Tensor mark = empty(OP, of_lines, ScalarType::Byte, x);
  const Tensor position = empty(OP, of_lines, ScalarType::Long, x);
  const Tensor rest = empty(OP, of_lines, ScalarType::Float, x);
  const Tensor extremes = empty(OP, of_extremes, ScalarType::Byte, x);
  const OnDeviceOf place(OP, x);
  trace_tensor("x", matrices);
  trace_tensor("halves", halves);
  trace_tensor("exponent", exponent);
  trace_tensor("mark", mark);
  trace_tensor("position", position);
  trace_tensor("rest", rest);
  trace_tensor("extremes", extremes);
  split.halves = halves.mutable_data_ptr();
  split.exponent = static_cast<int32_t*>(exponent.mutable_data_ptr());
  split.mark = static_cast<uint8_t*>(mark.mutable_data_ptr());
  split.position = static_cast<int64_t*>(position.mutable_data_ptr());
  split.rest = static_cast<float*>(rest.mutable_data_ptr());
  split.extremes = extremes.mutable_data_ptr();
  gemm::fp16x3::split::run(split, place.device(), place.build());
  return {halves, exponent, mark, position, rest};
}

}  // namespace smem::bindings
