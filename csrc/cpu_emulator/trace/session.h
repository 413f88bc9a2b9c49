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

  bool holds(uintptr_t address, size_t count) const {
    return address >= begin && address + count <= begin + bytes;
  }
  /// The offset in the allocation, from which sectors and banks are counted.
  uint64_t place(uintptr_t address) const { return offset + (address - begin); }
};

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
};

/// Gathers one launch from the workers that run its blocks.
class Recorder {
 public:
  Recorder(const Session& session, Launch& launch) : session_(session), launch_(launch) {}

  const std::vector<Buffer>& buffers() const { return session_.buffers; }
  void merge(Launch&& part);

 private:
  const Session& session_;
  Launch& launch_;
  std::mutex lock_;
};

/// As cpu_emulator::run, recorded in the active session. A deadlock ends the launch and is one of
/// its faults.
void run(const char* kernel, dim3 grid, dim3 threads, size_t dynamic_shared_bytes, Body body,
         void* context);

template <typename F>
void run(const char* kernel, dim3 grid, dim3 threads, size_t dynamic_shared_bytes, F body) {
  run(kernel, grid, threads, dynamic_shared_bytes, [](void* f) { (*static_cast<F*>(f))(); }, &body);
}

}  // namespace smem::cpu_emulator::trace
