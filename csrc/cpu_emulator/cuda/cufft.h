// Stands for cuFFT's header, for the numbers that kernels take and its handles. The library cannot
// be called: only kernels run.
#pragma once

#include "cuComplex.h"

using cufftReal = float;
using cufftDoubleReal = double;
using cufftComplex = cuComplex;
using cufftDoubleComplex = cuDoubleComplex;
using cufftHandle = int;
enum cufftResult { CUFFT_SUCCESS = 0 };
