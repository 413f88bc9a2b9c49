// What a kernel compiled for the CPU calls of the emulator. The functions are in
// torch_smem_gemm/_C.abi3.so; those without a comment do what their namesake in CUDA does.
#pragma once

#include <stddef.h>
#include <stdint.h>

#define SMEM_API extern "C" __attribute__((visibility("default")))
/// A function in which the compiler calls nothing: it accesses no memory of the kernel's, and the
/// steps of its loops would be events of every lane.
#define SMEM_UNSEEN __attribute__((no_sanitize("thread"), no_sanitize_coverage))
/// A function whose result never changes for one thread: the compiler calls it once.
#define SMEM_THREAD_CONSTANT SMEM_API __attribute__((const))

struct uint3 {
  unsigned x, y, z;
};

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
  constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
  constexpr operator uint3() const { return {x, y, z}; }
};

SMEM_THREAD_CONSTANT uint3 smem_thread_index();
SMEM_THREAD_CONSTANT uint3 smem_block_index();
SMEM_THREAD_CONSTANT uint3 smem_block_size();
SMEM_THREAD_CONSTANT uint3 smem_grid_size();
/// The thread's number in its block: x + y * size.x + z * size.x * size.y.
SMEM_THREAD_CONSTANT unsigned smem_thread_number();

SMEM_API void smem_syncthreads();
SMEM_API void smem_syncwarp(unsigned mask);

/// What a block barrier does with the threads' values.
enum smem_reduction { smem_sum, smem_and, smem_or };
SMEM_API int smem_syncthreads_reduce(int value, smem_reduction reduction);

/// All lanes in `mask` meet; each contributes `bits` and receives those of lane `source`.
SMEM_API uint64_t smem_shuffle(unsigned mask, uint64_t bits, int bytes, unsigned source);
/// All lanes in `mask` meet; `bits[l]` becomes lane l's. Returns the lanes that took part.
SMEM_API unsigned smem_exchange(unsigned mask, uint64_t bits, uint64_t* all);
SMEM_API unsigned smem_activemask();

/// Before an atomic operation on `bytes` at `address`, which the caller then executes.
SMEM_API void smem_atomic(void* address, int bytes);

/// cp.async: copies `bytes`, of which the first `bytes_read` are read and the others become zero.
SMEM_API void smem_cp_async(void* shared, const void* global, int bytes, int bytes_read);
SMEM_API void smem_cp_async_commit();
SMEM_API void smem_cp_async_wait(int groups_left);

/// Asynchronous barriers, which have no bytes of their own: the address names one.
SMEM_API void smem_barrier_init(void* barrier, int64_t expected);
/// Returns the parity of the phase. If `drops`, the phases after it expect one arrival less.
SMEM_API bool smem_barrier_arrive(void* barrier, int64_t arrivals, bool drops);
SMEM_API void smem_barrier_wait(const void* barrier, bool parity);
/// PTX cp.async.mbarrier.arrive: the barrier's phase also waits for the thread's copies.
SMEM_API void smem_cp_async_arrive(void* barrier);

/// The C library's functions, with reports of what they access.
SMEM_API void* smem_memcpy(void* to, const void* from, size_t bytes);
SMEM_API void* smem_memmove(void* to, const void* from, size_t bytes);
SMEM_API void* smem_memset(void* to, int value, size_t bytes);

SMEM_API long long smem_clock();
/// Lets the other threads run.
SMEM_API void smem_yield();
/// Stands in a loop that does nothing and has no end; the stack may be misaligned there.
SMEM_API __attribute__((force_align_arg_pointer)) void smem_endless_loop();
/// Ends the thread: `kind` and `detail` are reported at the caller's line.
SMEM_API void smem_fault(const char* kind, const char* detail);
