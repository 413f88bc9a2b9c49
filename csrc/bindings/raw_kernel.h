// A user's kernel, compiled for the CPU, run under the emulator.
#pragma once

#include <Python.h>

namespace smem::bindings {

/// Runs a kernel and returns its launch's report in JSON, with the fields of
/// cpu_emulator/trace/report.h. `arguments` is the tuple of Python that run_kernel's documentation
/// in module.cpp names.
PyObject* run_kernel(PyObject* self, PyObject* arguments);

}  // namespace smem::bindings
