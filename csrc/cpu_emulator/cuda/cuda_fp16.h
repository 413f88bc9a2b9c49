// Stands for CUDA's header of that name: half precision.
#pragma once

#include "narrow_float.h"

using smem_half_format = smem_narrow_format<5, 10>;

#define Half __half
#define Half2 __half2
#define HalfRaw __half_raw
#define Half2Raw __half2_raw
#define HalfFormat smem_half_format
#define HalfName half
#include "half_type.inc"

SMEM_MATH __half2 __half2half2(__half a) { return {a, a}; }

using half = __half;
using half2 = __half2;
using nv_half = __half;
using nv_half2 = __half2;
