// fp16x3: float32 with float32's accuracy, by three float16 products on Hopper's tensor cores.
//
// Each operand is split into two float16 numbers an element and a power of two a line (gemm/fp16x3);
// then the halves are multiplied, and lines that they cannot carry computed by fmas (gemm.cu).
// Where A has few rows, one kernel does all but splitting A (skinny_m_kernel.h). Where out is
// narrow and K long, all of that is done for chunks of K, which are added at last (split_k.cu). All
// kernels but the first begin while the one before still runs (device/pdl.h). Elements of
// A and B are read once, their halves M / 128 and N / 128 times, out of L2 mostly.
#include "gemm/fp16x3/split_k.h"
#include "gemm/fp16x3/skinny_m.h"
#include "gemm/fp16x3/gemm.h"
#include "gemm/sm90/batch.h"
#include "gemm/ladder.h"
#include "gemm/fp16x3/split.h"

#ifdef __CUDACC__
namespace smem::gemm::fp16x3 {
namespace {

bool takes(const Problem& problem, const Device& device) {
  // Rows and columns are counted in 32 bits, up to a tile beyond the last; halves come in pairs.
  constexpr int64_t LARGEST = (int64_t{1} << 30) - 1024, MOST_TILES = int64_t{1} << 30, TILE = 128;
  return problem.dtype == DType::f32 && device.runs_sm90a() && problem.M >= 1 && problem.N >= 1 &&
         problem.K >= 1 && problem.M < LARGEST && problem.N < LARGEST && problem.K < LARGEST &&
         ceil_div(problem.M, TILE) * ceil_div(problem.N, TILE) * inner_batch_count(problem) *
                 Chunks(problem.N, problem.K).count <
             MOST_TILES;
}

/// The split of A's rows or of B's columns, a part a chunk, for one launch.
split::Split split_of(const Problem& problem, Tensor tensor) {
  const bool is_a = tensor == A;
  const Operand& operand = is_a ? problem.a : problem.b;
  const int64_t stride = inner_batch_stride(problem, tensor);
  const Chunks chunks(problem.N, problem.K);
  return {static_cast<const float*>(operand.data),
          stride == 0 ? 1 : inner_batch_count(problem),
          is_a ? problem.M : problem.N,
          problem.K,
          stride,
          is_a ? operand.row_stride : operand.col_stride,
          is_a ? operand.col_stride : operand.row_stride,
          chunks.length,
          chunks.count};
}

/// B for its workspace: where A has few rows, B's halves never reach memory.
split::Split stored_b(const Problem& problem) {
  split::Split b = split_of(problem, B);
  if (has_few_rows(problem, b)) b.part_length = 0;
  return b;
}

struct Workspace {
  split::Workspace a, b;
  size_t partials, bytes;

  explicit Workspace(const Problem& problem)
      : a(split_of(problem, A)),
        b(stored_b(problem)),
        partials(a.bytes + b.bytes),
        bytes(partials + Chunks(problem.N, problem.K).bytes(problem)) {}
};

void launch_members(const Problem& problem, const Device& device) {
  const Workspace places(problem);
  auto* const workspace = static_cast<unsigned char*>(problem.workspace);
  const split::Split a = places.a.place(split_of(problem, A), workspace);
  const split::Split b = places.b.place(split_of(problem, B), workspace + places.a.bytes);
  auto* const partials = reinterpret_cast<float*>(workspace + places.partials);
  if (has_few_rows(problem, b)) {
    split::run(a, device, Build::device);
    multiply_few_rows(problem, a, b, partials, device);
  } else {
    // Lines that lie side by side first: 2 us less at 2048^3.
    const bool b_first = split::lines_lie_side_by_side(b);
    split::run(b_first ? b : a, device, Build::device);
    split::run(b_first ? a : b, device, Build::device, /*launch_with_pdl=*/true);
    multiply(problem, a, b, partials, device);
  }
  if (a.parts > 1) add_chunks(problem, a, b, partials, device);
}

}  // namespace
}  // namespace smem::gemm::fp16x3
#endif

namespace smem::gemm {
inline namespace SMEM_BUILD {

#ifdef __CUDACC__
void launch_fp16x3(const Problem& problem, const Device& device) {
  if (!fp16x3::takes(problem, device)) return double_buffered.launch(problem, device);
  for_each_launch(problem,
                  [&](const Problem& members) { fp16x3::launch_members(members, device); });
}

size_t fp16x3_workspace_bytes(const Problem& problem, const Device& device) {
  if (!fp16x3::takes(problem, device)) return 0;
  return fp16x3::Workspace(problem).bytes;
}

const void* fp16x3_function(DType) { return fp16x3::product_function(); }

#else
constexpr std::nullptr_t launch_fp16x3 = nullptr, fp16x3_function = nullptr,
                         fp16x3_workspace_bytes = nullptr;
#endif

const Kernel fp16x3_row = {
    .name = "fp16x3",
    .summary = "float32's accuracy by three float16 products on Hopper's tensor cores",
    .requires_ = "float32 but not precision ieee, compute capability 9.0",
    .launch = launch_fp16x3,
    .function = fp16x3_function,
    .symbol = nullptr,
    .largest_k = nullptr,
    .dtypes = dtypes(DType::f32),
    .tensor_cores = {.capability = 90, .alone = true},
    .float32 = Precision::fp32,
    .workspace_bytes = fp16x3_workspace_bytes,
};

}  // namespace SMEM_BUILD
}  // namespace smem::gemm
