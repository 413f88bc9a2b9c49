// Stands for CUDA's header of that name.
#pragma once

#include "cuda_pipeline_primitives.h"
