// SMEM_CAPABILITY: lets a GPU pass for an older one, so that one machine tests what others run.
#pragma once

#include "device/launch.h"

namespace smem {

/// The device as a GPU of the compute capability that `text` names ("8.6" or "86"): dispatch takes
/// the kernels of such a GPU, with its shared memory per block. The GPU's own code runs, as far as
/// it is compiled for that capability or an older one. Throws if the text names none from 7.5 up to
/// the device's own.
Device with_capability(Device device, const char* text);

}  // namespace smem
