"""Type checks for arguments of the ops: tensors, real numbers, dtypes, dimensions.

Tensors are checked only after a call has failed, so that valid calls have no overhead.
"""

import numbers
import operator
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

# The exceptions that a call raises if an argument has the wrong type.
WRONG_TYPE = (AttributeError, TypeError, RuntimeError)


def real_number(op: str, name: str, value: Any) -> Any:
    """Return a real number as torch's ops take it; raise TypeError if ``value`` is not one.

    A tensor of no dimensions is accepted.
    """
    if isinstance(value, (int, float, torch.SymInt, torch.SymFloat)):
        return value
    if isinstance(value, numbers.Real):
        return float(value)
    if isinstance(value, Tensor) and value.dim() == 0 and not value.is_complex():
        return value
    raise TypeError(f"smem.{op}: {name} is {_described(value)}, expected a real number")


def check_dtype(op: str, name: str, value: Any) -> None:
    """Raise TypeError unless ``value`` is a dtype or None."""
    if value is not None and not isinstance(value, torch.dtype):
        raise TypeError(f"smem.{op}: {name} is {_described(value)}, expected a torch.dtype or None")


def check_bool(op: str, name: str, value: Any) -> None:
    """Raise TypeError unless ``value`` is a bool."""
    if not isinstance(value, bool):
        raise TypeError(f"smem.{op}: {name} is {_described(value)}, expected a bool")


def check_tensors(op: str, *, required: Mapping[str, Any], optional: Mapping[str, Any]) -> None:
    """Raise TypeError unless all are tensors; the ``optional`` ones may be None."""
    for name, value in (*required.items(), *optional.items()):
        if not (_like_a_tensor(value) or (value is None and name in optional)):
            expected = "a Tensor or None" if name in optional else "a Tensor"
            raise TypeError(f"smem.{op}: {name} is {_described(value)}, expected {expected}")


def check_dims(op: str, dims: Mapping[str, Any]) -> None:
    """Raise TypeError unless each is a dimension, a sequence of dimensions, or None."""
    for name, value in dims.items():
        each = value if isinstance(value, (tuple, list, torch.Size)) else [value]
        if value is not None and not all(hasattr(d, "__index__") for d in each):
            raise TypeError(
                f"smem.{op}: {name} is {_described(value)}, expected dimensions by number"
            )


def dims_of(dim: Any) -> list[Any] | None:
    """Return dimensions as a list: of one number, of a sequence, or None for all."""
    if isinstance(dim, int):
        return [dim]
    if dim is None:
        return None
    try:
        return [operator.index(dim)]  # NumPy's integers, say
    except TypeError:
        return list(dim)


def check_after(
    op: str,
    error: Exception,
    *,
    required: Mapping[str, Any],
    optional: Mapping[str, Any],
    dims: Mapping[str, Any] | None = None,
) -> None:
    """Raise an error that names the argument if its type or layout explains why the call failed.

    Args:
        op: the op's name, for example "gemm".
        error: the exception that the call raised, one of ``WRONG_TYPE``.
        required: arguments that must be tensors, by name.
        optional: arguments that must be tensors or None.
        dims: arguments that must be dimensions or None.
    """
    try:
        check_tensors(op, required=required, optional=optional)
        check_dims(op, dims or {})
    except TypeError as reason:
        raise reason from None
    # Other errors have another cause: on a CPU some calls take sparse tensors.
    is_unexplained = isinstance(error, RuntimeError) and not str(error).startswith("smem.")
    if isinstance(error, torch.OutOfMemoryError) or not is_unexplained:
        return
    for name, value in (*required.items(), *optional.items()):
        if isinstance(value, Tensor) and (value.is_nested or value.layout != torch.strided):
            kind = "nested" if value.is_nested else "sparse"
            raise RuntimeError(
                f"smem.{op}: {name} is {kind} (its layout is {value.layout}), "
                "expected a dense tensor"
            ) from None


def _like_a_tensor(value: Any) -> bool:
    return isinstance(value, Tensor) or hasattr(type(value), "__torch_function__")


def _described(value: Any) -> str:
    """Return a short value's text, such as "None" or "[1, 2]", else "a numpy.ndarray"."""
    if value is None or isinstance(value, (str, complex, float, int)):
        return repr(value)
    if isinstance(value, (tuple, list)) and len(repr(value)) <= 40:
        return repr(value)
    kind = type(value)
    module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    return f"a {module}{kind.__qualname__}"
