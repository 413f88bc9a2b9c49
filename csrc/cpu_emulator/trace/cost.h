// What a warp's access costs the memory that serves it.
#pragma once

#include <cstdint>

namespace smem::cpu_emulator::trace {

/// One access of a warp: lane l touches `bytes` bytes from address[l] on, where `mask` has l.
struct Request {
  uint32_t mask = 0;
  int bytes = 0;
  uint64_t address[32];
  uint64_t partner[32];  ///< of a copy: where the bytes go to, or come from
};

/// The partner of a lane that copies zeros through the cache.
constexpr uint64_t NOWHERE = ~uint64_t{0};

/// The 32-byte sectors of global memory that the request touches.
int sectors(const Request& request);

/// The bytes that the request touches, those that several lanes touch counted once.
int distinct_bytes(const Request& request);

struct Passes {
  int wavefronts;  ///< passes through the 32 banks
  int least;       ///< as many as so wide an access needs anyway; the others are conflicts
};

/// How shared memory serves the request. Banks are 4 bytes wide, and each gives one word a pass, to
/// all lanes that ask for it. 8 bytes a lane are served by half warps, 16 by quarter warps; a load
/// by groups twice as large where every pair of active lanes (l, l ^ 1), or every pair (l, l ^ 2),
/// wants the same address. This rule, with `least` as a group's first pass, gives ncu's wavefronts
/// and bank conflicts on an H200 for 460 patterns (1 to 16 bytes, regular and random, all lanes or
/// some), loads and stores alike.
Passes passes(const Request& request, bool is_load);

// cp.async moves data from the L1 cache, or past it, into shared memory. What follows was fitted to
// some 500 pairs of source and destination patterns on an H200.

/// The destination side. 4 or 8 bytes a lane go through the cache: a pass takes a word from each
/// bank of its lines and puts a word into each bank of shared memory, each for one lane; lanes that
/// copy zeros cost nothing. Exact where source or destination is regular, up to two fifths too few
/// where both are scattered.
///
/// 16 bytes a lane go past the cache: of a source line of 128 bytes those pieces share a pass that
/// go to one line by the same exclusive or of their places, and a line that needs one or two passes
/// needs another. Zeros count as if they came from a line like the one they go to. Exact where runs
/// begin with a line, within a tenth elsewhere; ncu knows no conflicts of these.
Passes copy_passes(const Request& to);

/// The source side: 32-byte sectors. Past the cache, one that goes to two sectors counts twice.
int copy_sectors(const Request& from);

}  // namespace smem::cpu_emulator::trace
