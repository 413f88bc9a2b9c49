// The schemas of torch.ops.smem.*, and their implementations for CUDA and CPU tensors.
//
// gemm, linear, transpose, sum, mean, amax and amin are the public ops: Python adds their autograd,
// fake and vmap rules, and implements `kernel_id = 0` (auto) for CPU tensors with ATen. The same
// functions are registered as _gemm and so on without any of that. Calling those saves 3 us, and
// Python code does so if it has checked that none of it is needed.
//
// Tensors are positional arguments, because DTensor's sharding rules need that. Choices are
// integers, because torch's stable ABI never frees the allocation of a string argument. The name is
// kernel_id, because torch.compile passes arguments by name beside an argument of its own called
// kernel.
#include <torch/csrc/stable/library.h>

#include <string>

#include "bindings/activation.h"
#include "bindings/attention.h"
#include "bindings/ceilings.h"
#include "bindings/gemm.h"
#include "bindings/reduce.h"
#include "bindings/scatter.h"
#include "bindings/split.h"
#include "bindings/transpose.h"

namespace smem::bindings {
namespace {

struct Schema {
  const char* name;
  const char* arguments;
};

constexpr Schema SCHEMAS[] = {
    {"gemm",
     "Tensor a, Tensor b, Tensor? bias=None, Tensor? c=None, float alpha=1.0, float beta=0.0, "
     "int activation=0, int precision=0, int kernel_id=0, ScalarType? out_dtype=None"},
    {"linear",
     "Tensor x, Tensor weight, Tensor? bias=None, int activation=0, int precision=0, "
     "ScalarType? out_dtype=None"},
    {"transpose", "Tensor x, int dim0=-2, int dim1=-1, int kernel_id=0"},
    {"sum",
     "Tensor x, int[]? dim=None, bool keepdim=False, ScalarType? dtype=None, int kernel_id=0"},
    {"mean",
     "Tensor x, int[]? dim=None, bool keepdim=False, ScalarType? dtype=None, int kernel_id=0"},
    {"amax", "Tensor x, int[]? dim=None, bool keepdim=False, int kernel_id=0"},
    {"amin", "Tensor x, int[]? dim=None, bool keepdim=False, int kernel_id=0"},
};

/// The schema of gemm or linear that also returns the preactivation (the activation's argument),
/// which the gradient needs.
std::string with_preactivation(const Schema& schema, const std::string& prefix) {
  return prefix + schema.name + "_with_preactivation(" + schema.arguments + ") -> (Tensor, Tensor)";
}

void implement(torch::stable::detail::StableLibrary& m, const std::string& prefix) {
  const auto impl = [&](const char* name, auto* boxed) { m.impl((prefix + name).c_str(), boxed); };
  impl("gemm", TORCH_BOX(&gemm));
  impl("linear", TORCH_BOX(&linear));
  impl("gemm_with_preactivation", TORCH_BOX(&gemm_with_preactivation));
  impl("linear_with_preactivation", TORCH_BOX(&linear_with_preactivation));
  impl("transpose", TORCH_BOX(&transpose));
  impl("sum", TORCH_BOX(&sum_op<&SUM>));
  impl("mean", TORCH_BOX(&sum_op<&MEAN>));
  impl("amax", TORCH_BOX(&extremum_op<&AMAX>));
  impl("amin", TORCH_BOX(&extremum_op<&AMIN>));
  impl("gemm.out", TORCH_BOX(&gemm_out));
  impl("linear.out", TORCH_BOX(&linear_out));
  impl("transpose.out", TORCH_BOX(&transpose_out));
  impl("sum.out", TORCH_BOX(&sum_op_out<&SUM>));
  impl("mean.out", TORCH_BOX(&sum_op_out<&MEAN>));
  impl("amax.out", TORCH_BOX(&extremum_op_out<&AMAX>));
  impl("amin.out", TORCH_BOX(&extremum_op_out<&AMIN>));
}

void implement_private(torch::stable::detail::StableLibrary& m) {
  implement(m, "_");
  m.impl("_activation_backward", TORCH_BOX(&activation_backward));
  m.impl("_combine_parts", TORCH_BOX(&combine_parts));
  m.impl("_index_add_", TORCH_BOX(&index_add_));
  m.impl("_split", TORCH_BOX(&split));
  m.impl("_split_weight", TORCH_BOX(&split_weight));
  m.impl("_linear_split", TORCH_BOX(&linear_split));
  m.impl("_gemm_problem", TORCH_BOX(&gemm_problem));
  m.impl("_transpose_problem", TORCH_BOX(&transpose_problem));
}

}  // namespace

STABLE_TORCH_LIBRARY(smem, m) {
  for (const std::string prefix : {"", "_"}) {
    for (const auto& [name, arguments] : SCHEMAS) {
      m.def((prefix + name + "(" + arguments + ") -> Tensor").c_str());
      m.def((prefix + name + ".out(" + arguments + ", *, Tensor(a!) out) -> ()").c_str());
    }
    for (const Schema& schema : {SCHEMAS[0], SCHEMAS[1]}) {
      m.def(with_preactivation(schema, prefix).c_str());
    }
  }
  m.def("_activation_backward(Tensor grad, Tensor z, int activation) -> (Tensor, Tensor)");
  m.def(
      "_combine_parts(Tensor parts_out, Tensor logsumexp, Tensor lengths, int parts, int group)"
      " -> Tensor");
  m.def("_index_add_(Tensor(a!) x, Tensor index, Tensor source, Tensor? order=None) -> ()");
  m.def(
      "_split(Tensor x, bool lines_last=False, int part_length=0)"
      " -> (Tensor, Tensor, Tensor, Tensor, Tensor)");
  m.def("_split_weight(Tensor weight) -> Tensor");
  m.def(
      "_linear_split(Tensor x, Tensor weight, Tensor split, Tensor? bias=None, int activation=0, "
      "int precision=0, int kernel_id=0) -> Tensor");
  m.def("_gemm_problem(Tensor a, Tensor b) -> int[]");
  m.def("_transpose_problem(Tensor x, int dim0, int dim1, Tensor out) -> int[]");
  m.def("_ffma(Tensor(a!) out, int rounds) -> ()");
  m.def("_mma_sync(Tensor(a!) out, int rounds, bool is_tf32=False) -> ()");
}

STABLE_TORCH_LIBRARY_IMPL(smem, CUDA, m) {
  implement(m, "");
  implement_private(m);
  m.impl("_ffma", TORCH_BOX(&ffma));
  m.impl("_mma_sync", TORCH_BOX(&mma_sync));
}

STABLE_TORCH_LIBRARY_IMPL(smem, CPU, m) { implement_private(m); }

}  // namespace smem::bindings
