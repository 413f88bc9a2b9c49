"""smem.transpose: a contiguous copy of x.transpose(dim0, dim1)."""

from typing import Any

import torch
from torch import Tensor
from torch.compiler import is_dynamo_compiling

from torch_smem_gemm.ops import _aten
from torch_smem_gemm.ops._arguments import WRONG_TYPE, check_after
from torch_smem_gemm.ops._checks import check_transpose
from torch_smem_gemm.ops._codes import AUTO, kernel_code
from torch_smem_gemm.ops._dispatch import Op, define, refuse_grad_with_out


def transpose(
    x: Tensor,
    dim0: int = -2,
    dim1: int = -1,
    *,
    kernel: str = "auto",
    out: Tensor | None = None,
) -> Tensor:
    """Return a contiguous copy of ``x.transpose(dim0, dim1)``.

    Differentiable to any order.

    Args:
        x: any shape and strides, any dtype with elements of 1, 2, 4, 8 or 16 bytes.
        dim0: a dimension, from ``-x.dim()`` to ``x.dim() - 1``.
        dim1: the dimension to exchange it with.
        kernel: "auto" (on CPU tensors: ATen), or a name of ``smem.kernels("transpose")``; on CPU
            tensors the named kernel itself runs on the CPU.
        out: the tensor for the result; its shape must fit. It may overlap ``x``. Not with
            gradients.

    Raises:
        RuntimeError: a dimension is out of range, or ``out`` does not fit.
        ValueError, TypeError: unknown kernel; the text lists the valid ones.
        TypeError: ``x`` or ``out`` is not a tensor, or a dimension is not an integer.
        torch.OutOfMemoryError: no memory for the result.
    """
    try:
        if kernel == "auto" and out is None and not is_dynamo_compiling():
            result = _transpose_call.plain(x, dim0, dim1)
            if result is not NotImplemented:
                return result
        kernel_ = kernel_code("transpose", kernel)
        if out is not None:
            refuse_grad_with_out("transpose", x)
            torch.ops.smem.transpose.out(x, dim0, dim1, kernel_, out=out)
            return out
        if kernel_ == AUTO and x.is_cpu:
            check_transpose(x, dim0, dim1)
            return _aten.transpose(x, dim0, dim1)
        return _transpose(x, dim0, dim1, kernel_)
    except WRONG_TYPE as error:
        dims = {"dim0": dim0, "dim1": dim1}
        check_after("transpose", error, required={"x": x}, optional={"out": out}, dims=dims)
        raise


def _describe(
    x: Tensor, dim0: int = -2, dim1: int = -1, kernel_id: int = 0
) -> tuple[list[int], torch.dtype]:
    return check_transpose(x, dim0, dim1), x.dtype


def _setup(ctx: Any, inputs: tuple, output: Tensor) -> None:
    ctx.arguments = inputs[1:]


def _backward(ctx: Any, grad: Tensor) -> tuple:
    return _transpose(grad, *ctx.arguments), None, None, None


def _jvp(op: Op, output: Tensor, args: tuple, tangents: tuple) -> Tensor:
    return op(tangents[0], *args[1:])


def _vmap(
    op: Op, info: Any, in_dims: tuple, x: Tensor, dim0: int = -2, dim1: int = -1, kernel_id: int = 0
) -> tuple[Tensor, int]:
    x = x.movedim(in_dims[0], 0)
    rank = x.dim() - 1
    if rank == 0:
        return x.clone(), 0
    return op(x, dim0 % rank + 1, dim1 % rank + 1, kernel_id), 0


_transpose, _transpose_call = define(
    "transpose",
    describe=_describe,
    cpu=_aten.transpose,
    vmap=_vmap,
    setup=_setup,
    backward=_backward,
    jvp=_jvp,
)
