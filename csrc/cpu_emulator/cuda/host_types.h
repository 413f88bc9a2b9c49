// Names of CUDA's host API that stand outside functions, in signatures and classes that a kernel
// does not use. The functions cannot be called: only kernels run.
#pragma once

#include "emulator_api.h"

#define CUDART_VERSION 12000
#define CUDA_VERSION 12000
#define CUDARTAPI
#define CUDART_CB

using cudaStream_t = struct CUstream_st*;
using cudaEvent_t = struct CUevent_st*;
using cudaGraph_t = struct CUgraph_st*;
using cudaGraphExec_t = struct CUgraphExec_st*;
using cudaArray_t = struct cudaArray*;
using cudaTextureObject_t = unsigned long long;
using cudaSurfaceObject_t = unsigned long long;
using CUstream = cudaStream_t;
using CUdeviceptr = unsigned long long;

enum cudaError { cudaSuccess = 0, cudaErrorInvalidValue = 1, cudaErrorMemoryAllocation = 2 };
using cudaError_t = cudaError;
enum cudaMemcpyKind {
  cudaMemcpyHostToHost,
  cudaMemcpyHostToDevice,
  cudaMemcpyDeviceToHost,
  cudaMemcpyDeviceToDevice,
  cudaMemcpyDefault
};
struct cudaDeviceProp {
  char name[256];
  size_t totalGlobalMem, sharedMemPerBlock, sharedMemPerMultiprocessor, totalConstMem;
  int regsPerBlock, warpSize, maxThreadsPerBlock, maxThreadsDim[3], maxGridSize[3], clockRate;
  int major, minor, multiProcessorCount, l2CacheSize, maxThreadsPerMultiProcessor;
};

// Member functions of classes may call these, though no kernel calls the member functions.
#define SMEM_HOST_FUNCTION(name)   \
  template <typename... Arguments> \
  cudaError_t name(Arguments&&...);
SMEM_HOST_FUNCTION(cudaMalloc)
SMEM_HOST_FUNCTION(cudaMallocHost)
SMEM_HOST_FUNCTION(cudaMallocManaged)
SMEM_HOST_FUNCTION(cudaFree)
SMEM_HOST_FUNCTION(cudaFreeHost)
SMEM_HOST_FUNCTION(cudaMemcpy)
SMEM_HOST_FUNCTION(cudaMemcpyAsync)
SMEM_HOST_FUNCTION(cudaMemset)
SMEM_HOST_FUNCTION(cudaMemsetAsync)
SMEM_HOST_FUNCTION(cudaGetLastError)
SMEM_HOST_FUNCTION(cudaDeviceSynchronize)
SMEM_HOST_FUNCTION(cudaStreamCreate)
SMEM_HOST_FUNCTION(cudaStreamDestroy)
SMEM_HOST_FUNCTION(cudaStreamSynchronize)
SMEM_HOST_FUNCTION(cudaEventCreate)
SMEM_HOST_FUNCTION(cudaEventDestroy)
SMEM_HOST_FUNCTION(cudaEventRecord)
SMEM_HOST_FUNCTION(cudaEventSynchronize)
SMEM_HOST_FUNCTION(cudaEventElapsedTime)
#undef SMEM_HOST_FUNCTION
const char* cudaGetErrorString(cudaError_t);
const char* cudaGetErrorName(cudaError_t);
