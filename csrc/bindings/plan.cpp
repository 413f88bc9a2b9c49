// What `auto` would run, without running it.
#include "bindings/plan.h"

#include "bindings/json.h"
#include "bindings/tensors.h"
#include "gemm/dispatch.h"
#include "transpose/dispatch.h"

namespace smem::bindings {

std::string plan_gemm(const std::vector<int64_t>& numbers, const Device& device, DType dtype,
                      gemm::Precision precision, int64_t kernel_code) {
  gemm::Problem problem{};
  problem.precision = precision;
  problem.dtype = problem.c_dtype = problem.out_dtype = dtype;
  problem.M = numbers[0];
  problem.N = numbers[1];
  problem.K = numbers[2];
  problem.a = {reinterpret_cast<const void*>(numbers[9]), numbers[3], numbers[4]};
  problem.b = {reinterpret_cast<const void*>(numbers[10]), numbers[5], numbers[6]};
  problem.out = {nullptr, numbers[7], numbers[8]};
  for (size_t i = 11; i + 3 < numbers.size(); i += 4) {
    const int d = problem.batch.rank++;
    problem.batch.size[d] = numbers[i];
    problem.batch.stride[gemm::A][d] = numbers[i + 1];
    problem.batch.stride[gemm::B][d] = numbers[i + 2];
    problem.batch.stride[gemm::OUT][d] = numbers[i + 3];
  }
  const gemm::KernelTable table = gemm::host_kernels();
  const bool is_named = kernel_code > 0;
  const Choice choice = is_named ? Choice{static_cast<int>(kernel_code % VARIANT_STEP) - 1, "named"}
                                 : gemm::choose(problem, device);
  const gemm::Kernel& kernel = *table.kernels[choice.kernel];
  if (is_named) {
    problem.variant = static_cast<int>(kernel_code / VARIANT_STEP) - 1;
    gemm::check_requirements(kernel, problem, device);
  }
  const std::string approach = kernel.approach ? "; " + kernel.approach(problem, device) : "";
  return json_object({{"kernel", json(kernel.name)}, {"reason", json(choice.reason + approach)}});
}

std::string plan_transpose(const std::vector<int64_t>& numbers, const Device& device) {
  transpose::Problem problem{};
  problem.element_bytes = static_cast<size_t>(numbers[0]);
  problem.rows = numbers[1];
  problem.cols = numbers[2];
  problem.in_row_stride = numbers[3];
  problem.in_col_stride = numbers[4];
  problem.out_row_stride = numbers[5];
  problem.out_col_stride = numbers[6];
  problem.in = reinterpret_cast<const void*>(numbers[7]);
  problem.out = reinterpret_cast<void*>(numbers[8]);
  for (size_t i = 9; i + 2 < numbers.size(); i += 3) {
    const int d = problem.batch.rank++;
    problem.batch.size[d] = numbers[i];
    problem.batch.stride[transpose::IN][d] = numbers[i + 1];
    problem.batch.stride[transpose::OUT][d] = numbers[i + 2];
  }
  const Choice choice = transpose::choose(problem, device);
  return json_object({{"kernel", json(transpose::host_kernels().kernels[choice.kernel]->name)},
                      {"reason", json(choice.reason)}});
}

}  // namespace smem::bindings
