#include "cpu_emulator/trace/cost.h"

#include <algorithm>
#include <array>
#include <bit>
#include <iterator>
#include <map>
#include <set>

namespace smem::cpu_emulator::trace {

namespace {

constexpr int BANKS = 32, WORD_BYTES = 4, SECTOR_BYTES = 32;

/// 16 bytes are 4 words, 5 where they are misaligned.
constexpr int MAX_UNITS = 32 * 5;

/// The distinct units of `unit_bytes`, a power of two, that lanes begin to end - 1 touch,
/// ascending; returns their number. A shift, because two divisions a lane took most of a trace's
/// time.
int touched(const Request& request, int begin, int end, int unit_bytes,
            uint64_t (&units)[MAX_UNITS]) {
  const int shift = std::countr_zero(static_cast<unsigned>(unit_bytes));
  int count = 0;
  bool ascending = true;  // as a rule
  for (int l = begin; l < end; ++l) {
    if (!(request.mask >> l & 1)) continue;
    const uint64_t last = (request.address[l] + request.bytes - 1) >> shift;
    for (uint64_t unit = request.address[l] >> shift; unit <= last; ++unit) {
      if (count > 0 && unit == units[count - 1]) continue;
      ascending &= count == 0 || unit > units[count - 1];
      units[count++] = unit;
    }
  }
  if (ascending) return count;
  std::sort(units, units + count);
  return static_cast<int>(std::unique(units, units + count) - units);
}

bool pairs_agree(const Request& request, int distance) {
  for (int l = 0; l < 32; ++l) {
    const int other = l ^ distance;
    if ((request.mask >> l & request.mask >> other & 1) &&
        request.address[l] != request.address[other]) {
      return false;
    }
  }
  return true;
}

}  // namespace

bool is_moved(const Request& request, const Request& other, uint64_t step) {
  if (request.mask == 0 || request.mask != other.mask || request.bytes != other.bytes) return false;
  const int first = std::countr_zero(request.mask);
  const uint64_t distance = request.address[first] - other.address[first];
  if (distance % step != 0) return false;
  for (uint32_t lanes = request.mask; lanes; lanes &= lanes - 1) {
    const int l = std::countr_zero(lanes);
    if (request.address[l] - other.address[l] != distance) return false;
  }
  return true;
}

int sectors(const Request& request) {
  uint64_t units[MAX_UNITS];
  return touched(request, 0, 32, SECTOR_BYTES, units);
}

int distinct_bytes(const Request& request) {
  // Aligned accesses of one width coincide or are apart.
  uint64_t units[MAX_UNITS];
  return request.bytes * touched(request, 0, 32, request.bytes, units);
}

Passes passes(const Request& request, bool is_load) {
  int lanes = request.bytes <= WORD_BYTES ? 32 : 32 * WORD_BYTES / request.bytes;
  if (lanes < 32 && is_load && (pairs_agree(request, 1) || pairs_agree(request, 2))) lanes *= 2;
  Passes total{0, 0};
  for (int begin = 0; begin < 32; begin += lanes) {
    uint64_t words[MAX_UNITS];
    const int count = touched(request, begin, begin + lanes, WORD_BYTES, words);
    if (count == 0) continue;
    int in_bank[BANKS] = {};
    for (int i = 0; i < count; ++i) ++in_bank[words[i] % BANKS];
    total.wavefronts += *std::max_element(std::begin(in_bank), std::end(in_bank));
    total.least += 1;
  }
  return total;
}

namespace {

constexpr int PIECE_BYTES = 16, PIECES_A_LINE = 8;

/// How many of the words that lanes begin to end - 1 move lie in the fullest bank, lanes that share
/// a word counted each.
int fullest_bank(const Request& request, const uint64_t (&address)[32], int begin, int end) {
  int in_bank[BANKS] = {};
  for (int l = begin; l < end; ++l) {
    if (!(request.mask >> l & 1) || address[l] == NOWHERE) continue;
    for (int word = 0; word < request.bytes / WORD_BYTES; ++word) {
      ++in_bank[(address[l] / WORD_BYTES + word) % BANKS];
    }
  }
  return *std::max_element(std::begin(in_bank), std::end(in_bank));
}

/// Calls f(address, the other end), in pieces of 16 bytes, for each lane that copies from
/// somewhere.
template <typename F>
void for_each_lane(const Request& request, const F& f) {
  for (int l = 0; l < 32; ++l) {
    if ((request.mask >> l & 1) && request.partner[l] != NOWHERE) {
      f(request.address[l] / PIECE_BYTES, request.partner[l] / PIECE_BYTES);
    }
  }
}

}  // namespace

Passes copy_passes(const Request& to) {
  if (to.bytes == PIECE_BYTES) {
    std::map<uint64_t, std::set<std::array<uint64_t, 2>>> from_line;
    for_each_lane(to, [&](uint64_t a, uint64_t b) {
      from_line[b / PIECES_A_LINE].insert({a / PIECES_A_LINE, (a ^ b) % PIECES_A_LINE});
    });
    int count = 0;
    for (const auto& [line, moves] : from_line) {
      const auto n = static_cast<int>(moves.size());
      count += n < 3 ? n + 1 : n;
    }
    return {count, count};
  }
  const int lanes = 32 * WORD_BYTES / to.bytes;
  Passes total{0, 0};
  for (int begin = 0; begin < 32; begin += lanes) {
    const int written = fullest_bank(to, to.address, begin, begin + lanes);
    if (written == 0) continue;
    total.wavefronts += std::max(written, fullest_bank(to, to.partner, begin, begin + lanes));
    total.least += 1;
  }
  return total;
}

int copy_sectors(const Request& from) {
  if (from.bytes != PIECE_BYTES) return sectors(from);
  std::set<std::array<uint64_t, 3>> moves;
  for_each_lane(from, [&](uint64_t a, uint64_t b) { moves.insert({a / 2, b / 2, (a ^ b) % 2}); });
  return static_cast<int>(moves.size());
}

}  // namespace smem::cpu_emulator::trace
