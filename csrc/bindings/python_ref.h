// References to Python objects, and Python errors as C++ exceptions.
#pragma once

#include <Python.h>

#include <exception>
#include <utility>

namespace smem::bindings {

/// Thrown where a function of Python's C API fails. Python knows the error.
struct PythonError : std::exception {
  const char* what() const noexcept override { return "a Python error is set"; }
};

/// Takes the current error, with its traceback: a new reference.
inline PyObject* take_error() {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  if (traceback) PyException_SetTraceback(value, traceback);
  Py_XDECREF(type);
  Py_XDECREF(traceback);
  return value;
}

/// Owns a reference to a Python object.
class PythonRef {
 public:
  PythonRef() = default;
  PythonRef(PythonRef&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  PythonRef& operator=(PythonRef&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  PythonRef(const PythonRef&) = delete;
  PythonRef& operator=(const PythonRef&) = delete;
  ~PythonRef() { Py_XDECREF(object_); }

  /// Takes over a reference that a function of the C API returned; throws where that is null.
  static PythonRef owned(PyObject* object) {
    if (!object) throw PythonError{};
    PythonRef ref;
    ref.object_ = object;
    return ref;
  }

  static PythonRef borrowed(PyObject* object) {
    Py_INCREF(object);
    return owned(object);
  }

  PyObject* get() const { return object_; }
  PyObject* release() { return std::exchange(object_, nullptr); }

  bool is_true() const {
    const int truth = PyObject_IsTrue(object_);
    if (truth < 0) throw PythonError{};
    return truth != 0;
  }

 private:
  PyObject* object_ = nullptr;
};

inline PythonRef attribute(PyObject* object, PyObject* name) {
  return PythonRef::owned(PyObject_GetAttr(object, name));
}

inline PythonRef call(PyObject* function, PyObject* args) {
  return PythonRef::owned(PyObject_Call(function, args, nullptr));
}

inline PythonRef concatenated(PyObject* first, PyObject* second) {
  return PythonRef::owned(PySequence_Concat(first, second));
}

/// Returns the reference that `function` returns, or null where it throws PythonError.
template <typename Function>
PyObject* to_python_result(const Function& function) {
  try {
    PythonRef result = function();
    return result.release();
  } catch (const PythonError&) {
    return nullptr;
  }
}

}  // namespace smem::bindings
