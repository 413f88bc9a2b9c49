// Copies operands whose rows are not aligned vectors of 16 bytes, so that TMA and cp.async can load
// them.
#pragma once

#include "gemm/gemm.h"
#include "gemm/operand_desc.h"

namespace smem::gemm::inline SMEM_BUILD {

/// Gives out parts of the workspace, each aligned to 256 bytes.
struct WorkspaceAllocator {
  unsigned char* next;

  void* allocate(int64_t bytes) {
    void* allocated = next;
    next += round_up(bytes, 256);
    return allocated;
  }
};

/// Both operands as the kernels load them.
struct LoadableOperands {
  const void *a, *b;
};

/// Packs the operands whose description asks for it, with at most one batch dimension; the others
/// stay where they are. `signals_early`: a next kernel that is launched with PDL (device/pdl.h) may
/// begin once all blocks have begun, not when they have ended.
LoadableOperands pack_operands(const Problem& problem, const OperandDesc& a, const OperandDesc& b,
                               bool signals_early, WorkspaceAllocator& workspace,
                               const Device& device);

}  // namespace smem::gemm::inline SMEM_BUILD
