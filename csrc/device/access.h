// What one access to memory is: a plain load or store on the GPU and in the fast host build, a call
// that checks and counts in the traced build. Every view is made of these, and nothing else differs
// between the builds.
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

/// A line of the source, by which the tracer counts. Helpers that reach memory take one as their
/// last argument, so that the line is their caller's; it is nothing where nobody traces.
struct Site {
  __device__ __forceinline__ static constexpr Site here() { return {}; }
};

/// An element in memory, to be read or assigned.
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

/// Tells the tracer that the block's shared memory holds `bytes` from `begin` on.
__device__ __forceinline__ void note_shared(const void* /*begin*/, size_t /*bytes*/,
                                            size_t /*element_bytes*/) {}

/// Tells the tracer which rows and columns a view has.
__device__ __forceinline__ void expect_inside(int64_t /*row*/, int64_t /*rows*/, int64_t /*col*/,
                                              int64_t /*cols*/, Site) {}

#ifndef __CUDACC__
/// Starts a copy that lands at the next wait for it.
inline void copy_run(void* shared, const void* global, int bytes, int bytes_read, Site) {
  cpu_emulator::cp_async({shared, bytes}, global, bytes_read);
}
#endif

#endif

}  // namespace SMEM_BUILD
}  // namespace smem
