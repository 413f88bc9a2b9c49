#include "bindings/trace.h"

#include <memory>
#include <stdexcept>
#include <utility>

#include "bindings/trace_report.h"

namespace smem::bindings {
namespace {

using cpu_emulator::trace::Session;

thread_local std::unique_ptr<Session> session;

}  // namespace

bool parse_arrays(PyObject* list, cpu_emulator::trace::Module& module) {
  const Py_ssize_t count = PyList_Size(list);
  for (Py_ssize_t i = 0; i < count; ++i) {
    const char* name;
    long long offset;
    unsigned long long bytes;
    int dynamic = 0;
    if (!PyArg_ParseTuple(PyList_GetItem(list, i), "sLK|p", &name, &offset, &bytes, &dynamic)) {
      return false;
    }
    module.arrays.push_back({name, static_cast<ptrdiff_t>(offset), bytes, dynamic != 0});
  }
  module.sort_arrays();
  return count >= 0;
}

PyObject* begin_trace(PyObject*, PyObject* arguments) {
  unsigned long long size;
  PyObject* arrays;
  if (!PyArg_ParseTuple(arguments, "KO!", &size, &PyList_Type, &arrays)) return nullptr;
  std::unique_ptr<Session> begun;
  try {
    begun = std::make_unique<Session>();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
    return nullptr;
  }
  if (begun->module.end - begun->module.begin != size) {
    PyErr_SetString(PyExc_RuntimeError,
                    "smem.trace: torch_smem_gemm/_places.json is that of another build");
    return nullptr;
  }
  if (!parse_arrays(arrays, begun->module)) return nullptr;
  session = std::move(begun);
  Py_RETURN_NONE;
}

std::string end_trace() {
  if (!session) throw std::logic_error("smem.trace: no trace is active on this thread");
  const auto ended = std::move(session);
  return report_json(*ended);
}

}  // namespace smem::bindings
