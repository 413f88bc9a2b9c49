// Operands as the tensor-core kernels load them: in place where rows are aligned vectors of 16
// bytes, which TMA and cp.async need, or from a packed copy.
#pragma once

#include <cstdint>
#include <iosfwd>

#include "device/major.h"
#include "gemm/gemm.h"

namespace smem::gemm {

/// A k-tile of 128 bytes along K, the widest swizzle, in elements.
constexpr int64_t line_elements(DType dtype) { return 128 / static_cast<int64_t>(size_of(dtype)); }

/// A vector of 16 bytes, in elements.
constexpr int64_t vec_elements(DType dtype) { return 16 / static_cast<int64_t>(size_of(dtype)); }

inline bool is_aligned(const void* pointer) {
  return reinterpret_cast<uintptr_t>(pointer) % 16 == 0;
}

/// Whether all matrices of a batch are aligned if the first one is.
bool batch_is_aligned(const Problem& problem, Tensor tensor);

/// An operand as it is loaded: in place, or packed into the workspace first. The inner dimension is
/// contiguous (K if K-major); the outer one is the other dimension of the matrix.
struct OperandDesc {
  Major major;
  bool packed;
  bool batched;  ///< false if all matrices of the batch share the operand
  int64_t inner_size, outer_size, batch_count;
  int64_t outer_stride, batch_stride;

  int64_t packed_elements() const { return packed ? batch_count * batch_stride : 0; }
};

/// The operand A or B of the problem. An MN-major operand stays so if `may_be_mn_major`. wgmma
/// reads only K-major tf32 from shared memory, so float32 operands that must be packed are packed
/// along K. An operand whose outer stride is above `longest_stride` elements is packed, too. With
/// `may_be_unaligned` rows may begin anywhere.
OperandDesc describe_operand(const Problem& problem, Tensor tensor, bool may_be_mn_major = true,
                             int64_t longest_stride = INT64_MAX, bool may_be_unaligned = false);

/// Whether the rows of out are whole aligned vectors of 16 bytes.
bool has_whole_rows(const Problem& problem);

/// ", a and b packed first", or nothing, for the descriptions of plans.
std::string packed_text(bool packs_a, bool packs_b);

/// The bytes of the packed copies of both operands, each aligned to 256 bytes.
inline int64_t packed_bytes(DType dtype, const OperandDesc& a, const OperandDesc& b) {
  const auto bytes = static_cast<int64_t>(size_of(dtype));
  return round_up(a.packed_elements() * bytes, 256) + round_up(b.packed_elements() * bytes, 256);
}

}  // namespace smem::gemm
