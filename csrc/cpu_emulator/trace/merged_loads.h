// The cost of a line's loads if the compiler merges several into one wide load.
#pragma once

#include <cstdint>

#include "cpu_emulator/trace/cost.h"

namespace smem::cpu_emulator::trace {

/// In an unrolled loop over neighbours in a tile, nvcc turns up to four loads into one, of at most
/// 16 bytes (PTX has vectors of four), if it can see that they are aligned: LDS.128 for float. So
/// this asks whether every load of a line is part of an aligned run of that length, lane by lane,
/// and adds up what the wide loads cost.
class MergedLoads {
 public:
  /// `warp` is the number of the warp that loads: a run belongs to one.
  void add(const Request& load, unsigned warp);

  /// Whether all loads so far were whole runs; the counts mean nothing otherwise.
  bool possible() const { return possible_ && length_ == 0; }
  uint64_t requests() const { return requests_; }
  uint64_t wavefronts() const { return wavefronts_; }
  uint64_t conflicts() const { return conflicts_; }

 private:
  bool begins_run(const Request& load) const;
  bool goes_on(const Request& load, unsigned warp) const;

  bool possible_ = true;
  Request run_;     ///< the first load of the run under way
  int length_ = 0;  ///< how many loads it has
  unsigned warp_ = 0;
  uint64_t requests_ = 0, wavefronts_ = 0, conflicts_ = 0;
};

}  // namespace smem::cpu_emulator::trace
