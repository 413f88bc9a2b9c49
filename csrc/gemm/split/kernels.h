// The launches that a split is made of.
#pragma once

#include "gemm/split/split.h"

namespace smem::gemm::split {

/// The elements of a line whose extremes a block of `extremes` finds. 256 of them make 512 blocks
/// of an operand of 4096²; but a line has 64 chunks at most, for every block of `turned` reads the
/// extremes of them all.
constexpr int64_t chunk_length(int64_t length) {
  constexpr int64_t LEAST = 256, MOST_CHUNKS = 64;
  const int64_t needed = ceil_div(length, MOST_CHUNKS);
  return needed > LEAST ? needed : LEAST;
}

/// What `extremes` leaves of a chunk.
constexpr size_t EXTREMES_BYTES = 16;

using Launch = void (*)(const Split&, const Device&);

struct Kernels {
  Launch rows;  ///< the whole split

  // The same in two launches, for lines that lie side by side.
  Launch extremes;  ///< finds the extremes of each chunk of each line
  Launch turned;    ///< splits the lines by what that found
};

inline namespace SMEM_BUILD {

void rows(const Split& split, const Device& device);
void extremes(const Split& split, const Device& device);
void turned(const Split& split, const Device& device);

inline constexpr Kernels KERNELS{&rows, &extremes, &turned};

}  // namespace SMEM_BUILD

/// Without CUDA there are none for the device.
const Kernels& device_kernels();
const Kernels& host_kernels();
const Kernels& traced_kernels();

}  // namespace smem::gemm::split
