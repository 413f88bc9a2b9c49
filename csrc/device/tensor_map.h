// The type of a tensor map: CUDA's, or the emulator's under the same names.
#pragma once

#include "device/platform.h"

#ifdef __CUDACC__
#include <cuda.h>
#else
#include "cpu_emulator/sm90/tensor_map.h"
#endif
