#include "bindings/raw_kernel.h"

#include <exception>
#include <string>

#include "bindings/trace.h"
#include "bindings/trace_report.h"
#include "cpu_emulator/interrupt.h"
#include "cpu_emulator/trace/session.h"

namespace smem::bindings {
namespace {

using cpu_emulator::trace::Session;

/// Calls parse(item) for each tuple of a list; false, with Python's error, if one is not as asked.
template <typename Parse>
bool for_each(PyObject* list, const Parse& parse) {
  const Py_ssize_t count = PyList_Size(list);
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (!parse(PyList_GetItem(list, i))) return false;
  }
  return count >= 0;
}

bool parse_buffer(PyObject* item, Session& session) {
  const char* name;
  unsigned long long begin, bytes, offset;
  int constant;
  if (!PyArg_ParseTuple(item, "sKKKp", &name, &begin, &bytes, &offset, &constant)) return false;
  session.buffers.push_back({name, static_cast<uintptr_t>(begin), bytes, offset, constant != 0});
  return true;
}

/// Runs it without the GIL. Returns the text of what it threw, or nothing.
std::string run_released(const char* name, dim3 grid, dim3 threads, cpu_emulator::Body entry,
                         void* arguments, const std::vector<int64_t>& only_blocks,
                         bool& interrupted) {
  std::string error;
  PyThreadState* const state = PyEval_SaveThread();
  try {
    cpu_emulator::trace::run(name, grid, threads, 0, entry, arguments, only_blocks);
  } catch (const cpu_emulator::Interrupted&) {
    interrupted = true;
  } catch (const std::exception& exception) {
    error = exception.what();
  }
  PyEval_RestoreThread(state);
  return error;
}

PyObject* run_parsed(PyObject* arguments) {
  const char* name;
  unsigned long long entry, values, begin, end, shared_memory, step_limit;
  unsigned grid[3], threads[3];
  PyObject *arrays, *buffers, *blocks;
  int counts;
  if (!PyArg_ParseTuple(arguments, "sKK(III)(III)(KKK)O!O!O!pK", &name, &entry, &values, &grid[0],
                        &grid[1], &grid[2], &threads[0], &threads[1], &threads[2], &begin, &end,
                        &shared_memory, &PyList_Type, &arrays, &PyList_Type, &buffers, &PyList_Type,
                        &blocks, &counts, &step_limit)) {
    return nullptr;
  }
  Session session;
  session.module.begin = static_cast<uintptr_t>(begin);
  session.module.end = static_cast<uintptr_t>(end);
  session.module.shared_memory = reinterpret_cast<unsigned char* (*)()>(shared_memory);
  session.counts = counts != 0;
  session.step_limit = step_limit;
  std::vector<int64_t> only_blocks;
  const bool parsed =
      parse_arrays(arrays, session.module) &&
      for_each(buffers, [&](PyObject* item) { return parse_buffer(item, session); }) &&
      for_each(blocks, [&](PyObject* item) {
        only_blocks.push_back(PyLong_AsLongLong(item));
        return !PyErr_Occurred();
      });
  if (!parsed) return nullptr;

  bool interrupted = false;
  const std::string error =
      run_released(name, {grid[0], grid[1], grid[2]}, {threads[0], threads[1], threads[2]},
                   reinterpret_cast<cpu_emulator::Body>(entry), reinterpret_cast<void*>(values),
                   only_blocks, interrupted);
  if (interrupted) Py_RETURN_NONE;
  if (!error.empty()) {
    PyErr_SetString(PyExc_RuntimeError, error.c_str());
    return nullptr;
  }
  const std::string report = report_json(session);
  return PyUnicode_FromStringAndSize(report.data(), static_cast<Py_ssize_t>(report.size()));
}

}  // namespace

PyObject* run_kernel(PyObject*, PyObject* arguments) {
  try {
    return run_parsed(arguments);
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
    return nullptr;
  }
}

}  // namespace smem::bindings
