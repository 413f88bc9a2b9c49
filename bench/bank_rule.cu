// Accesses of one warp to shared memory, one a launch, for bank_rule.py to run under ncu.
//
//     bank_rule FILE
//
// A line of FILE is an access: its kind (load, store or copy), the bytes of a lane, and for each
// of 32 lanes the byte offset in shared memory, -1 where the lane takes no part. A copy has 32
// more, the offsets in global memory of what the lanes copy.
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>

constexpr int LANES = 32, SHARED_BYTES = 8192, GLOBAL_BYTES = 65536;

/// What lies at a byte offset. The memory is dynamic: of an array nvcc would know that nothing was
/// ever stored there, and leave the load out.
template <typename T>
__device__ T* shared_at(int offset) {
  extern __shared__ uint4 memory[];
  return reinterpret_cast<T*>(reinterpret_cast<char*>(memory) + offset);
}

template <typename T>
__global__ void load(const int* offsets, T* out) {
  const int offset = offsets[threadIdx.x];
  if (offset >= 0) out[threadIdx.x] = *shared_at<T>(offset);
}

/// `out` is null: what follows the store is there to make nvcc keep it.
template <typename T>
__global__ void store(const int* offsets, T* out) {
  const int offset = offsets[threadIdx.x];
  if (offset >= 0) *shared_at<T>(offset) = T{};
  __syncthreads();
  if (out) out[threadIdx.x] = *shared_at<T>(0);
}

template <typename T>
__global__ void copy(const int* offsets, const char* global) {
  const int offset = offsets[threadIdx.x];
  const char* const from = global + offsets[LANES + threadIdx.x];
  if (offset >= 0) {
    const auto to = static_cast<unsigned>(__cvta_generic_to_shared(shared_at<T>(offset)));
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(from), "n"(sizeof(T))
                 : "memory");
  }
  asm volatile("cp.async.wait_all;" ::: "memory");
}

/// Launches one access; false if there is none of that kind and width.
template <typename T>
bool launch(const std::string& kind, const int* offsets, char* global) {
  if (kind == "load") {
    load<T><<<1, LANES, SHARED_BYTES>>>(offsets, reinterpret_cast<T*>(global));
  } else if (kind == "store") {
    store<T><<<1, LANES, SHARED_BYTES>>>(offsets, nullptr);
  } else if constexpr (sizeof(T) == 4 || sizeof(T) == 8) {
    copy<T><<<1, LANES, SHARED_BYTES>>>(offsets, global);
  } else {
    return false;
  }
  return true;
}

bool launch(const std::string& kind, int bytes, const int* offsets, char* global) {
  switch (bytes) {
    case 1:
      return launch<uint8_t>(kind, offsets, global);
    case 2:
      return launch<uint16_t>(kind, offsets, global);
    case 4:
      return launch<uint32_t>(kind, offsets, global);
    case 8:
      return launch<uint2>(kind, offsets, global);
    case 16:
      return launch<uint4>(kind, offsets, global);
    default:
      return false;
  }
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  int* offsets;
  char* global;
  cudaMalloc(&offsets, 2 * LANES * sizeof(int));
  cudaMalloc(&global, GLOBAL_BYTES);
  cudaMemset(global, 0, GLOBAL_BYTES);
  std::ifstream file(argv[1]);
  std::string kind;
  for (int bytes; file >> kind >> bytes;) {
    int given[2 * LANES] = {};
    for (int i = 0; i < (kind == "copy" ? 2 * LANES : LANES); ++i) file >> given[i];
    cudaMemcpy(offsets, given, sizeof(given), cudaMemcpyHostToDevice);
    if (!file || !launch(kind, bytes, offsets, global)) {
      std::printf("%s: cannot make a %s of %d bytes\n", argv[1], kind.c_str(), bytes);
      return 2;
    }
  }
  const cudaError_t status = cudaDeviceSynchronize();
  std::printf("%s\n", cudaGetErrorString(status));
  return status != cudaSuccess;
}
