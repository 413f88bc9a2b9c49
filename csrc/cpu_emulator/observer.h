// The interface by which a block reports the events of its threads to the tracer.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cpu_emulator/cpu_emulator.h"
#include "cpu_emulator/site.h"

namespace smem::cpu_emulator {

/// A shuffle consists of two syncs: after all lanes have written their values, and after all have
/// read theirs. The second one is not reported.
enum class WarpSync { barrier, shuffle, shuffle_end };

/// copy_from and copy_to are the two sides of a cp.async, box_from and box_to those of a copy by
/// TMA. wgmma: its products, and its reads of shared memory. mma: the products of a warp, whose
/// operands are in registers. `pass`: a basic block of the kernel begins.
enum class Action : uint8_t {
  load,
  store,
  copy_from,
  copy_to,
  box_from,
  box_to,
  wgmma,
  mma,
  atomic,
  barrier,
  mbarrier_wait,
  warp_barrier,
  shuffle,
  pass
};

struct Copy {
  void* to;
  int bytes;
  unsigned char data[16];
};

/// What one instruction of TMA or of the tensor cores does to one memory.
struct BulkAccess {
  Action action;
  const void* address;         ///< in the memory; null if it accesses none
  unsigned lanes;              ///< boxes, one for each block that receives it; or threads
  unsigned bytes_a_lane = 0;   ///< of a whole box
  uint64_t bytes = 0;          ///< inside the tensor; in all, and what is read twice counts once
  uint64_t sectors = 0;        ///< of 32 bytes, in global memory
  uint64_t wavefronts = 0;     ///< passes through the banks of shared memory
  uint64_t conflicts = 0;      ///< passes beyond the least for so many bytes
  uint64_t tensor_flop = 0;    ///< of a tensor core
  uint64_t tensor_cycles = 0;  ///< see sm90::full_rate_cycles
};

/// The moment of each thread up to which its events are known; empty if none are.
using Clock = std::vector<uint32_t>;

class Observer {
 public:
  virtual ~Observer() = default;

  /// `block_number` counts through the grid, x first.
  virtual void block_begins(dim3 block_index, uint64_t block_number, unsigned threads,
                            SharedRun dynamic_shared) = 0;
  virtual void thread_ends(unsigned thread) = 0;

  virtual void thread_at_barrier(unsigned thread, Site site) = 0;
  /// `arrived` threads continue; if they are fewer than `threads`, the others have ended.
  virtual void barrier_opens(unsigned arrived, unsigned threads) = 0;

  /// `bytes` is the size of the lane's value, 0 at a barrier.
  virtual void lane_at_warp_sync(unsigned thread, WarpSync kind, int bytes, unsigned mask,
                                 Site site) = 0;
  /// The lanes in `passed` continue. A mask may name lanes that have ended, and those that a block
  /// of no whole number of warps lacks.
  virtual void warp_sync_opens(unsigned warp, WarpSync kind, unsigned passed) = 0;
  /// A shuffle reads from a lane that does not take part.
  virtual void shuffle_without_source(unsigned thread, unsigned source, Site site) = 0;

  /// The thread has waited: the copy's bytes are being written.
  virtual void copy_lands(unsigned thread, const Copy& copy) = 0;

  /// The running thread initialises an asynchronous barrier, or arrives or waits at it.
  virtual void barrier_used(const void* barrier, bool initialises, Site site) = 0;
  /// What the thread has done until now becomes a part of `clock`.
  virtual void release(unsigned thread, Clock& clock) = 0;
  /// The thread goes on after all that `clock` has.
  virtual void acquire(unsigned thread, const Clock& clock) = 0;
  /// A barrier that the copy was bound to completes: the copy's bytes are being written.
  virtual void bound_copy_lands(const Copy& copy) = 0;

  /// TMA is about to write bytes to shared memory.
  virtual void async_copy_lands(const void* to, size_t bytes) = 0;

  // The pipeline of sm_90. Bytes and mbarriers are those of the block's shared window.

  /// The running thread waits at an mbarrier; `is_first` of its warp to wait for this phase.
  virtual void mbarrier_wait(bool is_first, bool is_complete, Site site) = 0;
  /// TMA begins to load a box, whose bytes complete on the mbarrier.
  virtual void box_load_begins(uint32_t barrier, uint32_t begin, uint32_t end) = 0;
  virtual void phase_completes(uint32_t barrier) = 0;
  virtual void wgmma_read_begins(uint32_t begin, uint32_t end) = 0;
  virtual void wgmma_read_ends(uint32_t begin, uint32_t end) = 0;

  /// Some threads wait forever. `text` names them and the call.
  virtual void deadlock(const char* text, Site site) = 0;
  virtual void block_ends() = 0;

  // What the kernel reports of the running thread.

  /// An access, before it happens; false if there is no memory to access.
  virtual bool access(Action action, const void* address, size_t bytes, Site site) = 0;
  virtual bool in_shared_memory(const void* address) = 0;
  /// A load from shared memory whose value the kernel may not use, so it need not be stored.
  virtual bool speculative_load(const void* address, size_t bytes, Site site) = 0;
  virtual void basic_block(Site site) = 0;
  /// It happens later; the kernel's arguments are right.
  virtual void bulk_access(const BulkAccess& access, Site site) = 0;
  /// A cp.async, before it starts; false as for `access`.
  virtual bool copy(void* shared, const void* global, int bytes, int bytes_read, Site site) = 0;
  /// An error that the kernel or the emulator found; the thread ends.
  virtual void error(const char* kind, const std::string& detail, Site site) = 0;
  virtual uint64_t step_limit() const = 0;
  /// Whether it wants to know of basic blocks; otherwise of faults only.
  virtual bool keeps_events() const = 0;
};

}  // namespace smem::cpu_emulator
