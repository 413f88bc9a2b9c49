// CUDA C++ for the CPU: what nvcc makes known to every kernel without an #include. A kernel that is
// compiled with this header, and with g++'s -fsanitize=thread for its callbacks, runs under the
// emulator (torch_smem_gemm.RawKernel).
#pragma once

#include "c_library.h"

#define __NVCC__ 1
#define __CUDACC__ 1
#define __CUDACC_VER_MAJOR__ 12
#define __CUDACC_VER_MINOR__ 0
// A kernel compiled here behaves as on an H200 without its tensor cores.
#define __CUDA_ARCH__ 900

#include "atomic_functions.h"
#include "conversion_functions.h"
#include "cuda_language.h"
#include "host_types.h"
#include "integer_functions.h"
#include "math_functions.h"
#include "ptx_functions.h"
#include "rounded_functions.h"
#include "shared_address.h"
#include "vector_types.h"
#include "warp_functions.h"

// Last, since it gives names of the C library another meaning.
#include "memory_functions.h"

// What libcu++ copies from the C++ library.
namespace cuda {
namespace std = ::std;
}
