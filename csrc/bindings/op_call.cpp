// The type OpCall: a call of an op by the cheapest of the paths that ops/_dispatch.py describes.
//
// In Python this took 3.3 of the 11.9 us of a small `linear` on an H200's host, where torch's took
// 11.2. Here it takes about 1 us: torch is asked through functions of torch._C.
#include "bindings/op_call.h"

#include <algorithm>
#include <array>

#include "bindings/python_ref.h"

namespace smem::bindings {
namespace {

/// What OpCall is made of, in the order of its arguments (_C.pyi explains them).
enum Part : int {
  OP,
  PUBLIC_OP,
  ON_CPU,
  RECOVER,
  SETUP,
  CAST,
  DEFAULTS,
  TF32_DEFAULTS,
  DIFFERENTIATE,
  APPLY,
  PARTS
};

struct OpCall {
  PyObject ob_base;
  Py_ssize_t tensors;  ///< arguments that may require grad: the first ones
  std::array<PyObject*, PARTS> parts;
};

OpCall& op_call(PyObject* self) { return *reinterpret_cast<OpCall*>(self); }

/// What every call asks torch. It is never freed.
struct Torch {
  PyObject* transforms_are_active = nullptr;
  PyObject* count_of_modes = nullptr;
  PyObject* is_any_autocast_enabled = nullptr;
  PyObject* is_autocast_enabled = nullptr;
  PyObject* autocast_dtype = nullptr;
  PyObject* is_grad_enabled = nullptr;
  PyObject* fp32_precision = nullptr;
  PyObject* forward_ad = nullptr;
  PyObject* float32 = nullptr;
  PyObject* cuda = Py_BuildValue("(s)", "cuda");
  PyObject* products = Py_BuildValue("(ss)", "cuda", "matmul");
  PyObject* tf32 = PyUnicode_InternFromString("tf32");
  PyObject* current_level = PyUnicode_InternFromString("_current_level");
  PyObject* requires_grad = PyUnicode_InternFromString("requires_grad");
  PyObject* is_cuda = PyUnicode_InternFromString("is_cuda");
  PyObject* is_cpu = PyUnicode_InternFromString("is_cpu");
  PyObject* dtype = PyUnicode_InternFromString("dtype");

  /// Throws PythonError if this torch lacks one of the functions.
  Torch() {
    const PythonRef c_module = PythonRef::owned(PyImport_ImportModule("torch._C"));
    const auto function = [&](const char* name) {
      return PythonRef::owned(PyObject_GetAttrString(c_module.get(), name)).release();
    };
    transforms_are_active = function("_are_functorch_transforms_active");
    count_of_modes = function("_len_torch_dispatch_stack");
    is_any_autocast_enabled = function("_is_any_autocast_enabled");
    is_autocast_enabled = function("is_autocast_enabled");
    autocast_dtype = function("get_autocast_dtype");
    is_grad_enabled = function("is_grad_enabled");
    fp32_precision = function("_get_fp32_precision_getter");
    forward_ad = PythonRef::owned(PyImport_ImportModule("torch.autograd.forward_ad")).release();
    const PythonRef module = PythonRef::owned(PyImport_ImportModule("torch"));
    float32 = PythonRef::owned(PyObject_GetAttrString(module.get(), "float32")).release();
  }
};

/// First called while the package is imported, so no thread waits here for another.
const Torch& torch() {
  static const Torch torch;
  return torch;
}

bool asks(PyObject* function) { return PythonRef::owned(PyObject_CallNoArgs(function)).is_true(); }

/// Whether torch.func, a dispatch mode or forward-mode differentiation is active.
bool needs_public_op() {
  if (asks(torch().transforms_are_active) || asks(torch().count_of_modes)) return true;
  return PyLong_AsLong(attribute(torch().forward_ad, torch().current_level).get()) >= 0;
}

/// Whether gradients are enabled and one of the tensors requires one.
bool needs_grad(const OpCall& self, PyObject* args) {
  if (!asks(torch().is_grad_enabled)) return false;
  const Py_ssize_t count = std::min(PyTuple_Size(args), self.tensors);
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* const arg = PyTuple_GetItem(args, i);
    if (arg == Py_None) continue;
    PyObject* const requires_grad = PyObject_GetAttr(arg, torch().requires_grad);
    if (!requires_grad && PyErr_ExceptionMatches(PyExc_AttributeError)) {
      PyErr_Clear();  // no tensor: the op says so
    } else if (PythonRef::owned(requires_grad).is_true()) {
      return true;
    }
  }
  return false;
}

PythonRef attribute_of_first(PyObject* args, PyObject* name) {
  PyObject* const first = PyTuple_GetItem(args, 0);
  if (!first) throw PythonError{};
  return attribute(first, name);
}

bool is_on_cpu(PyObject* args) { return attribute_of_first(args, torch().is_cpu).is_true(); }

/// Calls the op. Where it raises RuntimeError, the result is that of `recover(error, *args)`.
PythonRef call_op(const OpCall& self, PyObject* args) {
  if (PyObject* const result = PyObject_Call(self.parts[OP], args, nullptr)) {
    return PythonRef::owned(result);
  }
  if (!PyErr_ExceptionMatches(PyExc_RuntimeError)) throw PythonError{};
  const PythonRef error = PythonRef::owned(take_error());
  const PythonRef first = PythonRef::owned(PyTuple_Pack(1, error.get()));
  return call(self.parts[RECOVER], concatenated(first.get(), args).get());
}

/// All arguments: those given, then the others' defaults.
PythonRef completed(PyObject* args, PyObject* defaults) {
  const PythonRef rest =
      PythonRef::owned(PyTuple_GetSlice(defaults, PyTuple_Size(args), PyTuple_Size(defaults)));
  return concatenated(args, rest.get());
}

PyObject* py_call(PyObject* self, PyObject* args, PyObject* kwargs) {
  if (kwargs && PyDict_Size(kwargs) > 0) {
    PyErr_SetString(PyExc_TypeError, "OpCall takes no keyword arguments");
    return nullptr;
  }
  return to_python_result([&] {
    const OpCall& op = op_call(self);
    if (needs_public_op()) return call(op.parts[PUBLIC_OP], args);
    if (needs_grad(op, args)) {
      return call(op.parts[DIFFERENTIATE], completed(args, op.parts[DEFAULTS]).get());
    }
    return is_on_cpu(args) ? call(op.parts[ON_CPU], args) : call_op(op, args);
  });
}

/// Whether the first of the arguments has float32 and torch allows tf32 for its products.
bool uses_tf32(PyObject* args) {
  if (attribute_of_first(args, torch().dtype).get() != torch().float32) return false;
  const PythonRef precision = call(torch().fp32_precision, torch().products);
  return PyUnicode_Compare(precision.get(), torch().tf32) == 0;
}

/// The arguments of CUDA tensors with the tensors cast as autocast does for products.
PythonRef cast_for_autocast(const OpCall& self, PyObject* args) {
  const PythonRef dtype = call(torch().autocast_dtype, torch().cuda);
  const Py_ssize_t count = PyTuple_Size(args);
  PythonRef cast = PythonRef::owned(PyTuple_New(count));
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* const arg = PyTuple_GetItem(args, i);
    const bool fits =
        i >= self.tensors || arg == Py_None || attribute(arg, torch().dtype).get() == dtype.get();
    PythonRef item = fits ? PythonRef::borrowed(arg)
                          : PythonRef::owned(PyObject_CallFunctionObjArgs(self.parts[CAST], arg,
                                                                          dtype.get(), nullptr));
    PyTuple_SetItem(cast.get(), i, item.release());
  }
  return cast;
}

PyObject* py_plain(PyObject* self, PyObject* args) {
  const OpCall& op = op_call(self);
  return to_python_result([&] {
    if (is_on_cpu(args) || needs_public_op()) return PythonRef::borrowed(Py_NotImplemented);
    PythonRef cast, with_precision;
    if (asks(torch().is_any_autocast_enabled)) {
      const bool is_cuda = attribute_of_first(args, torch().is_cuda).is_true();
      if (op.parts[CAST] == Py_None || !is_cuda) return PythonRef::borrowed(Py_NotImplemented);
      if (call(torch().is_autocast_enabled, torch().cuda).is_true()) {
        cast = cast_for_autocast(op, args);
        args = cast.get();
      }
    }
    if (op.parts[TF32_DEFAULTS] != Py_None && uses_tf32(args)) {
      with_precision = completed(args, op.parts[TF32_DEFAULTS]);
      args = with_precision.get();
    }
    return needs_grad(op, args) ? call(op.parts[APPLY], args) : call_op(op, args);
  });
}

PyObject* py_forward(PyObject* self, PyObject* context_and_args) {
  const OpCall& op = op_call(self);
  return to_python_result([&] {
    PyObject* const context = PyTuple_GetItem(context_and_args, 0);
    if (!context) throw PythonError{};
    const PythonRef args =
        PythonRef::owned(PyTuple_GetSlice(context_and_args, 1, PyTuple_Size(context_and_args)));
    PythonRef output =
        is_on_cpu(args.get()) ? call(op.parts[ON_CPU], args.get()) : call_op(op, args.get());
    const PythonRef all = completed(args.get(), op.parts[DEFAULTS]);
    PythonRef::owned(
        PyObject_CallFunctionObjArgs(op.parts[SETUP], context, all.get(), output.get(), nullptr));
    return output;
  });
}

PyObject* py_differentiate_by(PyObject* self, PyObject* args) {
  return to_python_result([&] {
    auto& parts = op_call(self).parts;
    if (!PyArg_ParseTuple(args, "OO", &parts[DIFFERENTIATE], &parts[APPLY])) throw PythonError{};
    Py_INCREF(parts[DIFFERENTIATE]);
    Py_INCREF(parts[APPLY]);
    return PythonRef::borrowed(Py_None);
  });
}

PyObject* py_new(PyTypeObject* type, PyObject* args, PyObject*) {
  return to_python_result([&] {
    torch();
    const auto allocate = reinterpret_cast<allocfunc>(PyType_GetSlot(type, Py_tp_alloc));
    PythonRef self = PythonRef::owned(allocate(type, 0));
    auto* const made = reinterpret_cast<OpCall*>(self.get());
    auto& p = made->parts;
    if (!PyArg_ParseTuple(args, "nOOOOOOOO", &made->tensors, &p[OP], &p[PUBLIC_OP], &p[ON_CPU],
                          &p[RECOVER], &p[SETUP], &p[CAST], &p[DEFAULTS], &p[TF32_DEFAULTS])) {
      p = {};
      throw PythonError{};
    }
    p[DIFFERENTIATE] = p[APPLY] = Py_None;  // until differentiate_by
    for (PyObject* const part : p) Py_INCREF(part);
    return self;
  });
}

void py_dealloc(PyObject* self) {
  for (PyObject* const part : op_call(self).parts) Py_XDECREF(part);
  PyTypeObject* const type = Py_TYPE(self);
  reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

PyMethodDef methods[] = {
    {"plain", py_plain, METH_VARARGS, "The public function without options: see _C.pyi."},
    {"forward", py_forward, METH_VARARGS, "The forward of an autograd Function: see _C.pyi."},
    {"differentiate_by", py_differentiate_by, METH_VARARGS, "Sets what differentiates."},
    {nullptr, nullptr, 0, nullptr},
};

PyType_Slot slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(py_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(py_dealloc)},
    {Py_tp_call, reinterpret_cast<void*>(py_call)},
    {Py_tp_methods, methods},
    {0, nullptr},
};

PyType_Spec spec = {.name = "torch_smem_gemm._C.OpCall",
                    .basicsize = sizeof(OpCall),
                    .itemsize = 0,
                    .flags = Py_TPFLAGS_DEFAULT,
                    .slots = slots};

}  // namespace

PyObject* op_call_type() { return PyType_FromSpec(&spec); }

}  // namespace smem::bindings
