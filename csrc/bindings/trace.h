// Traces of the ops that this thread calls on CPU tensors (csrc/cpu_emulator/trace).
#pragma once

#include <Python.h>

#include <string>

#include "cpu_emulator/trace/session.h"

namespace smem::bindings {

/// Adds the arrays of a list of (name, offset, bytes, whether it is dynamic, False if absent).
/// False, with Python's error, if an item is not like that.
bool parse_arrays(PyObject* list, cpu_emulator::trace::Module& module);

/// Starts a trace; raises RuntimeError if one is in progress. `arguments` is the tuple of Python
/// that begin_trace's documentation in module.cpp names.
PyObject* begin_trace(PyObject* self, PyObject* arguments);

/// Ends the trace and returns its report. Throws if no trace is in progress.
std::string end_trace();

}  // namespace smem::bindings
