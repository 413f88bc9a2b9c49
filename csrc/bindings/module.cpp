// The Python module _C: loading it registers the ops; its functions describe the binary.
#include <Python.h>

#include <exception>

#include "bindings/json.h"
#include "bindings/trace.h"
#include "device/device.h"
#include "gemm/dispatch.h"
#include "gemm/gemm.h"
#include "cpu_emulator/interrupt.h"
#include "smem_build_config.h"
#include "reduce/dispatch.h"
#include "reduce/reduce.h"
#include "transpose/dispatch.h"
#include "transpose/transpose.h"

namespace smem::bindings {
namespace {

constexpr DType GEMM_DTYPES[] = {DType::f64, DType::f32, DType::f16, DType::bf16};

bool takes_any_k(const gemm::Kernel& kernel) { return !kernel.largest_k; }
bool takes_any_k(const transpose::Kernel&) { return true; }
bool takes_any_k(const reduce::Kernel&) { return true; }

bool takes_any_operator(const gemm::Kernel&) { return true; }
bool takes_any_operator(const transpose::Kernel&) { return true; }
bool takes_any_operator(const reduce::Kernel& kernel) { return kernel.any_operator; }

const char* float32_precision_of(const gemm::Kernel& kernel) {
  return gemm::name_of(kernel.float32);
}
const char* float32_precision_of(const transpose::Kernel&) { return "ieee"; }
const char* float32_precision_of(const reduce::Kernel&) { return "ieee"; }

gemm::TensorCores tensor_cores_of(const gemm::Kernel& kernel) { return kernel.tensor_cores; }
gemm::TensorCores tensor_cores_of(const transpose::Kernel&) { return {}; }
gemm::TensorCores tensor_cores_of(const reduce::Kernel&) { return {}; }

std::vector<std::string> variants_of(const gemm::Kernel& kernel) {
  std::vector<std::string> names;
  for (int i = 0; i < kernel.variant_count; ++i) names.push_back(json(kernel.variants[i]));
  return names;
}
std::vector<std::string> variants_of(const transpose::Kernel&) { return {}; }
std::vector<std::string> variants_of(const reduce::Kernel&) { return {}; }

/// What a kernel is built for, by name, and the argument of its `function` and `symbol` for that.
template <typename Key>
using Instances = std::vector<std::pair<std::string, Key>>;

Instances<DType> instances(const gemm::Kernel& kernel) {
  Instances<DType> found;
  for (const DType dtype : GEMM_DTYPES) {
    if (kernel.takes(dtype)) found.emplace_back(name_of(dtype), dtype);
  }
  return found;
}
Instances<size_t> instances(const transpose::Kernel&) {
  Instances<size_t> found;
  for (const size_t bytes : {1, 2, 4, 8, 16}) {
    found.emplace_back(std::to_string(bytes) + "-byte", bytes);
  }
  return found;
}
Instances<DType> instances(const reduce::Kernel&) {
  Instances<DType> found;
  for (int code = 0; code <= static_cast<int>(DType::boolean); ++code) {
    const auto dtype = static_cast<DType>(code);
    found.emplace_back(name_of(dtype), dtype);
  }
  return found;
}

template <typename Table>
void describe(const char* op, const Table& table, std::vector<std::string>& rows) {
  for (int i = 0; i < table.count; ++i) {
    const auto& kernel = *table.kernels[i];
    std::vector<std::string> dtypes;
    for (const auto& [name, key] : instances(kernel)) dtypes.push_back(json(name));
    const auto [capability, alone] = tensor_cores_of(kernel);
    rows.push_back(json_object({{"op", json(op)},
                                {"name", json(kernel.name)},
                                {"summary", json(kernel.summary)},
                                {"requires", json(kernel.requires_)},
                                {"dtypes", json_array(dtypes)},
                                {"variants", json_array(variants_of(kernel))},
                                {"capability", json(int64_t{capability})},
                                {"capability_alone", alone ? "true" : "false"},
                                {"float32_precision", json(float32_precision_of(kernel))},
                                {"any_k", takes_any_k(kernel) ? "true" : "false"},
                                {"any_operator", takes_any_operator(kernel) ? "true" : "false"}}));
  }
}

std::string kernel_table() {
  std::vector<std::string> rows;
  describe("gemm", gemm::host_kernels(), rows);
  describe("transpose", transpose::host_kernels(), rows);
  describe("sum", reduce::host_kernels(), rows);
  return json_array(rows);
}

std::string build_info() {
  return json_object({{"cuda", json(build::kCudaVersion)},
                      {"archs", json(build::kCudaArchs)},
                      {"torch_target", json(build::kTorchTarget)},
                      {"torch_built", json(build::kTorchBuiltWith)},
                      {"compiler", json(build::kCompiler)}});
}

/// Calls f(op, kernel, what it is built for, argument of its `function` and `symbol`) for each row
/// of the three tables.
template <typename F>
void for_each_instance(const gemm::KernelTable& gemms, const transpose::KernelTable& transposes,
                       const reduce::KernelTable& sums, const F& f) {
  const auto visit = [&](const char* op, const auto& table) {
    for (int i = 0; i < table.count; ++i) {
      const auto& kernel = *table.kernels[i];
      for (const auto& [name, key] : instances(kernel)) f(op, kernel, name, key);
    }
  };
  visit("gemm", gemms);
  visit("transpose", transposes);
  visit("sum", sums);
}

/// "tiled_kernel<float, 32>" in what symbol_of (device/symbol.h) gives.
std::string symbol_in(const std::string& text) {
  const std::string before = "KERNEL = ";
  const size_t begin = text.find(before) + before.size();
  return text.substr(begin, text.find_first_of(";]", begin) - begin);
}

std::string kernel_symbols() {
  std::vector<std::string> rows;
  for_each_instance(
      gemm::host_kernels(), transpose::host_kernels(), reduce::host_kernels(),
      [&](const char* op, const auto& kernel, const std::string& dtype, auto key) {
        if (!kernel.symbol) return;
        rows.push_back(json_object({{"op", json(op)},
                                    {"name", json(kernel.name)},
                                    {"dtype", json(dtype)},
                                    {"symbol", json(symbol_in(kernel.symbol(key)))}}));
      });
  return json_array(rows);
}

#ifdef SMEM_WITH_CUDA
/// Of the current GPU, whose index this is.
int64_t code_capability(int64_t index) {
  make_context_current(static_cast<int>(index));
  return cuda_device(static_cast<int>(index)).code_capability;
}

/// For block sizes 1 to `max_threads`, how many blocks an SM of the current GPU holds.
template <typename Table, typename Key>
std::string active_blocks_in(const Table& table, int64_t kernel, Key key, int64_t max_threads,
                             int64_t dynamic_shared_bytes) {
  return json_numbers(cuda_active_blocks(table.kernels[kernel]->function(key),
                                         static_cast<int>(max_threads),
                                         static_cast<size_t>(dynamic_shared_bytes)));
}

std::string active_blocks(int64_t op, int64_t kernel, int64_t key, int64_t max_threads,
                          int64_t dynamic_shared_bytes) {
  const auto dtype = static_cast<DType>(key);
  if (op == 0) {
    return active_blocks_in(gemm::device_kernels(), kernel, dtype, max_threads,
                            dynamic_shared_bytes);
  }
  if (op == 1) {
    return active_blocks_in(transpose::device_kernels(), kernel, static_cast<size_t>(key),
                            max_threads, dynamic_shared_bytes);
  }
  return active_blocks_in(reduce::device_kernels(), kernel, dtype, max_threads, dynamic_shared_bytes);
}

/// On the current GPU.
std::string kernel_resources() {
  std::vector<std::string> rows;
  for_each_instance(
      gemm::device_kernels(), transpose::device_kernels(), reduce::device_kernels(),
      [&](const char* op, const auto& kernel, const std::string& dtype, auto key) {
        const auto found = cuda_kernel_resources(kernel.function(key));
        if (!found) return;
        const KernelResources& r = *found;
        rows.push_back(json_object({{"op", json(op)},
                                    {"name", json(kernel.name)},
                                    {"dtype", json(dtype)},
                                    {"registers", json(int64_t{r.registers})},
                                    {"shared_bytes", json(static_cast<int64_t>(r.shared_bytes))},
                                    {"local_bytes", json(static_cast<int64_t>(r.local_bytes))},
                                    {"max_threads", json(int64_t{r.max_threads})}}));
      });
  return json_array(rows);
}
#else
int64_t code_capability(int64_t) { return 0; }
std::string kernel_resources() {
  throw std::runtime_error("torch_smem_gemm: this build has no CUDA kernels");
}
std::string active_blocks(int64_t, int64_t, int64_t, int64_t, int64_t) {
  return kernel_resources();
}
#endif

/// What `auto` runs for a GEMM, described as torch.ops.smem._gemm_problem does.
std::string plan_gemm(const std::vector<int64_t>& numbers, const Device& device, DType dtype,
                      gemm::Precision precision) {
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
  const Choice choice = gemm::choose(problem, device);
  const gemm::Kernel& kernel = *gemm::host_kernels().kernels[choice.kernel];
  const std::string approach = kernel.approach ? "; " + kernel.approach(problem, device) : "";
  return json_object({{"kernel", json(kernel.name)}, {"reason", json(choice.reason + approach)}});
}

/// What `auto` runs for a transpose, described as torch.ops.smem._transpose_problem does.
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

std::vector<int64_t> numbers_of(PyObject* list) {
  std::vector<int64_t> numbers;
  for (Py_ssize_t i = 0; i < PySequence_Size(list); ++i) {
    PyObject* const item = PySequence_GetItem(list, i);
    numbers.push_back(PyLong_AsLongLong(item));
    Py_XDECREF(item);
  }
  return numbers;
}

/// A GPU as Python describes it: capability, SMs, shared bytes, capability of the code.
struct Chip {
  long long capability, sm_count, shared_bytes, code_capability;

  Device device() const {
    return {static_cast<int>(capability),
            static_cast<int>(sm_count),
            static_cast<size_t>(shared_bytes),
            nullptr,
            /*host=*/false,
            static_cast<int>(code_capability)};
  }
};

PyObject* py_plan_gemm(PyObject*, PyObject* arguments) {
  PyObject* list;
  Chip chip;
  long long dtype, precision;
  if (!PyArg_ParseTuple(arguments, "O(LLLL)LL", &list, &chip.capability, &chip.sm_count,
                        &chip.shared_bytes, &chip.code_capability, &dtype, &precision)) {
    return nullptr;
  }
  const std::vector<int64_t> numbers = numbers_of(list);
  if (PyErr_Occurred()) return nullptr;
  return to_python([&] {
    return plan_gemm(numbers, chip.device(), static_cast<DType>(dtype),
                     static_cast<gemm::Precision>(precision));
  });
}

PyObject* py_plan_transpose(PyObject*, PyObject* arguments) {
  PyObject* list;
  Chip chip;
  if (!PyArg_ParseTuple(arguments, "O(LLLL)", &list, &chip.capability, &chip.sm_count,
                        &chip.shared_bytes, &chip.code_capability)) {
    return nullptr;
  }
  const std::vector<int64_t> numbers = numbers_of(list);
  if (PyErr_Occurred()) return nullptr;
  return to_python([&] { return plan_transpose(numbers, chip.device()); });
}

PyObject* py_kernel_symbols(PyObject*, PyObject*) { return to_python(kernel_symbols); }

PyObject* py_active_blocks(PyObject*, PyObject* arguments) {
  long long v[5];
  if (!PyArg_ParseTuple(arguments, "LLLLL", &v[0], &v[1], &v[2], &v[3], &v[4])) return nullptr;
  return to_python([&] { return active_blocks(v[0], v[1], v[2], v[3], v[4]); });
}

PyObject* py_code_capability(PyObject*, PyObject* arguments) {
  long long index;
  if (!PyArg_ParseTuple(arguments, "L", &index)) return nullptr;
  return to_python([&] { return json(code_capability(index)); });
}

PyObject* py_begin_trace(PyObject*, PyObject*) {
  return to_python([] {
    begin_trace();
    return std::string();
  });
}
PyObject* py_end_trace(PyObject*, PyObject*) { return to_python(end_trace); }

/// The exception that the handler of a signal raised while a kernel ran on the CPU, until Python
/// takes it. The GIL guards it.
PyObject* interruption = nullptr;

/// Runs the handlers of signals that have arrived, as Python itself does between two bytecodes.
/// Returns whether one raised an exception, KeyboardInterrupt say. torch releases the GIL while an
/// op runs.
bool run_signal_handlers() {
  const PyGILState_STATE state = PyGILState_Ensure();
  const bool raised = PyErr_CheckSignals() != 0;
  if (raised) {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    if (traceback) PyException_SetTraceback(value, traceback);
    Py_XDECREF(type);
    Py_XDECREF(traceback);
    Py_XDECREF(interruption);
    interruption = value;
  }
  PyGILState_Release(state);
  return raised;
}

PyObject* py_take_interruption(PyObject*, PyObject*) {
  PyObject* const taken = interruption;
  interruption = nullptr;
  if (taken) return taken;
  Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    {"kernel_table", py_kernel_table, METH_NOARGS, "JSON: every kernel of every op."},
    {"build_info", py_build_info, METH_NOARGS, "JSON: what the binary was built with and for."},
    {"kernel_resources", py_kernel_resources, METH_NOARGS,
     "JSON: registers, shared and local memory of every kernel on the current GPU."},
    {"kernel_symbols", py_kernel_symbols, METH_NOARGS,
     "JSON: the name of each kernel's function, for each dtype or element size."},
    {"active_blocks", py_active_blocks, METH_VARARGS,
     "JSON: blocks an SM of the current GPU holds, by the driver, for block sizes of 1 "
     "to (op, kernel, dtype code or element bytes, THREADS, dynamic shared bytes)."},
    {"begin_trace", py_begin_trace, METH_NOARGS,
     "From now on kernels that this thread runs on CPU tensors are traced."},
    {"end_trace", py_end_trace, METH_NOARGS, "JSON: what they did."},
    {"take_interruption", py_take_interruption, METH_NOARGS,
     "The exception of a signal's handler that ended a kernel on the CPU; None if there is none."},
    {"plan_gemm", py_plan_gemm, METH_VARARGS,
     "JSON: the kernel `auto` takes for (the numbers of torch.ops.smem._gemm_problem, (capability, "
     "SMs, shared bytes, capability of the code), dtype, precision)."},
    {"plan_transpose", py_plan_transpose, METH_VARARGS,
     "JSON: the kernel `auto` takes for (the numbers of torch.ops.smem._transpose_problem, "
     "(capability, SMs, shared bytes, capability of the code))."},
    {"code_capability", py_code_capability, METH_VARARGS,
     "JSON: 10 * major + minor of what the code was compiled for that the current GPU, of this "
     "index, runs of this binary; 0 where the binary holds none for it."},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_C", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

}  // namespace
}  // namespace smem::bindings

extern "C" __attribute__((visibility("default"))) PyObject* PyInit__C() {
  smem::cpu_emulator::set_interrupt_check(smem::bindings::run_signal_handlers);
  return PyModule_Create(&smem::bindings::module);
}
