// Observes one worker's blocks: counts their accesses and finds errors that would occur on the GPU.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cpu_emulator/observer.h"
#include "cpu_emulator/trace/merged_loads.h"
#include "cpu_emulator/trace/report.h"
#include "cpu_emulator/trace/session.h"
#include "cpu_emulator/trace/shared_memory.h"
#include "cpu_emulator/trace/warp_log.h"

namespace smem::cpu_emulator::trace {

class Tracer final : public Observer {
 public:
  /// Adds what it found to `launch` when it is destroyed, under the lock of its recorder.
  explicit Tracer(Recorder& recorder) : recorder_(recorder) {}
  ~Tracer() override { recorder_.merge(finish()); }

  void block_begins(dim3 block_index, uint64_t block_number, unsigned threads,
                    SharedRun dynamic_shared) override;
  void thread_ends(unsigned thread) override;
  void thread_at_barrier(unsigned thread, Site site) override;
  void barrier_opens(unsigned arrived, unsigned threads) override;
  void lane_at_warp_sync(unsigned thread, WarpSync kind, int bytes, unsigned mask,
                         Site site) override;
  void warp_sync_opens(unsigned warp, WarpSync kind, unsigned passed, unsigned alive) override;
  void shuffle_without_source(unsigned thread, unsigned source, Site site) override;
  void copy_lands(unsigned thread, const Copy& copy) override;
  void deadlock(const char* text, Site site) override;
  void block_ends() override;

  bool access(Action action, const void* address, size_t bytes, Site site) {
    return access(action, address, bytes, bytes, nullptr, site);
  }
  void copy(void* shared, const void* global, int bytes, int bytes_read, Site site);
  void note_shared(const void* begin, size_t bytes, size_t element_bytes) {
    shared_.note(begin, bytes, element_bytes);
  }
  void outside_view(const std::string& detail, Site site);
  Arithmetic& arithmetic() { return arithmetic_; }

 private:
  using Key = std::tuple<uintptr_t, Action, uint16_t, uint8_t>;
  struct HashKey {
    size_t operator()(const Key& key) const;
  };
  struct Meeting {  ///< a lane at a warp barrier or shuffle
    Site site;
    unsigned mask;  ///< the lanes that it waits for; 0 if it does not wait
  };

  /// An access as wide as `bytes`, of which only the first `used` must be there. `partner` is the
  /// other end of a copy, or null.
  bool access(Action action, const void* address, size_t bytes, size_t used, const void* partner,
              Site site);
  uint64_t place_of(const void* address) const;
  size_t find_buffer(uintptr_t address, size_t bytes) const;
  void outside(const std::string& detail, Site site);
  unsigned lanes_of(unsigned warp) const;
  bool check_shared(Action action, SharedMemory::Place place, size_t bytes, Site site);
  void log(unsigned thread, const Event& event);
  void flush(unsigned warp);
  void account(const Event& event, const Request& request, bool ambiguous);
  void fault(const std::string& kind, const std::string& detail, const std::string& threads,
             Site site);
  Launch finish();

  Recorder& recorder_;
  Order order_;
  SharedMemory shared_{order_};
  std::vector<WarpLog> warps_;
  std::vector<unsigned> running_;    ///< threads of a warp that have not ended
  std::vector<Meeting> meetings_;    ///< by thread, whole warps
  std::vector<Site> barrier_sites_;  ///< where this round's threads arrived
  const void* dynamic_shared_ = nullptr;
  dim3 block_index_;
  uint64_t block_number_ = 0;
  unsigned threads_ = 0;
  std::pair<unsigned, unsigned>
      reported_outside_;  ///< thread and line of the last access outside a view
  struct Tally {
    Row row;
    MergedLoads merged;
  };
  std::unordered_map<Key, Tally, HashKey> tallies_;
  std::map<std::pair<std::string, std::string>, Fault> faults_;  ///< by kind and place
  Arithmetic arithmetic_;
};

}  // namespace smem::cpu_emulator::trace
