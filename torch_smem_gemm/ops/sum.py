"""smem.sum and smem.mean: as torch's, with an order of additions fixed by the count."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from torch_smem_gemm.ops import _aten
from torch_smem_gemm.ops._dispatch import Op
from torch_smem_gemm.ops._reduction import Dims, define_reduction, with_reduced_dims


def sum(
    x: Tensor,
    dim: Dims = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
    kernel: str = "auto",
    out: Tensor | None = None,
) -> Tensor:
    """Return the sum of ``x`` over ``dim``, with torch.sum's semantics and dtypes.

    Differentiable to any order. float16 and bfloat16 are summed in float32 and rounded once, or
    kept in float32 under CUDA autocast; integers and bool are summed to int64.

    Args:
        x: any shape and strides; float64, float32, float16, bfloat16, complex, int64, int32, int16,
            int8, uint8 or bool.
        dim: a dimension or several; None and () mean all.
        keepdim: keep the reduced dimensions with size 1.
        dtype: dtype of the result, to which ``x`` is converted first.
        kernel: "auto" (on CPU tensors: ATen), or a name of ``smem.kernels("sum")``; on CPU tensors
            the named kernel itself runs on the CPU.
        out: the tensor for the result; its shape and dtype must fit. It may overlap ``x``.
            Not with gradients.

    Raises:
        RuntimeError: a dimension is out of range or repeated, or ``out`` does not fit.
        ValueError, TypeError: unknown kernel; the text lists the valid ones.
        TypeError: ``x`` or ``out`` is not a tensor, ``dtype`` not a dtype, or ``dim`` not integers.
        torch.OutOfMemoryError: no memory for the result.
    """
    return _sum(x, dim, keepdim, kernel, out, dtype)


def mean(
    x: Tensor,
    dim: Dims = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
    kernel: str = "auto",
    out: Tensor | None = None,
) -> Tensor:
    """Return the mean of ``x`` over ``dim``, with torch.mean's semantics and dtypes.

    The sum that ``smem.sum`` finds, divided before it is rounded. Differentiable to any order.

    Args:
        x: as for ``smem.sum``; integers and bool only with a ``dtype``.
        dim: a dimension or several; None and () mean all.
        keepdim: keep the reduced dimensions with size 1.
        dtype: a float or complex dtype for the result, to which ``x`` is converted first.
        kernel: "auto" (on CPU tensors: ATen), or a name of ``smem.kernels("sum")`` that takes any
            operator; on CPU tensors the named kernel itself runs on the CPU.
        out: the tensor for the result; its shape and dtype must fit. It may overlap ``x``.
            Not with gradients.

    Raises:
        RuntimeError: as ``smem.sum``, and where the result would be of integers.
        ValueError, TypeError: unknown kernel; the text lists the valid ones.
        torch.OutOfMemoryError: no memory for the result.
    """
    return _mean(x, dim, keepdim, kernel, out, dtype)


def sum_to_shape(x: Tensor, shape: Sequence[int], dtype: torch.dtype | None = None) -> Tensor:
    """Sum ``x`` down to a shape that broadcasts to its own, as a broadcast input's gradient is.

    The sum has ``dtype``; where there is nothing to sum, ``x`` itself is returned.
    """
    extra = x.dim() - len(shape)
    stretched = [extra + d for d, size in enumerate(shape) if size == 1 and x.shape[extra + d] != 1]
    dims = [*range(extra), *stretched]
    # Not by sum(), which returns float32 under autocast.
    return _sum_op(x, dims, True, dtype).reshape(shape) if dims else x


def _autocast_dtype(x: Tensor) -> torch.dtype | None:
    """Return autocast's dtype for torch.sum(x); mean, amax and amin have no autocast rule."""
    casts = x.is_cuda and torch.is_autocast_enabled("cuda")
    return torch.float32 if casts and x.dtype in (torch.float16, torch.bfloat16) else None


def _sum_backward(ctx: Any, grad: Tensor) -> tuple:
    grad = with_reduced_dims(ctx, grad).to(ctx.dtype)
    return grad.expand(ctx.shape), None, None, None, None


def _mean_backward(ctx: Any, grad: Tensor) -> tuple:
    count = math.prod(ctx.shape[d] for d in ctx.reduced)
    grad = with_reduced_dims(ctx, grad).to(ctx.dtype)
    # The division comes last, as in torch, so the rounding is the same.
    return grad.expand(ctx.shape) / count, None, None, None, None


def _jvp(op: Op, output: Tensor, args: tuple, tangents: tuple) -> Tensor:
    return op(tangents[0], *args[1:])


_sum, _sum_op = define_reduction(
    "sum", cpu=_aten.sum, backward=_sum_backward, jvp=_jvp, autocast_dtype=_autocast_dtype
)
_mean, _ = define_reduction("mean", cpu=_aten.mean, backward=_mean_backward, jvp=_jvp)
