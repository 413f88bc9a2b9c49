// A call of an op from Python without Python code in between.
#pragma once

#include <Python.h>

namespace smem::bindings {

/// The Python type `OpCall`, a new reference; null with a Python error set. See _C.pyi.
PyObject* op_call_type();

}  // namespace smem::bindings
