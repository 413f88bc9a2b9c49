// Stands for CUB's header of that name: the warp's and block's reductions and scans. What else CUB
// has is refused by its name (raw_kernel/unsupported.py).
#pragma once

#include "../cuda_bf16.h"
#include "../cuda_fp16.h"
#include "block/block_reduce.cuh"
#include "block/block_scan.cuh"
#include "warp/warp_reduce.cuh"
#include "warp/warp_scan.cuh"
