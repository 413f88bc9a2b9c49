// Stands for CUDA's header of that name: bfloat16.
#pragma once

#include "narrow_float.h"

using smem_bfloat16_format = smem_narrow_format<8, 7>;

#define Half __nv_bfloat16
#define Half2 __nv_bfloat162
#define HalfRaw __nv_bfloat16_raw
#define Half2Raw __nv_bfloat162_raw
#define HalfFormat smem_bfloat16_format
#define HalfName bfloat16
#include "half_type.inc"

SMEM_MATH __nv_bfloat162 __bfloat162bfloat162(__nv_bfloat16 a) { return {a, a}; }

using nv_bfloat16 = __nv_bfloat16;
using nv_bfloat162 = __nv_bfloat162;
