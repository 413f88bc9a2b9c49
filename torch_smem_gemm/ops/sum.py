"""smem.sum: torch.sum, with an order of additions that depends on the reduced sizes alone."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from torch_smem_gemm.ops import _aten
from torch_smem_gemm.ops._checks import check_sum, reduced_dims, sum_result_dtype
from torch_smem_gemm.ops._codes import AUTO, kernel_code
from torch_smem_gemm.ops._dispatch import Op, define, refuse_grad_with_out


def sum(
    x: Tensor,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
    kernel: str = "auto",
    out: Tensor | None = None,
) -> Tensor:
    """Return the sum of ``x`` over ``dim``, with torch.sum's semantics and dtypes.

    Differentiable to any order. float16 and bfloat16 are summed in float32 and rounded once;
    integers and bool are summed to int64.

    Args:
        x: any shape and strides; float64, float32, float16, bfloat16, complex, int64, int32, int16,
            int8, uint8 or bool.
        dim: a dimension or several; None and () mean all.
        keepdim: keep the reduced dimensions with size 1.
        dtype: dtype of the result, to which ``x`` is converted first.
        kernel: "auto" (on CPU tensors: ATen), or a name of ``smem.kernels("sum")``; on CPU tensors
            the named kernel itself runs on the CPU.
        out: takes the result; its shape and dtype must fit. May overlap ``x``. Not with gradients.

    Raises:
        RuntimeError: a dimension is out of range or repeated, or ``out`` does not fit.
        ValueError, TypeError: unknown kernel; the text lists the valid ones.
        torch.OutOfMemoryError: no memory for the result.
    """
    kernel_ = kernel_code("sum", kernel)
    dims = [dim] if isinstance(dim, int) else dim if dim is None else list(dim)
    if out is not None:
        refuse_grad_with_out("sum", x)
        torch.ops.smem.sum.out(x, dims, keepdim, dtype, kernel_, out=out)
        return out
    if kernel_ == AUTO and x.is_cpu:
        check_sum(x, dims, keepdim, dtype)
        return _aten.sum(x, dims, keepdim, dtype)
    return _sum(x, dims, keepdim, dtype, kernel_)


def sum_to_shape(x: Tensor, shape: Sequence[int]) -> Tensor:
    """Sum ``x`` down to a shape that broadcasts to its own, as a broadcast input's gradient is."""
    extra = x.dim() - len(shape)
    stretched = [extra + d for d, size in enumerate(shape) if size == 1 and x.shape[extra + d] != 1]
    dims = [*range(extra), *stretched]
    return sum(x, dims, keepdim=True).reshape(shape) if dims else x


def _describe(
    x: Tensor,
    dim: Sequence[int] | None = None,
    keepdim: bool = False,
    dtype: torch.dtype | None = None,
    kernel_id: int = 0,
) -> tuple[list[int], torch.dtype]:
    return check_sum(x, dim, keepdim, dtype), sum_result_dtype(x, dtype)


def _setup(ctx: Any, inputs: tuple, output: Tensor) -> None:
    x, dim, keepdim, _, _ = inputs
    ctx.shape, ctx.dtype, ctx.reduced, ctx.keepdim = x.shape, x.dtype, reduced_dims(x, dim), keepdim


def _backward(ctx: Any, grad: Tensor) -> tuple:
    if not ctx.keepdim:
        for d in sorted(ctx.reduced):
            grad = grad.unsqueeze(d)
    return grad.to(ctx.dtype).expand(ctx.shape), None, None, None, None


def _vmap(
    op: Op,
    info: Any,
    in_dims: tuple,
    x: Tensor,
    dim: Sequence[int] | None = None,
    keepdim: bool = False,
    dtype: torch.dtype | None = None,
    kernel_id: int = 0,
) -> tuple[Tensor, int]:
    x = x.movedim(in_dims[0], 0)
    reduced = [d + 1 for d in reduced_dims(x[0], dim)]
    if not reduced:  # a batch of scalars: no dims would mean all
        return x.to(sum_result_dtype(x, dtype), copy=True), 0
    return op(x, reduced, keepdim, dtype, kernel_id), 0


_sum = define(
    "sum", describe=_describe, cpu=_aten.sum, vmap=_vmap, setup=_setup, backward=_backward
)
