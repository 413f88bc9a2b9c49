#include "bindings/attention.h"

#include "attention/combine_parts.h"

namespace smem::bindings {
namespace {

constexpr const char* OP = "_combine_parts";

void check(const Tensor& parts_out, const Tensor& logsumexp, const Tensor& lengths, int64_t parts,
           int64_t group) {
  constexpr int64_t MOST = (int64_t{1} << 31) - 1;
  if (parts < 1 || group < 1 || parts > MOST || group > MOST) {
    fail(OP, "parts is " + std::to_string(parts) + " and group " + std::to_string(group) +
                 ", expected 1 to 2^31 - 1");
  }
  expect(is_float_up_to_32_bits(parts_out.scalar_type()) && parts_out.dim() == 3 &&
             parts_out.is_contiguous() && parts_out.size(0) % (parts * group) == 0 &&
             parts_out.size(1) <= MOST && parts_out.size(2) <= MOST,
         OP, "parts_out", parts_out,
         "contiguous float32, float16 or bfloat16 of 3 dimensions, the first a multiple of parts "
         "* group, the others below 2^31");
  const int64_t rows = parts_out.size(0);
  expect(logsumexp.scalar_type() == ScalarType::Float && logsumexp.dim() == 2 &&
             logsumexp.size(0) == parts_out.size(1) && logsumexp.size(1) == rows &&
             logsumexp.stride(1) == 1,
         OP, "logsumexp", logsumexp, "float32 of (heads, rows of parts_out), its rows contiguous");
  expect(lengths.scalar_type() == ScalarType::Int && lengths.dim() == 1 &&
             lengths.is_contiguous() && rows % group == 0 && lengths.size(0) == rows / group,
         OP, "lengths", lengths, "contiguous int32, one for each part of each sequence");
  check_device(OP, "logsumexp", logsumexp, "parts_out", parts_out);
  check_device(OP, "lengths", lengths, "parts_out", parts_out);
}

}  // namespace

Tensor combine_parts(const Tensor& parts_out, const Tensor& logsumexp, const Tensor& lengths,
                     int64_t parts, int64_t group) {
  check(parts_out, logsumexp, lengths, parts, group);
  Sizes sizes = sizes_of(parts_out);
  sizes.at[0] /= parts;
  const Tensor out = empty(OP, sizes, parts_out.scalar_type(), parts_out);
  if (out.numel() == 0) return out;
  const OnDeviceOf on_device(OP, parts_out);
  trace_tensor("parts_out", parts_out);
  trace_tensor("logsumexp", logsumexp);
  trace_tensor("lengths", lengths);
  trace_tensor("out", out);
  attention::combine(on_device.build())(
      {
          .parts_out = parts_out.const_data_ptr(),
          .logsumexp = static_cast<const float*>(logsumexp.const_data_ptr()),
          .lengths = static_cast<const int32_t*>(lengths.const_data_ptr()),
          .out = out.mutable_data_ptr(),
          .logsumexp_stride = logsumexp.stride(0),
          .sequences = sizes.at[0] / group,
          .parts = static_cast<int>(parts),
          .group = static_cast<int>(group),
          .heads = static_cast<int>(sizes.at[1]),
          .features = static_cast<int>(sizes.at[2]),
          .dtype = *dtype_of(parts_out.scalar_type()),
      },
      on_device.device());
  return out;
}

}  // namespace smem::bindings
