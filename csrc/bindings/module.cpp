// The Python module _C: loading it registers the ops; its functions describe the binary.
#include <Python.h>

#include <exception>

#include "bindings/json.h"
#include "device/device.h"
#include "gemm/gemm.h"
#include "smem_build_config.h"
#include "sum/sum.h"
#include "transpose/transpose.h"

namespace smem::bindings {
namespace {

constexpr DType GEMM_DTYPES[] = {DType::f64, DType::f32, DType::f16, DType::bf16};

bool takes_any_k(const gemm::Kernel& kernel) { return !kernel.largest_k; }
bool takes_any_k(const transpose::Kernel&) { return true; }
bool takes_any_k(const sum::Kernel&) { return true; }

template <typename Table>
void describe(const char* op, const Table& table, std::vector<std::string>& rows) {
  for (int i = 0; i < table.count; ++i) {
    const auto& kernel = *table.kernels[i];
    rows.push_back(json_object({{"op", json(op)},
                                {"name", json(kernel.name)},
                                {"summary", json(kernel.summary)},
                                {"requires", json(kernel.requires_)},
                                {"any_k", takes_any_k(kernel) ? "true" : "false"}}));
  }
}

std::string kernel_table() {
  std::vector<std::string> rows;
  describe("gemm", gemm::kernels(true), rows);
  describe("transpose", transpose::kernels(true), rows);
  describe("sum", sum::kernels(true), rows);
  return json_array(rows);
}

std::string build_info() {
  return json_object({{"cuda", json(build::kCudaVersion)},
                      {"archs", json(build::kCudaArchs)},
                      {"torch_target", json(build::kTorchTarget)},
                      {"torch_built", json(build::kTorchBuiltWith)},
                      {"compiler", json(build::kCompiler)}});
}

#ifdef SMEM_WITH_CUDA
std::string resources_row(const char* op, const char* name, const std::string& dtype,
                          const void* function) {
  const KernelResources r = cuda_kernel_resources(function);
  return json_object({{"op", json(op)},
                      {"name", json(name)},
                      {"dtype", json(dtype)},
                      {"registers", json(int64_t{r.registers})},
                      {"shared_bytes", json(static_cast<int64_t>(r.shared_bytes))},
                      {"local_bytes", json(static_cast<int64_t>(r.local_bytes))},
                      {"max_threads", json(int64_t{r.max_threads})}});
}

/// On the current GPU.
std::string kernel_resources() {
  std::vector<std::string> rows;
  const auto gemms = gemm::device_kernels();
  for (int i = 0; i < gemms.count; ++i) {
    for (const DType dtype : GEMM_DTYPES) {
      const auto& kernel = *gemms.kernels[i];
      rows.push_back(resources_row("gemm", kernel.name, name_of(dtype), kernel.function(dtype)));
    }
  }
  const auto transposes = transpose::device_kernels();
  for (int i = 0; i < transposes.count; ++i) {
    for (const size_t bytes : {1, 2, 4, 8, 16}) {
      const auto& kernel = *transposes.kernels[i];
      rows.push_back(resources_row("transpose", kernel.name, std::to_string(bytes) + "-byte",
                                   kernel.function(bytes)));
    }
  }
  const auto sums = sum::device_kernels();
  for (int i = 0; i < sums.count; ++i) {
    for (int dtype = 0; dtype <= static_cast<int>(DType::boolean); ++dtype) {
      const auto& kernel = *sums.kernels[i];
      rows.push_back(resources_row("sum", kernel.name, name_of(static_cast<DType>(dtype)),
                                   kernel.function(static_cast<DType>(dtype))));
    }
  }
  return json_array(rows);
}
#else
std::string kernel_resources() {
  throw std::runtime_error("torch_smem_gemm: this build has no CUDA kernels");
}
#endif

/// What `auto` runs for a GEMM of this size on such a device.
std::string plan_gemm(int64_t dtype, int64_t M, int64_t N, int64_t K, int64_t batch,
                      int64_t capability, int64_t multiprocessors, int64_t shared_bytes) {
  gemm::Problem problem{};
  problem.dtype = static_cast<DType>(dtype);
  problem.M = M;
  problem.N = N;
  problem.K = K;
  problem.batch.rank = 1;
  problem.batch.size[0] = batch;
  const gemm::Choice choice =
      gemm::choose(problem, {static_cast<int>(capability), static_cast<int>(multiprocessors),
                             static_cast<size_t>(shared_bytes), nullptr});
  return json_object({{"kernel", json(gemm::kernels(true).kernels[choice.kernel]->name)},
                      {"reason", json(choice.reason)}});
}

template <typename F>
PyObject* to_python(F&& describe_it) {
  try {
    const std::string text = describe_it();
    return PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size()));
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
    return nullptr;
  }
}

PyObject* py_kernel_table(PyObject*, PyObject*) { return to_python(kernel_table); }
PyObject* py_build_info(PyObject*, PyObject*) { return to_python(build_info); }
PyObject* py_kernel_resources(PyObject*, PyObject*) { return to_python(kernel_resources); }

PyObject* py_plan_gemm(PyObject*, PyObject* arguments) {
  long long v[8];
  if (!PyArg_ParseTuple(arguments, "LLLLLLLL", &v[0], &v[1], &v[2], &v[3], &v[4], &v[5], &v[6],
                        &v[7])) {
    return nullptr;
  }
  return to_python([&] { return plan_gemm(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7]); });
}

PyMethodDef methods[] = {
    {"kernel_table", py_kernel_table, METH_NOARGS, "JSON: every kernel of every op."},
    {"build_info", py_build_info, METH_NOARGS, "JSON: what the binary was built with and for."},
    {"kernel_resources", py_kernel_resources, METH_NOARGS,
     "JSON: registers, shared and local memory of every kernel on the current GPU."},
    {"plan_gemm", py_plan_gemm, METH_VARARGS,
     "JSON: the kernel `auto` takes for (dtype, M, N, K, batch, capability, SMs, shared bytes)."},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_C", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

}  // namespace
}  // namespace smem::bindings

extern "C" __attribute__((visibility("default"))) PyObject* PyInit__C() {
  return PyModule_Create(&smem::bindings::module);
}
