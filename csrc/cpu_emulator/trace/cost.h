// The cost of a warp's access in the memory that serves it.
#pragma once

#include <cstdint>

namespace smem::cpu_emulator::trace {

/// One access of a warp: lane l, if it is in `mask`, accesses `bytes` bytes at address[l].
struct Request {
  uint32_t mask = 0;
  int bytes = 0;
  uint64_t address[32];
  uint64_t partner[32];  ///< of a copy: the address of the other end
};

/// Whether the request is `other` with all addresses moved by the same multiple of `step`.
bool is_moved(const Request& request, const Request& other, uint64_t step);

/// The partner of a lane that copies zeros through the cache.
constexpr uint64_t NOWHERE = ~uint64_t{0};

/// The number of 32-byte sectors of global memory that the request accesses.
int sectors(const Request& request);

/// The number of distinct bytes that the request accesses.
int distinct_bytes(const Request& request);

struct Passes {
  int wavefronts;  ///< passes through the 32 banks
  int least;       ///< the number that the access width needs; the others are conflicts
};

/// How shared memory serves the request. Banks are 4 bytes wide, and each delivers one word per
/// pass to all lanes that access it. Accesses of 8 bytes per lane are served by half warps, of 16
/// bytes by quarter warps. Loads are served in groups twice as large if all pairs of active lanes
/// (l, l ^ 1), or all pairs (l, l ^ 2), access the same address. This rule, with `least` as a
/// group's first pass, gives ncu's wavefronts and bank conflicts on an H200 for 460 patterns (1 to
/// 16 bytes, regular and random, all lanes or some), loads and stores alike.
Passes passes(const Request& request, bool is_load);

// cp.async moves data from the L1 cache, or past it, into shared memory. The rules below were
// fitted to about 500 pairs of source and destination patterns on an H200.

/// The destination side. Copies of 4 or 8 bytes per lane go through the cache: a pass takes a word
/// from each bank of its lines and puts a word into each bank of shared memory, each for one lane;
/// lanes that copy zeros cost nothing. The rule is exact if source or destination is regular, and
/// up to two fifths too low if both are scattered.
///
/// Copies of 16 bytes per lane bypass the cache. Two 16-byte vectors of a 128-byte source line
/// share a pass if they go to the same destination line and the XOR of their offsets in the two
/// lines is equal; a line that needs one or two passes needs another. Zeros count as if they came
/// from a line like their destination. The rule is exact if contiguous ranges begin at a line, and
/// within a tenth otherwise; ncu reports no conflicts for these copies.
Passes copy_passes(const Request& to);

/// The source side: 32-byte sectors. When the cache is bypassed, a sector that goes to two sectors
/// counts twice.
int copy_sectors(const Request& from);

}  // namespace smem::cpu_emulator::trace
