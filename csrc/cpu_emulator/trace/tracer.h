// Observes one worker's blocks: counts their accesses and finds errors that would occur on the GPU.
#pragma once

#include <array>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cpu_emulator/observer.h"
#include "cpu_emulator/trace/memory_map.h"
#include "cpu_emulator/trace/merged_loads.h"
#include "cpu_emulator/trace/pipeline.h"
#include "cpu_emulator/trace/report.h"
#include "cpu_emulator/trace/session.h"
#include "cpu_emulator/trace/shared_memory.h"
#include "cpu_emulator/trace/warp_replay.h"

namespace smem::cpu_emulator::trace {

class Tracer final : public Observer {
 public:
  /// Adds what it found to `launch` when it is destroyed, under the lock of its recorder.
  explicit Tracer(Recorder& recorder);
  ~Tracer() override { recorder_.merge(finish()); }

  void block_begins(dim3 block_index, uint64_t block_number, unsigned threads,
                    SharedRun dynamic_shared) override;
  void thread_ends(unsigned thread) override;
  void thread_at_barrier(unsigned thread, Site site) override;
  void barrier_opens(unsigned arrived, unsigned threads) override;
  void lane_at_warp_sync(unsigned thread, WarpSync kind, int bytes, unsigned mask,
                         Site site) override;
  void warp_sync_opens(unsigned warp, WarpSync kind, unsigned passed) override;
  void shuffle_without_source(unsigned thread, unsigned source, Site site) override;
  void copy_lands(unsigned thread, const Copy& copy) override;
  void barrier_used(const void* barrier, bool initialises, Site site) override;
  void release(unsigned thread, Clock& clock) override { order_.release(thread, clock); }
  void acquire(unsigned thread, const Clock& clock) override { order_.acquire(thread, clock); }
  void bound_copy_lands(const Copy& copy) override;
  void async_copy_lands(const void* to, size_t bytes) override;
  void mbarrier_wait(bool is_first, bool is_complete, Site site) override;
  void box_load_begins(uint32_t barrier, uint32_t begin, uint32_t end) override {
    if (block_number_ == 0) pipeline_.box_load_begins(barrier, begin, end);
  }
  void phase_completes(uint32_t barrier) override {
    if (block_number_ == 0) pipeline_.phase_completes(barrier);
  }
  void wgmma_read_begins(uint32_t begin, uint32_t end) override {
    if (block_number_ == 0) pipeline_.wgmma_read_begins(begin, end);
  }
  void wgmma_read_ends(uint32_t begin, uint32_t end) override {
    if (block_number_ == 0) pipeline_.wgmma_read_ends(begin, end);
  }
  void deadlock(const char* text, Site site) override;
  void block_ends() override;
  bool access(Action action, const void* address, size_t bytes, Site site) override {
    return access(action, address, bytes, bytes, nullptr, site);
  }
  bool speculative_load(const void* address, size_t bytes, Site site) override {
    return access(Action::load, address, bytes, bytes, nullptr, site, true);
  }
  bool in_shared_memory(const void* address) override {
    return memory_.find_shared(address, 1).region >= 0;
  }
  void basic_block(Site site) override;
  void bulk_access(const BulkAccess& access, Site site) override;
  void error(const char* kind, const std::string& detail, Site site) override;
  uint64_t step_limit() const override { return recorder_.session().step_limit; }
  bool keeps_events() const override { return counts_; }

  bool copy(void* shared, const void* global, int bytes, int bytes_read, Site site) override;

 private:
  using Key = std::tuple<uint32_t, Action, uint16_t, unsigned>;
  struct HashKey {
    size_t operator()(const Key& key) const;
  };
  struct Meeting {  ///< a lane at a warp barrier or shuffle
    Site site;
    unsigned mask;  ///< the lanes that it waits for; 0 if it does not wait
  };

  /// An access as wide as `bytes`, of which only the first `used` must be there. `partner` is the
  /// other end of a copy, or null. `speculative`: what is loaded need not have been stored.
  bool access(Action action, const void* address, size_t bytes, size_t used, const void* partner,
              Site site, bool speculative = false);
  /// The offset of an address in its array or its tensor's allocation.
  uint64_t place_of(const void* address, uintptr_t key);
  unsigned lanes_of(unsigned warp) const;
  void check_shared(Action action, const void* address, SharedMemory::Place place, size_t bytes,
                    Site site, bool speculative);
  /// A race of two stores by one instruction. It is reported when the running thread goes on, if
  /// its store has changed the memory: threads that store the same value do no harm, and
  /// compute-sanitizer, too, only notes them.
  struct RivalStore {
    unsigned thread;
    const void* address;
    size_t bytes;
    std::array<unsigned char, 16> before;
    SharedMemory::Error error;
    Site site;
  };
  void judge_rival_stores() {
    if (!rival_stores_.empty()) judge_own_store();
  }
  void judge_own_store();
  /// An error of the running thread.
  void report(const SharedMemory::Error& error, Site site);

  /// What the running thread does at a place, to be kept until the other lanes of its warp are
  /// known.
  LaneEvent event_of(Site site, Action action, size_t bytes, uint16_t memory) const;
  void log_meeting(Site site, Action action, size_t bytes);
  /// If so many events of the running thread wait, lets the other lanes catch up.
  void limit_events(size_t waiting) {
    constexpr size_t EVENTS_A_LANE = 8192;
    if (waiting % EVENTS_A_LANE == 0) [[unlikely]] {
      let_others_run();
    }
  }
  void let_others_run();
  void flush(unsigned warp) { drain(warp, 0); }
  /// As flush, while the lanes `running` may still add events.
  void drain(unsigned warp, uint32_t running);
  struct Cost {
    uint64_t distinct_bytes = 0;
    uint64_t passes = 0;     ///< sectors of global memory, or wavefronts of shared memory
    uint64_t conflicts = 0;  ///< wavefronts beyond the least
  };
  struct Tally {
    Row row;
    MergedLoads merged;
    Request last{};  ///< costs `cost`; its partners are not kept
    Cost cost{};
  };
  Tally& tally_of(uint32_t pc, Action action, uint16_t memory, unsigned bytes);
  Cost cost_of(const LaneEvent& event, const Request& request) const;
  /// The same of an access that is no copy, by that of the line's last request where it can be.
  const Cost& cost_of_next(Tally& tally, const LaneEvent& event, const Request& request) const;
  void account(unsigned warp, const LaneEvent& event, const Request& request);
  void fault(const std::string& kind, const std::string& detail, const std::string& threads,
             Site site);
  Launch finish();

  /// Where it is noted in this worker's memory is asked for once: that takes a call, and each
  /// access needs it.
  Thread& running() const { return **running_thread_; }
  WarpReplay& running_warp() { return warps_[running().linear / WARP_SIZE]; }

  Recorder& recorder_;
  const bool counts_;     ///< otherwise only errors are found
  const uintptr_t code_;  ///< where the kernel's code begins
  Thread* const* running_thread_;
  Order order_;
  SharedMemory shared_{order_, recorder_.module().begin};
  MemoryMap memory_{recorder_, shared_};
  std::vector<WarpReplay> warps_;
  std::vector<unsigned> running_;    ///< threads of a warp that have not ended
  std::vector<uint32_t> ended_;      ///< lanes of a warp that have
  std::vector<Meeting> meetings_;    ///< by thread, whole warps
  std::vector<Site> barrier_sites_;  ///< where this round's threads arrived
  dim3 block_index_;
  uint64_t block_number_ = 0;
  unsigned threads_ = 0;
  std::unordered_map<Key, Tally, HashKey> tallies_;
  std::map<std::pair<std::string, std::string>, Fault> faults_;  ///< by kind and place
  Operations operations_;
  Pipeline pipeline_;                     ///< of block 0
  std::vector<RivalStore> rival_stores_;  ///< at most one a thread
};

}  // namespace smem::cpu_emulator::trace
