// The launches that a split is made of.
#pragma once

#include "gemm/split/split.h"

namespace smem::gemm::split {

/// The elements of a line whose extremes a block of `extremes` finds.
constexpr int64_t CHUNK = 256;

using Launch = void (*)(const Split&, const Device&);

struct Kernels {
  Launch rows;  ///< the whole split

  // The same in two launches, for lines that lie side by side.
  Launch extremes;  ///< finds the extremes of each CHUNK elements of each line
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
