// What a kernel calls of the emulator for the instructions in which a warp's lanes hold a matrix
// together; all 32 lanes call them. PTX ISA, "Warp-level Matrix Instructions".
#pragma once

#include "emulator_api.h"

enum class smem_mma_format { f16, bf16, tf32 };

/// mma.sync.m16n8: accum += A B. K is `k`: 16 elements of 2 bytes, 8 floats (as tf32), or half as
/// many, for which `a` has two registers and `b` one.
SMEM_API void smem_mma_sync(smem_mma_format format, int k, float* accum, const uint32_t* a,
                            const uint32_t* b);

/// ldmatrix.m8n8 of 1, 2 or 4 matrices: lane 8i + r passes the address of row r of matrix i.
SMEM_API void smem_ldmatrix(const void* row, int matrices, bool transpose, uint32_t* fragment);

/// movmatrix.m8n8.trans: the lanes' 8 x 8 elements of 2 bytes, transposed.
SMEM_API uint32_t smem_movmatrix(uint32_t elements);

/// Whether the address is in shared memory. A GPU's compiler knows that mostly.
SMEM_API bool smem_is_shared(const void* address);
