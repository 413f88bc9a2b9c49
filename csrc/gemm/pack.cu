// The packing kernel: a strided copy of one or two operands to rows that TMA and cp.async can read.
//
// A thread writes vectors of 8 two-byte elements (16 bytes). If the elements of a row are
// contiguous, it reads the two aligned 16-byte vectors that contain them and shifts; otherwise, and
// at the end of the operand's memory, it reads element by element.
#include "device/fast_divmod.h"
#include "device/pdl.h"
#include "device/target.h"
#include "device/vector.h"
#include "gemm/batch.h"
#include "gemm/pack.h"
#include "transpose/dispatch.h"
#include "transpose/transpose.h"

namespace smem::gemm::inline SMEM_BUILD {
namespace {

constexpr int PACK_THREADS = 256, VEC = 8, VECS_PER_THREAD = 2;
/// With fewer blocks, and so more registers, nvcc makes the loads of a thread wait for each other.
constexpr int MIN_BLOCKS_PER_SM = BOUND_THREADS_PER_SM / PACK_THREADS;

/// One operand, in two-byte elements. A "row" is contiguous in the copy.
struct PackedOperand {
  const uint16_t* from;
  const uint16_t* end;  ///< of the last row
  uint16_t* to;
  int64_t from_stride, from_row_stride, from_batch_stride;
  int64_t row_length, to_row_stride, to_batch_stride;
  uint64_t vecs;                ///< in all rows
  FastDivmod by_row, by_batch;  ///< vectors per row, rows per matrix
};

struct PackParams {
  PackedOperand operands[2];
  uint32_t first_blocks;  ///< blocks that copy the first operand
  bool signals_early;
};

__device__ __forceinline__ uint4 load_strided(const uint16_t* from, int64_t stride,
                                              int64_t num_valid) {
  Vector<uint16_t, VEC> values;
#pragma unroll
  for (int i = 0; i < VEC; ++i) values.lane[i] = i < num_valid ? from[i * stride] : uint16_t{0};
  return reinterpret_cast<const uint4&>(values);
}

/// The 16 bytes that begin `shift` bytes into two adjacent aligned vectors.
__device__ __forceinline__ uint4 funnel_shift(const uint4& a, const uint4& b, uint32_t shift) {
  uint32_t words[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
  if (shift & 8) {
#pragma unroll
    for (int i = 0; i < 6; ++i) words[i] = words[i + 2];
  }
  if (shift & 4) {
#pragma unroll
    for (int i = 0; i < 5; ++i) words[i] = words[i + 1];
  }
  const uint32_t bits = (shift & 2) * 8;
  return {__funnelshift_r(words[0], words[1], bits), __funnelshift_r(words[1], words[2], bits),
          __funnelshift_r(words[2], words[3], bits), __funnelshift_r(words[3], words[4], bits)};
}

/// Where a vector is read and written.
struct VecCopy {
  const uint16_t* from;
  uint16_t* to;
  int64_t num_valid;  ///< elements until the row ends; 8 or more for a full vector

  /// The first of the two aligned vectors that contain it, if its elements are contiguous.
  __device__ __forceinline__ uintptr_t aligned_from() const {
    return reinterpret_cast<uintptr_t>(from) & ~uintptr_t{15};
  }
};

/// The vectors of a block, from number `first` of the operand on.
struct BlockVecs {
  const PackedOperand& operand;
  uint32_t first_vec, first_row, batch;

  __device__ __forceinline__ BlockVecs(const PackedOperand& operand, uint64_t first)
      : operand(operand) {
    // 64-bit divisions would take 0.3 us.
    constexpr uint64_t LARGEST = uint64_t{1} << 31;
    const uint64_t row = first < LARGEST ? quotient(static_cast<uint32_t>(first), operand.by_row)
                                         : first / operand.by_row.by;
    first_vec = static_cast<uint32_t>(first - row * operand.by_row.by);
    batch = row < LARGEST ? quotient(static_cast<uint32_t>(row), operand.by_batch)
                          : static_cast<uint32_t>(row / operand.by_batch.by);
    first_row = static_cast<uint32_t>(row - uint64_t{batch} * operand.by_batch.by);
  }
  __device__ __forceinline__ VecCopy operator[](uint32_t index) const {
    const Division vec = divide(first_vec + index, operand.by_row);
    const Division row = divide(first_row + vec.quotient, operand.by_batch);
    const int64_t col = int64_t{vec.rest} * VEC, b = batch + row.quotient;
    return {operand.from + b * operand.from_batch_stride + row.rest * operand.from_row_stride +
                col * operand.from_stride,
            operand.to + b * operand.to_batch_stride + row.rest * operand.to_row_stride + col,
            operand.row_length - col};
  }
};

__global__ void __launch_bounds__(PACK_THREADS, MIN_BLOCKS_PER_SM)
    pack_kernel(const PackParams params) {
  if (params.signals_early) launch_dependent_grids();
  const bool is_first = blockIdx.x < params.first_blocks;
  const PackedOperand& operand = params.operands[is_first ? 0 : 1];
  const uint32_t block = is_first ? blockIdx.x : blockIdx.x - params.first_blocks;
  const uint64_t first = uint64_t{block} * (PACK_THREADS * VECS_PER_THREAD);
  const auto count =
      static_cast<uint32_t>(min(operand.vecs - first, uint64_t{PACK_THREADS * VECS_PER_THREAD}));
  const BlockVecs vecs(operand, first);
  // The vectorized path may read beyond a row, and write that to the padding of the copy, which is
  // never read. It must not read beyond the last row, where the allocation may end.
  const uintptr_t last =
      operand.from_stride == 1 ? reinterpret_cast<uintptr_t>(operand.end) - 32 : 0;
  VecCopy copies[VECS_PER_THREAD];
  uint4 low[VECS_PER_THREAD], high[VECS_PER_THREAD];
  bool is_read[VECS_PER_THREAD], is_done = true;
#pragma unroll
  for (int i = 0; i < VECS_PER_THREAD; ++i) {
    const uint32_t index = i * PACK_THREADS + threadIdx.x;
    copies[i] = vecs[index];
    const auto* from = reinterpret_cast<const uint4*>(copies[i].aligned_from());
    is_read[i] = index < count && copies[i].aligned_from() <= last;
    is_done = is_done && (is_read[i] || index >= count);
    if (is_read[i]) {
      low[i] = __ldg(from);
      high[i] = __ldg(from + 1);
    }
  }
#pragma unroll
  for (int i = 0; i < VECS_PER_THREAD; ++i) {
    const auto shift = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(copies[i].from) % 16);
    if (is_read[i]) {
      __stwb(reinterpret_cast<uint4*>(copies[i].to), funnel_shift(low[i], high[i], shift));
    }
  }
  if (is_done) return;
#pragma unroll 1
  for (uint32_t index = threadIdx.x; index < count; index += PACK_THREADS) {
    const VecCopy copy = vecs[index];
    if (copy.aligned_from() <= last) continue;
    __stwb(reinterpret_cast<uint4*>(copy.to),
           load_strided(copy.from, operand.from_stride, copy.num_valid));
  }
}

/// A request to copy an operand to `to`, in the layout of `desc`. The strides are those of the
/// original.
struct PackRequest {
  const OperandDesc* desc;
  const void* from;
  int64_t inner_stride, outer_stride, batch_stride;
  void* to;
};

/// A row of floats is copied as twice as many two-byte elements.
PackedOperand packed_operand(const PackRequest& request, DType dtype) {
  const OperandDesc& desc = *request.desc;
  const auto width = static_cast<int64_t>(size_of(dtype) / sizeof(uint16_t));
  PackedOperand operand{
      .from = static_cast<const uint16_t*>(request.from),
      .end = nullptr,
      .to = static_cast<uint16_t*>(request.to),
      .from_stride = request.inner_stride,
      .from_row_stride = width * request.outer_stride,
      .from_batch_stride = width * request.batch_stride,
      .row_length = width * desc.inner_size,
      .to_row_stride = width * desc.outer_stride,
      .to_batch_stride = width * desc.batch_stride,
      .vecs = 0,
      .by_row = FastDivmod(width * desc.outer_stride / VEC),
      .by_batch = FastDivmod(desc.outer_size),
  };
  operand.end = operand.from + (desc.batch_count - 1) * operand.from_batch_stride +
                (desc.outer_size - 1) * operand.from_row_stride + operand.row_length;
  operand.vecs =
      uint64_t{operand.by_row.by} * static_cast<uint64_t>(desc.outer_size * desc.batch_count);
  return operand;
}

int64_t block_count(const PackedOperand& operand) {
  return ceil_div(static_cast<int64_t>(operand.vecs), PACK_THREADS * VECS_PER_THREAD);
}

/// Copies `count` operands, one or two, in one launch. Those of float32 have an inner_stride of 1.
void pack(const PackRequest* requests, int count, DType dtype, bool signals_early,
          const Device& device) {
  PackParams params{.signals_early = signals_early};
  int64_t blocks = 0;
  for (int i = 0; i < count; ++i) {
    params.operands[i] = packed_operand(requests[i], dtype);
    blocks += block_count(params.operands[i]);
  }
  params.first_blocks = static_cast<uint32_t>(block_count(params.operands[0]));
  smem::launch("pack", pack_kernel, Geometry{blocks, dim3(PACK_THREADS)}, device, params);
}

/// Packs a float32 operand that is not contiguous along K: tf32 is always packed K-major.
void pack_by_transpose(const PackRequest& request, const Device& device) {
  const OperandDesc& desc = *request.desc;
  transpose::Problem problem{
      sizeof(float),        desc.inner_size,      desc.outer_size, request.from,
      request.inner_stride, request.outer_stride, request.to,      1,
      desc.outer_stride};
  if (desc.batch_count > 1) {
    problem.batch.rank = 1;
    problem.batch.size[0] = desc.batch_count;
    problem.batch.stride[transpose::IN][0] = request.batch_stride;
    problem.batch.stride[transpose::OUT][0] = desc.batch_stride;
  }
  const int kernel = transpose::choose(problem, device).kernel;
  transpose::kernels(device.build()).kernels[kernel]->launch(problem, device);
}

}  // namespace

LoadableOperands pack_operands(const Problem& problem, const OperandDesc& a, const OperandDesc& b,
                               bool signals_early, WorkspaceAllocator& workspace,
                               const Device& device) {
  PackRequest requests[2];
  int count = 0;
  const auto prepared = [&](const OperandDesc& desc, const void* data, int64_t mn_stride,
                            int64_t k_stride, Tensor tensor) {
    if (!desc.packed) return data;
    void* packed =
        workspace.allocate(desc.packed_elements() * static_cast<int64_t>(size_of(problem.dtype)));
    const bool k_major = desc.major == Major::K;
    const PackRequest request{.desc = &desc,
                              .from = data,
                              .inner_stride = k_major ? k_stride : mn_stride,
                              .outer_stride = k_major ? mn_stride : k_stride,
                              .batch_stride = inner_batch_stride(problem, tensor),
                              .to = packed};
    if (problem.dtype == DType::f32 && request.inner_stride != 1) {
      pack_by_transpose(request, device);
    } else {
      requests[count++] = request;
    }
    return static_cast<const void*>(packed);
  };
  const LoadableOperands loadable{
      prepared(a, problem.a.data, problem.a.row_stride, problem.a.col_stride, A),
      prepared(b, problem.b.data, problem.b.col_stride, problem.b.row_stride, B)};
  if (count > 0) pack(requests, count, problem.dtype, signals_early, device);
  return loadable;
}

}  // namespace smem::gemm::inline SMEM_BUILD
