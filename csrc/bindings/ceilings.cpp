// The bindings of the ceilings that `bench` measures.
#include "bindings/ceilings.h"

#include "ceilings/ffma.h"
#include "ceilings/mma_sync.h"

namespace smem::bindings {

#ifdef SMEM_WITH_CUDA

namespace {

/// Throws unless `out` has one float32 for each thread of whole blocks, and `rounds` fits an int.
void check(const char* op, const Tensor& out, int64_t rounds, int64_t threads_per_block) {
  if (out.scalar_type() != ScalarType::Float || !out.is_contiguous() ||
      out.numel() % threads_per_block != 0) {
    fail(op, "out is " + shape_text(sizes_of(out)) + " of " + dtype_text(out.scalar_type()) +
                 ", expected contiguous float32, a multiple of " +
                 std::to_string(threads_per_block) + " elements");
  }
  if (rounds < 1 || rounds >= INT32_MAX) {
    fail(op, "rounds is " + std::to_string(rounds) + ", expected 1 to " +
                 std::to_string(INT32_MAX - 1));
  }
}

}  // namespace

void ffma(const Tensor& out, int64_t rounds) {
  check("_ffma", out, rounds, ceilings::FFMA_THREADS);
  const OnDeviceOf on_device("_ffma", out);
  ceilings::launch_ffma(
      {static_cast<float*>(out.mutable_data_ptr()), out.numel(), static_cast<int>(rounds)},
      on_device.device());
}

void mma_sync(const Tensor& out, int64_t rounds, bool is_tf32) {
  check("_mma_sync", out, rounds, ceilings::MMA_SYNC_THREADS);
  const OnDeviceOf on_device("_mma_sync", out);
  if (on_device.device().code_capability < 80) {
    fail("_mma_sync", "needs a GPU of compute capability 8.0 or newer, and code for it");
  }
  ceilings::launch_mma_sync(
      {static_cast<float*>(out.mutable_data_ptr()), out.numel(), static_cast<int>(rounds), is_tf32},
      on_device.device());
}

#else
void ffma(const Tensor&, int64_t) { fail("_ffma", "this build has no CUDA kernels"); }
void mma_sync(const Tensor&, int64_t, bool) { fail("_mma_sync", "this build has no CUDA kernels"); }
#endif

}  // namespace smem::bindings
