// The binding of the ceilings that `bench` measures.
#include "bindings/ceilings.h"

#include "ceilings/ffma.h"

namespace smem::bindings {

#ifdef SMEM_WITH_CUDA
void ffma(const Tensor& out, int64_t rounds) {
  constexpr int64_t THREADS = ceilings::FFMA_THREADS;
  if (out.scalar_type() != ScalarType::Float || !out.is_contiguous() ||
      out.numel() % THREADS != 0) {
    fail("_ffma", "out is " + shape_text(sizes_of(out)) + " of " + dtype_text(out.scalar_type()) +
                      ", expected contiguous float32, a multiple of " + std::to_string(THREADS) +
                      " elements");
  }
  if (rounds < 1 || rounds >= INT32_MAX) {
    fail("_ffma", "rounds is " + std::to_string(rounds) + ", expected 1 to " +
                      std::to_string(INT32_MAX - 1));
  }
  const OnDeviceOf on_device("_ffma", out);
  ceilings::launch_ffma(
      {static_cast<float*>(out.mutable_data_ptr()), out.numel(), static_cast<int>(rounds)},
      on_device.device());
}
#else
void ffma(const Tensor&, int64_t) { fail("_ffma", "this build has no CUDA kernels"); }
#endif

}  // namespace smem::bindings
