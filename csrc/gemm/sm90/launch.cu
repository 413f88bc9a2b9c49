// From a problem and its plan to launches.
#include <algorithm>
#include <utility>

#include "gemm/sm90/params.h"
#include "gemm/sm90/epilogue_params.h"
#include "gemm/sm90/instance_table.h"
#include "gemm/sm90/batch.h"
#include "gemm/sm90/pack.h"
#include "gemm/sm90/heuristics.h"
#include "gemm/sm90/reduce_split_k.h"
#include "gemm/sm90/tensor_map.h"
#include "transpose/dispatch.h"
#include "transpose/transpose.h"

namespace smem::gemm::sm90 {
namespace {

using FindForFloats = const void* (*)(Exit, Major);

template <int INDEX>
constexpr FindForFloats for_floats() {
  if constexpr (TILES[INDEX].for_floats) {
    return kernel_of_floats<INDEX>;
  } else {
    return nullptr;
  }
}

template <int... INDEX>
const void* kernel_at(const Plan& plan, DType dtype, std::integer_sequence<int, INDEX...>) {
  using Find = const void* (*)(Exit, DType, Major, Major);
  constexpr Find FIND[] = {kernel_of<INDEX>...};
  constexpr FindForFloats FIND_FOR_FLOATS[] = {for_floats<INDEX>()...};
  return dtype == DType::f32 ? FIND_FOR_FLOATS[plan.tile](plan.exit, plan.a.major)
                             : FIND[plan.tile](plan.exit, dtype, plan.a.major, plan.b.major);
}

/// Where the parts of the workspace begin.
struct Workspace {
  unsigned char* next;

  void* take(int64_t bytes) {
    void* part = next;
    next += ceil_div(bytes, 256) * 256;
    return part;
  }
};

/// `rows` and `sharers`: of the tile, and blocks that load a part of it each.
void make_operand_maps(CUtensorMap (&maps)[2], const Source& source, DType dtype, const void* data,
                       int rows, int sharers) {
  const TensorShape shape{dtype,
                          data,
                          source.length,
                          source.lines,
                          source.members,
                          source.line_stride,
                          source.member_stride,
                          dtype == DType::f32};
  const int step = step_k(dtype);
  const bool k_major = source.major == Major::K;
  maps[0] = make_tensor_map(shape, step, k_major ? rows / sharers : step);
  if (!k_major && rows % step != 0) maps[1] = make_tensor_map(shape, rows % step, step, true);
  if (k_major && sharers == 1 && source.lines % rows != 0) {
    maps[1] = make_tensor_map(shape, step, static_cast<int>(source.lines % rows));
  }
}

/// `launch_with_pdl`: it may begin while the kernel before still runs (device/pdl.h).
template <typename T>
void launch_kernel(const Problem& problem, const Plan& plan, const void* a, const void* b,
                   float* partials, bool launch_with_pdl, const Device& device) {
  const Tile& tile = TILES[plan.tile];
  const auto members = static_cast<uint32_t>(members_of(problem));
  Arguments<T> args{};
  // Blocks of a cluster, of which some may have no rows of A at all, all load what a tile has.
  const int64_t unit = plan.a.major == Major::K ? 1 : 16 / static_cast<int64_t>(sizeof(T));
  const auto rows_of = [](int64_t rows, int64_t end) {
    return TileRows{static_cast<int>(rows), static_cast<int>(end % rows), static_cast<int>(end)};
  };
  args.a_rows = rows_of(
      tile.cluster > 1 ? tile.rows : std::min<int64_t>(ceil_div(problem.M, unit) * unit, tile.rows),
      problem.M);
  args.b_rows = rows_of(plan.tile_cols, problem.N);
  make_operand_maps(args.a, plan.a, problem.dtype, a, args.a_rows.rows, 1);
  make_operand_maps(args.b, plan.b, problem.dtype, b, plan.tile_cols, tile.cluster);
  args.output = plan.output;
  args.log_box_pieces = plan.log_box_pieces;
  if (plan.output == Output::boxes) {
    const auto map = [&](const void* data) {
      const TensorShape shape{problem.dtype,
                              data,
                              problem.N,
                              problem.M,
                              members,
                              problem.out.row_stride,
                              members > 1 ? problem.batch.stride[OUT][0] : 8};
      const int box_rows = problem.dtype == DType::f32 ? FLOAT_BOX_ROWS : STAGING_ROWS;
      return make_tensor_map(shape, 8 << args.log_box_pieces, box_rows);
    };
    args.out = map(problem.out.data);
    if (problem.pre) args.pre = map(problem.pre);
  }
  const auto steps = static_cast<uint32_t>(ceil_div(problem.K, STEP_K<T>));
  args.schedule =
      Schedule(static_cast<uint32_t>(ceil_div(problem.M, tile.rows * tile.cluster)),
               static_cast<uint32_t>(ceil_div(problem.N, plan.tile_cols)),
               static_cast<uint32_t>(plan.chunks), members, static_cast<uint32_t>(plan.strip),
               steps, plan.chunks > 1 ? static_cast<uint32_t>(plan.chunk_steps) : steps);
  args.chunk_steps = plan.chunk_steps;
  args.turned = plan.turned;
  args.epilogue = epilogue_of<T>(plan.turned ? transposed(problem) : problem);
  args.strides = member_strides(problem);
  args.partials = partials;
  args.partial_pitch = partial_pitch(args.epilogue.out.cols);
  args.tile_cols = plan.tile_cols;
  args.a_batched = plan.a.batched;
  args.b_batched = plan.b.batched;

  const void* kernel = kernel_function(problem.dtype, plan);
  check_launch(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    static_cast<int>(tile.shared_bytes())),
               "hopper");
  if (tile.blocks > 1) {
    check_launch(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                                      cudaSharedmemCarveoutMaxShared),
                 "hopper");
  }
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(plan.clusters * tile.cluster);
  config.blockDim = dim3(tile.threads());
  config.dynamicSmemBytes = tile.shared_bytes();
  config.stream = static_cast<cudaStream_t>(device.stream);
  cudaLaunchAttribute attributes[2]{};
  config.attrs = attributes;
  if (tile.cluster > 1) {
    cudaLaunchAttribute& cluster = attributes[config.numAttrs++];
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim = {static_cast<unsigned>(tile.cluster), 1, 1};
  }
  if (launch_with_pdl) {
    cudaLaunchAttribute& overlap = attributes[config.numAttrs++];
    overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    overlap.val.programmaticStreamSerializationAllowed = 1;
  }
  void* arguments[] = {&args};
  check_launch(cudaLaunchKernelExC(&config, kernel, arguments), "hopper");
}

/// Of floats, which are packed along K whatever they lie along.
void turn(const Packing& packing, const Device& device) {
  const Source& source = *packing.source;
  transpose::Problem problem{sizeof(float),     source.length,     source.lines, packing.from,
                             packing.step,      packing.line_step, packing.to,   1,
                             source.line_stride};
  if (source.members > 1) {
    problem.batch.rank = 1;
    problem.batch.size[0] = source.members;
    problem.batch.stride[transpose::IN][0] = packing.member_step;
    problem.batch.stride[transpose::OUT][0] = source.member_stride;
  }
  const int kernel = transpose::choose(problem, device).kernel;
  transpose::device_kernels().kernels[kernel]->launch(problem, device);
}

/// At most one loop of the batch.
void launch_members(const Problem& of_out, const Plan& plan, Workspace workspace,
                    const Device& device) {
  const Problem problem = plan.turned ? transposed(of_out) : of_out;
  Packing packings[2];
  int count = 0;
  const auto prepared = [&](const Source& source, const void* data, int64_t mn_stride,
                            int64_t k_stride, Tensor tensor) {
    if (!source.packed) return data;
    void* packed = workspace.take(source.packed_elements() * size_of(problem.dtype));
    const bool k_major = source.major == Major::K;
    const Packing packing{&source,
                          data,
                          k_major ? k_stride : mn_stride,
                          k_major ? mn_stride : k_stride,
                          member_stride(problem, tensor),
                          packed};
    if (problem.dtype == DType::f32 && packing.step != 1) {
      turn(packing, device);
    } else {
      packings[count++] = packing;
    }
    return static_cast<const void*>(packed);
  };
  const void* a = prepared(plan.a, problem.a.data, problem.a.row_stride, problem.a.col_stride, A);
  const void* b = prepared(plan.b, problem.b.data, problem.b.col_stride, problem.b.row_stride, B);
  if (count > 0) pack(packings, count, problem.dtype, device);
  const bool launch_with_pdl = plan.a.packed || plan.b.packed;
  auto* partials = static_cast<float*>(workspace.take(0));
  if (problem.dtype == DType::f32) {
    launch_kernel<float>(problem, plan, a, b, partials, launch_with_pdl, device);
  } else if (problem.dtype == DType::f16) {
    launch_kernel<half>(problem, plan, a, b, partials, launch_with_pdl, device);
  } else {
    launch_kernel<bfloat16>(problem, plan, a, b, partials, launch_with_pdl, device);
  }
  if (plan.chunks > 1) {
    reduce(of_out, members_of(problem), plan.chunks, partials, device);
  }
}

}  // namespace

const void* kernel_function(DType dtype, const Plan& plan) {
  return kernel_at(plan, dtype, std::make_integer_sequence<int, TILE_COUNT>());
}

void launch(const Problem& problem, const Plan& plan, void* workspace, const Device& device) {
  for_each_launch(problem, [&](const Problem& member) {
    launch_members(member, plan, {static_cast<unsigned char*>(workspace)}, device);
  });
}

}  // namespace smem::gemm::sm90
