// The Python module _C. Loading it registers the ops (ops.cpp); its functions return JSON texts
// that describe the binary, plans and traces.
#include <Python.h>

#include <exception>
#include <string>
#include <vector>

#include "bindings/json.h"
#include "bindings/kernel_info.h"
#include "bindings/op_call.h"
#include "bindings/plan.h"
#include "bindings/python_ref.h"
#include "bindings/raw_kernel.h"
#include "bindings/split.h"
#include "bindings/trace.h"
#include "cpu_emulator/interrupt.h"
#include "device/assumed_capability.h"

namespace smem::bindings {
namespace {

template <typename F>
PyObject* to_python(F&& describe) {
  try {
    const std::string text = describe();
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

/// The GPU that a plan is for, as Python passes it: capability, SMs, shared memory per block in
/// bytes, capability of the code.
struct GpuArguments {
  long long capability, sm_count, shared_bytes, code_capability;

  Device device() const {
    return {.capability = static_cast<int>(capability),
            .sm_count = static_cast<int>(sm_count),
            .shared_bytes = static_cast<size_t>(shared_bytes),
            .stream = nullptr,
            .host = false,
            .code_capability = static_cast<int>(code_capability)};
  }
};

PyObject* py_plan_gemm(PyObject*, PyObject* arguments) {
  PyObject* list;
  GpuArguments gpu;
  long long dtype, precision, kernel;
  if (!PyArg_ParseTuple(arguments, "O(LLLL)LLL", &list, &gpu.capability, &gpu.sm_count,
                        &gpu.shared_bytes, &gpu.code_capability, &dtype, &precision, &kernel)) {
    return nullptr;
  }
  const std::vector<int64_t> numbers = numbers_of(list);
  if (PyErr_Occurred()) return nullptr;
  return to_python([&] {
    return plan_gemm(numbers, gpu.device(), static_cast<DType>(dtype),
                     static_cast<gemm::Precision>(precision), kernel);
  });
}

PyObject* py_plan_transpose(PyObject*, PyObject* arguments) {
  PyObject* list;
  GpuArguments gpu;
  if (!PyArg_ParseTuple(arguments, "O(LLLL)", &list, &gpu.capability, &gpu.sm_count,
                        &gpu.shared_bytes, &gpu.code_capability)) {
    return nullptr;
  }
  const std::vector<int64_t> numbers = numbers_of(list);
  if (PyErr_Occurred()) return nullptr;
  return to_python([&] { return plan_transpose(numbers, gpu.device()); });
}

PyObject* py_kernel_symbols(PyObject*, PyObject*) { return to_python(kernel_symbols); }

PyObject* py_active_blocks(PyObject*, PyObject* arguments) {
  long long v[5];
  if (!PyArg_ParseTuple(arguments, "LLLLL", &v[0], &v[1], &v[2], &v[3], &v[4])) return nullptr;
  return to_python([&] { return active_blocks(v[0], v[1], v[2], v[3], v[4]); });
}

PyObject* py_chip(PyObject*, PyObject* arguments) {
  long long index;
  if (!PyArg_ParseTuple(arguments, "L", &index)) return nullptr;
  return to_python([&] { return chip_at(index); });
}

PyObject* py_weight_split_bytes(PyObject*, PyObject* arguments) {
  long long N, K;
  if (!PyArg_ParseTuple(arguments, "LL", &N, &K)) return nullptr;
  return PyLong_FromLongLong(weight_split_bytes(N, K));
}

PyObject* py_assumed_chip(PyObject*, PyObject* arguments) {
  GpuArguments gpu;
  const char* text;
  if (!PyArg_ParseTuple(arguments, "(LLLL)s", &gpu.capability, &gpu.sm_count, &gpu.shared_bytes,
                        &gpu.code_capability, &text)) {
    return nullptr;
  }
  return to_python([&] { return chip_of(with_capability(gpu.device(), text)); });
}

PyObject* py_end_trace(PyObject*, PyObject*) { return to_python(end_trace); }

/// The exception that a signal handler raised while a kernel ran on the CPU, until Python takes it.
/// The GIL protects it.
PyObject* interruption = nullptr;

/// Runs the handlers of pending signals, as Python itself does between two bytecodes. Returns
/// whether one raised an exception, such as KeyboardInterrupt. It must acquire the GIL, which torch
/// releases while an op runs.
bool run_signal_handlers() {
  const PyGILState_STATE state = PyGILState_Ensure();
  const bool raised = PyErr_CheckSignals() != 0;
  if (raised) {
    Py_XDECREF(interruption);
    interruption = take_error();
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
     "JSON: resident blocks per SM of the current GPU, by the driver, for block sizes of 1 to "
     "THREADS. (op, kernel, dtype code or element bytes, THREADS, dynamic shared bytes)."},
    {"begin_trace", begin_trace, METH_VARARGS,
     "Starts a trace of the kernels that this thread runs on CPU tensors. (bytes of this library "
     "in "
     "memory, [(name, offset, bytes) of each shared array of its kernels]): tracing.begin knows "
     "them."},
    {"run_kernel", run_kernel, METH_VARARGS,
     "JSON: the report of a kernel compiled for the CPU; None if a signal ended it. (name, address "
     "of its entry, address of its arguments, grid, block, (begin "
     "and end of its code, address of the function that finds the block's shared memory), [(name, "
     "offset, bytes, is dynamic) of each shared array], [(name, address, bytes, offset in its "
     "allocation, is constant) of each buffer], [numbers of the blocks to run; empty for all], "
     "whether requests are counted, steps that a thread may take)."},
    {"end_trace", py_end_trace, METH_NOARGS, "JSON: the report of the trace, which ends."},
    {"take_interruption", py_take_interruption, METH_NOARGS,
     "The exception of a signal handler that ended a kernel on the CPU; None if there is none."},
    {"plan_gemm", py_plan_gemm, METH_VARARGS,
     "JSON: the kernel that `auto` chooses for (the numbers of torch.ops.smem._gemm_problem, "
     "(capability, SMs, shared bytes, capability of the code), dtype, precision)."},
    {"plan_transpose", py_plan_transpose, METH_VARARGS,
     "JSON: the kernel that `auto` chooses for (the numbers of torch.ops.smem._transpose_problem, "
     "(capability, SMs, shared bytes, capability of the code))."},
    {"weight_split_bytes", py_weight_split_bytes, METH_VARARGS,
     "The bytes of torch.ops.smem._split_weight's result for a weight of this shape."},
    {"chip", py_chip, METH_VARARGS,
     "JSON: of the current GPU, which has this index, the compute capability (10 * major + minor), "
     "SMs, shared memory per block, and the capability of the code that it runs of this binary: 0 "
     "if the binary has none for it."},
    {"assumed_chip", py_assumed_chip, METH_VARARGS,
     "JSON: such a chip under SMEM_CAPABILITY, from the chip and the variable's text."},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef module = {.m_base = PyModuleDef_HEAD_INIT,
                      .m_name = "_C",
                      .m_doc = nullptr,
                      .m_size = -1,
                      .m_methods = methods,
                      .m_slots = nullptr,
                      .m_traverse = nullptr,
                      .m_clear = nullptr,
                      .m_free = nullptr};

}  // namespace
}  // namespace smem::bindings

extern "C" __attribute__((visibility("default"))) PyObject* PyInit__C() {
  smem::cpu_emulator::set_interrupt_check(smem::bindings::run_signal_handlers);
  PyObject* const module = PyModule_Create(&smem::bindings::module);
  if (!module) return nullptr;
  PyObject* const op_call = smem::bindings::op_call_type();
  if (!op_call || PyModule_AddObject(module, "OpCall", op_call) != 0) {
    Py_XDECREF(op_call);
    Py_DECREF(module);
    return nullptr;
  }
  return module;
}
