// The errors of a launch.
#include "device/launch.h"

#include <stdexcept>
#include <string>

namespace smem {

void throw_grid_too_large(const char* kernel, int64_t blocks) {
  throw std::runtime_error(std::string("smem: kernel '") + kernel + "' would need " +
                           std::to_string(blocks) + " blocks, the limit is " +
                           std::to_string(MAX_BLOCKS));
}

void throw_launch_failed(const char* kernel, const char* error, bool lacks_code) {
  throw std::runtime_error(
      std::string("smem: launching kernel '") + kernel + "' failed: " + error +
      (lacks_code ? "; this build holds no code for this GPU: rebuild with TORCH_CUDA_ARCH_LIST "
                    "set to its compute capability (see `python -m torch_smem_gemm info`)"
                  : ""));
}

}  // namespace smem
