"""The common part of sum, mean, amax and amin: call, shapes, vmap rule, saved state."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.compiler import is_dynamo_compiling

from torch_smem_gemm.ops._arguments import WRONG_TYPE, check_after, check_dtype, dims_of
from torch_smem_gemm.ops._checks import check_reduction, reduced_dims, reduction_dtype
from torch_smem_gemm.ops._codes import AUTO, kernel_code
from torch_smem_gemm.ops._dispatch import Describe, Op, define, refuse_grad_with_out

Dims = int | Sequence[int] | None


def define_reduction(
    name: str,
    *,
    cpu: Op,
    backward: Callable,
    jvp: Callable[..., Tensor],
    save_result: bool = False,
    autocast_dtype: Callable[[Tensor], torch.dtype | None] = lambda x: None,
) -> tuple[Callable[..., Tensor], Op]:
    """Define ``smem::name``; return ``call(x, dim, keepdim, kernel, out, *dtype)``, and the op.

    Only sum and mean take ``dtype``; under autocast it is ``autocast_dtype(x)`` if it is not given.
    The op itself has no rule for autocast. The context of ``backward`` has the ``shape`` and
    ``dtype`` of the input, the ``reduced`` dimensions and ``keepdim``; with ``save_result`` it has
    saved the input and the result.
    """

    def setup(ctx: Any, inputs: tuple, output: Tensor) -> None:
        x, dim, keepdim, *_ = inputs
        ctx.shape, ctx.dtype, ctx.keepdim = x.shape, x.dtype, keepdim
        ctx.reduced = reduced_dims(name, x, dim)
        if save_result:
            ctx.save_for_backward(x, output)

    def vmap(
        op: Op,
        info: Any,
        in_dims: tuple,
        x: Tensor,
        dim: Sequence[int] | None = None,
        keepdim: bool = False,
        *rest: Any,
    ) -> tuple[Tensor, int]:
        x = x.movedim(in_dims[0], 0)
        reduced = [d + 1 for d in reduced_dims(name, x[0], dim)]
        if not reduced:  # a batch of scalars; an empty dim would mean all dimensions
            return x.to(reduction_dtype(name, x, _dtype_of(name, rest)), copy=True), 0
        return op(x, reduced, keepdim, *rest), 0

    op, op_call = define(
        name,
        describe=_describe(name),
        cpu=cpu,
        vmap=vmap,
        setup=setup,
        backward=backward,
        jvp=jvp,
    )

    def call(
        x: Tensor,
        dim: Dims,
        keepdim: bool,
        kernel: str,
        out: Tensor | None,
        *dtype: torch.dtype | None,
    ) -> Tensor:
        try:
            dims = dims_of(dim)
            is_plain = kernel == "auto" and out is None and dtype in ((), (None,))
            if is_plain and not is_dynamo_compiling():
                result = op_call.plain(x, dims, keepdim)
                if result is not NotImplemented:
                    return result
            if dtype == (None,) and out is None and isinstance(x, Tensor):
                dtype = (autocast_dtype(x),)
            kernel_ = kernel_code(name, kernel)
            check_dtype(name, "dtype", _dtype_of(name, dtype))
            if out is not None:
                refuse_grad_with_out(name, x)
                getattr(torch.ops.smem, name).out(x, dims, keepdim, *dtype, kernel_, out=out)
                return out
            if kernel_ == AUTO and x.is_cpu:
                check_reduction(name, x, dims, keepdim, *dtype)
                return cpu(x, dims, keepdim, *dtype)
            return op(x, dims, keepdim, *dtype, kernel_)
        except WRONG_TYPE as error:
            check_after(name, error, required={"x": x}, optional={"out": out}, dims={"dim": dim})
            raise

    return call, op


def _dtype_of(name: str, rest: tuple) -> torch.dtype | None:
    """Return the dtype among the arguments after ``keepdim``; trailing ones may be missing."""
    return rest[0] if rest and name in ("sum", "mean") else None


def _describe(name: str) -> Describe:
    def describe(
        x: Tensor, dim: Sequence[int] | None = None, keepdim: bool = False, *rest: Any
    ) -> tuple[list[int], torch.dtype]:
        dtype = _dtype_of(name, rest)
        return check_reduction(name, x, dim, keepdim, dtype), reduction_dtype(name, x, dtype)

    return describe


def with_reduced_dims(ctx: Any, reduced: Tensor) -> Tensor:
    """Return a result, or its gradient, with the reduced dimensions as if by ``keepdim``."""
    if not ctx.keepdim:
        for d in sorted(ctx.reduced):
            reduced = reduced.unsqueeze(d)
    return reduced
