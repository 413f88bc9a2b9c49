// What the wrappers of csrc/cpu_emulator/device call. Shared memory has PTX's 32-bit addresses:
// shared_address of device/mbarrier.h.
#pragma once

#include "cpu_emulator/cuda/emulator_api.h"
#include "cpu_emulator/cuda/warp_matrix_api.h"
#include "cpu_emulator/sm90/tensor_core.h"
#include "cpu_emulator/sm90/tensor_map.h"

SMEM_API uint32_t smem_shared_address(const void* shared);
SMEM_API void* smem_shared_pointer(uint32_t address);
/// Copies from shared memory what the kernel may not use: it need not have been stored.
SMEM_API void smem_speculative_load(const void* shared, void* value, size_t bytes);

SMEM_THREAD_CONSTANT uint32_t smem_cluster_rank();
SMEM_API const void* smem_map_shared_rank(const void* shared, uint32_t rank);
SMEM_API void smem_store_async_in(uint32_t rank, void* shared, uint32_t value, void* barrier);
SMEM_API void smem_cluster_arrive();
SMEM_API void smem_cluster_wait();

/// barrier.cta on barrier `number`, 1 to 15, with `threads` threads.
SMEM_API void smem_named_barrier(int number, unsigned threads, bool waits);

SMEM_API void smem_mbarrier_init(void* barrier, uint32_t count);
SMEM_API void smem_fence_mbarrier_init();
SMEM_API void smem_mbarrier_arrive(void* barrier, uint32_t expected_bytes);
SMEM_API void smem_mbarrier_arrive_after_copies(void* barrier);
SMEM_API void smem_mbarrier_arrive_in(void* barrier, uint32_t rank);
SMEM_API void smem_mbarrier_wait(void* barrier, uint32_t parity);

SMEM_API void smem_fence_async_shared();
SMEM_API void smem_tma_load(void* shared, const smem::CUtensorMap* map, int x, int y, int z,
                            void* barrier);
SMEM_API void smem_tma_load_multicast(void* shared, const smem::CUtensorMap* map, int x, int y,
                                      int z, void* barrier, unsigned blocks);
SMEM_API void smem_tma_store(const smem::CUtensorMap* map, int x, int y, int z, const void* shared);
SMEM_API void smem_tma_store_commit();
SMEM_API void smem_tma_store_wait_read(int groups_left);

SMEM_API void smem_stmatrix_x4(uint32_t row, const uint32_t* matrices);

/// Each lane passes the address of a row of 16 bytes.
SMEM_API void smem_ldmatrix_x4(uint32_t row, bool transpose, uint32_t* fragment);

struct smem_wgmma_shape {
  smem::cpu_emulator::sm90::Format format;
  int n;
  bool a_is_mn_major, b_is_mn_major;
};
/// `a_registers`: the thread's fragment of A; null if the descriptor `a` names it.
SMEM_API void smem_wgmma(smem_wgmma_shape shape, float* accum, const uint32_t* a_registers,
                         uint64_t a, uint64_t b, bool accumulate);
SMEM_API void smem_wgmma_fence();
SMEM_API void smem_wgmma_commit();
SMEM_API void smem_wgmma_wait(int groups_left);
