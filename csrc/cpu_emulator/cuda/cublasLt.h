// Stands for cuBLASLt's header, as cublas_v2.h does for cuBLAS's.
#pragma once

#include "cublas_v2.h"
