// A single access to memory: a plain load or store on the GPU and in the fast host build, and a
// call that checks and counts in the traced build. All views use these functions; nothing else
// differs between the builds.
#pragma once

#include "device/numeric_types.h"

#ifdef SMEM_TRACED
#include "cpu_emulator/trace/access.h"
#endif

namespace smem {
inline namespace SMEM_BUILD {

#ifdef SMEM_TRACED

using cpu_emulator::Site;
using cpu_emulator::trace::copy_run;
using cpu_emulator::trace::element;
using cpu_emulator::trace::expect_inside;
using cpu_emulator::trace::load;
using cpu_emulator::trace::note_shared;
using cpu_emulator::trace::Ref;
using cpu_emulator::trace::store;

template <typename T>
Accumulator<std::remove_const_t<T>> to_accumulator(Ref<T>&& element) {
  return to_accumulator(std::move(element).value());
}

#else

/// The source line that the tracer attributes an access to. Helpers that access memory take it as
/// their last argument, with the caller's line as the default. It is empty in the other builds.
struct Site {
  __device__ __forceinline__ static constexpr Site here() { return {}; }
};

/// A reference to an element in memory, which can be read or assigned.
template <typename T>
using Ref = T&;

template <typename T>
__device__ __forceinline__ Ref<T> element(T* address, Site) {
  return *address;
}

template <typename T>
__device__ __forceinline__ T load(const T* from, Site = Site::here()) {
  return *from;
}

template <typename T>
__device__ __forceinline__ void store(T* to, T value, Site = Site::here()) {
  *to = value;
}

/// Registers `bytes` from `begin` on as shared memory of the block. Only the tracer uses it.
__device__ __forceinline__ void note_shared(const void* /*begin*/, size_t /*bytes*/,
                                            size_t /*element_bytes*/) {}

/// Reports an access outside the rows or columns of a view. Only the tracer uses it.
__device__ __forceinline__ void expect_inside(int64_t /*row*/, int64_t /*rows*/, int64_t /*col*/,
                                              int64_t /*cols*/, Site) {}

#ifndef __CUDACC__
/// Starts an asynchronous copy, which completes at the next wait for it.
inline void copy_run(void* shared, const void* global, int bytes, int bytes_read, Site) {
  cpu_emulator::cp_async({shared, bytes}, global, bytes_read);
}
#endif

#endif

}  // namespace SMEM_BUILD
}  // namespace smem
