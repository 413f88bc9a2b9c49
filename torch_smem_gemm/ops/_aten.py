"""The ops on CPU tensors if no kernel is named: ATen (MKL, oneDNN) computes them."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_smem_gemm.ops._codes import ACTIVATIONS


def _silu_gradient(grad: Tensor, z: Tensor) -> Tensor:
    if not torch.is_grad_enabled():
        return torch.ops.aten.silu_backward(grad, z)
    s = torch.sigmoid(z)  # ATen has no derivative of silu_backward
    return grad * s * (1 + z * (1 - s))


_FUNCTIONS: dict[str | None, Callable[[Tensor], Tensor]] = {
    None: lambda z: z,
    "relu": torch.relu,
    "gelu": F.gelu,
    "gelu_tanh": lambda z: F.gelu(z, approximate="tanh"),
    "silu": F.silu,
}
_GRADIENTS: dict[str | None, Callable[[Tensor, Tensor], Tensor]] = {
    None: lambda grad, z: grad,
    "relu": lambda grad, z: torch.ops.aten.threshold_backward(grad, z, 0),
    "gelu": torch.ops.aten.gelu_backward,
    "gelu_tanh": lambda grad, z: torch.ops.aten.gelu_backward(grad, z, approximate="tanh"),
    "silu": _silu_gradient,
}
_FUNCTION_OF = {code: _FUNCTIONS[name] for name, code in ACTIVATIONS.items()}
_GRADIENT_OF = {code: _GRADIENTS[name] for name, code in ACTIVATIONS.items()}


def activate(z: Tensor, activation: int) -> Tensor:
    """Apply the activation of that code."""
    return _FUNCTION_OF[activation](z)


def activation_gradient(grad: Tensor, z: Tensor, activation: int) -> Tensor:
    """Return ``grad`` times the derivative at ``z`` of the activation of that code."""
    return _GRADIENT_OF[activation](grad, z)


def gemm(
    a: Tensor,
    b: Tensor,
    bias: Tensor | None = None,
    c: Tensor | None = None,
    alpha: float = 1.0,
    beta: float = 0.0,
    activation: int = 0,
    precision: int = 0,
    kernel_id: int = 0,
    out_dtype: torch.dtype | None = None,
) -> Tensor:
    """activation(alpha * a @ b + beta * c + bias)."""
    c = None if beta == 0 else c
    if out_dtype is not None:
        with _unrounded(a):
            a, b, bias, c = _converted(out_dtype, a, b, bias, c)
            return gemm(a, b, bias, c, alpha, beta, activation)
    if bias is not None and c is None and alpha == 1 and b.dim() == 2:
        return linear(
            a, b.mT, bias, activation
        )  # rounds once; a separate addition would round again
    z = torch.matmul(a, b)
    if alpha != 1:
        z = z * alpha
    if c is not None:
        z = torch.add(z, c, alpha=beta)
    if bias is not None:
        z = z + bias
    return activate(z, activation)


def linear(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    activation: int = 0,
    precision: int = 0,
    out_dtype: torch.dtype | None = None,
) -> Tensor:
    """activation(x @ weight.T + bias)."""
    if out_dtype is not None:
        with _unrounded(x):
            x, weight, bias = _converted(out_dtype, x, weight, bias)
            return linear(x, weight, bias, activation)
    return activate(F.linear(x, weight, bias), activation)


def with_preactivation(op: Callable[..., Tensor], activation_at: int) -> Callable[..., tuple]:
    """Return the form of ``op``, gemm or linear, that also returns the pre-activation.

    ``activation_at`` is the position of the activation's code among the arguments.
    """

    def both(*args: Any) -> tuple[Tensor, Tensor]:
        activation = args[activation_at] if len(args) > activation_at else 0
        z = op(*args[:activation_at], 0, *args[activation_at + 1 :]) if activation else op(*args)
        return activate(z, activation), z.to(args[0].dtype, copy=not activation)

    return both


def _unrounded(x: Tensor) -> torch.autocast:
    """Return a context in which autocast does not convert products to 16 bits."""
    return torch.autocast(x.device.type, enabled=False)


def _converted(dtype: torch.dtype, *tensors: Any) -> tuple[Any, ...]:
    """Convert the tensors to ``dtype``: torch.mm takes ``out_dtype`` on CUDA tensors only."""
    return tuple(None if x is None else x.to(dtype) for x in tensors)


def transpose(x: Tensor, dim0: int = -2, dim1: int = -1, kernel_id: int = 0) -> Tensor:
    """A contiguous copy of x.transpose(dim0, dim1)."""
    return x.transpose(dim0, dim1).clone(memory_format=torch.contiguous_format)


def _addition(reduce: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return torch.sum or torch.mean with the arguments of ``smem::sum``."""

    def on_cpu(
        x: Tensor,
        dim: Sequence[int] | None = None,
        keepdim: bool = False,
        dtype: torch.dtype | None = None,
        kernel_id: int = 0,
    ) -> Tensor:
        return reduce(x, None if dim is None else list(dim), keepdim, dtype=dtype)

    return on_cpu


def _extremum(reduce: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return torch.amax or torch.amin with the arguments of ``smem::amax``."""

    def on_cpu(
        x: Tensor, dim: Sequence[int] | None = None, keepdim: bool = False, kernel_id: int = 0
    ) -> Tensor:
        return reduce(x, list(dim or ()), keepdim)

    return on_cpu


sum, mean = _addition(torch.sum), _addition(torch.mean)
amax, amin = _extremum(torch.amax), _extremum(torch.amin)
