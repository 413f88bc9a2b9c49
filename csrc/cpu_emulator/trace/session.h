// A trace in progress: launches on this operating-system thread are recorded while one is active.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "cpu_emulator/cpu_emulator.h"
#include "cpu_emulator/trace/report.h"

namespace smem::cpu_emulator::trace {

/// Global memory that kernels may access, by name.
struct Buffer {
  std::string name;
  uintptr_t begin;
  size_t bytes;
  uint64_t offset;  ///< of `begin` in its allocation, which is taken to be aligned as on the GPU
  bool constant = false;  ///< __constant__ memory, which has a cache of its own

  bool holds(uintptr_t address, size_t count) const {
    return address >= begin && address + count <= begin + bytes;
  }
  /// The offset in the allocation, from which sectors and banks are counted.
  uint64_t place(uintptr_t address) const { return offset + (address - begin); }
};

/// An array in shared memory. One without a name is the compiler's note of whether a shared object
/// is constructed: it is, since a GPU does not construct it.
struct SharedArray {
  std::string name;
  ptrdiff_t offset;  ///< from the address that `Module::shared_memory` returns
  size_t bytes;
  bool dynamic;
};

/// Where a kernel's code and memory are.
struct Module {
  uintptr_t begin, end;  ///< its code and constants
  /// Returns an address in the calling operating-system thread's own memory, where its block's
  /// shared memory is.
  unsigned char* (*shared_memory)();
  std::vector<SharedArray> arrays{};  ///< sorted by offset: see `sort_arrays`

  void sort_arrays();
  /// The array that the bytes at this offset belong to, or null. Of several that are the same
  /// memory, the first.
  const SharedArray* array_at(ptrdiff_t offset, size_t bytes) const;
};

/// The module that this function is linked into, with the kernels of this package; without arrays.
Module own_module();

class Session {
 public:
  Session();
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// The one that is active on this thread, or null.
  static Session* active();

  /// Memory that belongs to two buffers counts as the one that was added last.
  void add_buffer(const std::string& name, const void* begin, size_t bytes, uint64_t offset = 0);

  std::vector<Buffer> buffers;
  std::vector<Launch> launches;
  Module module = own_module();
  bool counts = true;                ///< otherwise errors are found, and no request is counted
  uint64_t step_limit = UINT64_MAX;  ///< for each thread
};

/// Gathers one launch from the workers that run its blocks.
class Recorder {
 public:
  Recorder(const Session& session, Launch& launch) : session_(session), launch_(launch) {}

  const std::vector<Buffer>& buffers() const { return session_.buffers; }
  const Module& module() const { return session_.module; }
  const Session& session() const { return session_; }
  void merge(Launch&& part);

 private:
  const Session& session_;
  Launch& launch_;
  std::mutex lock_;
};

/// As cpu_emulator::run, recorded in the active session. A deadlock, or a fault of what is
/// asynchronous, ends the launch and is one of its faults.
void run(const char* kernel, dim3 grid, dim3 threads, size_t dynamic_shared_bytes, Body body,
         void* context, const std::vector<int64_t>& only_clusters = {}, unsigned cluster_size = 1);

}  // namespace smem::cpu_emulator::trace
