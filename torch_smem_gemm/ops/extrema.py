"""smem.amax and smem.amin: the largest and the smallest element over dimensions."""

from typing import Any

from torch import Tensor

from torch_smem_gemm.ops import _aten
from torch_smem_gemm.ops._checks import check_reduction
from torch_smem_gemm.ops._dispatch import Op
from torch_smem_gemm.ops._reduction import Dims, define_reduction, with_reduced_dims
from torch_smem_gemm.ops.sum import sum as smem_sum


def amax(
    x: Tensor,
    dim: Dims = None,
    keepdim: bool = False,
    *,
    kernel: str = "auto",
    out: Tensor | None = None,
) -> Tensor:
    """Return the largest elements of ``x`` over ``dim``, with torch.amax's semantics.

    NaN where there is one. Differentiable to any order; elements that tie share the gradient.

    Args:
        x: any shape and strides; float64, float32, float16, bfloat16, int64, int32, int16, int8,
            uint8 or bool.
        dim: a dimension or several; None and () mean all.
        keepdim: keep the reduced dimensions with size 1.
        kernel: "auto" (on CPU tensors: ATen), or a name of ``smem.kernels("sum")`` that takes any
            operator; on CPU tensors the named kernel itself runs on the CPU.
        out: the tensor for the result; its shape and dtype must fit. It may overlap ``x``.
            Not with gradients.

    Raises:
        RuntimeError: a dimension is out of range, repeated or empty, or ``out`` does not fit.
        ValueError, TypeError: unknown kernel; the text lists the valid ones.
        torch.OutOfMemoryError: no memory for the result.
    """
    return _amax(x, dim, keepdim, kernel, out)


def amin(
    x: Tensor,
    dim: Dims = None,
    keepdim: bool = False,
    *,
    kernel: str = "auto",
    out: Tensor | None = None,
) -> Tensor:
    """Return the smallest elements of ``x`` over ``dim``, with torch.amin's semantics.

    Everything else is as for ``smem.amax``.
    """
    return _amin(x, dim, keepdim, kernel, out)


def _backward(ctx: Any, grad: Tensor) -> tuple:
    x, output = ctx.saved_tensors
    ties = x == with_reduced_dims(ctx, output)
    count = smem_sum(ties, ctx.reduced, keepdim=True) if ctx.reduced else ties
    return with_reduced_dims(ctx, grad) * ties / count, None, None, None


def _jvp(op: Op, output: Tensor, args: tuple, tangents: tuple) -> Tensor:
    x, dim, keepdim, _ = args
    ties = x == output.reshape(check_reduction("amax", x, dim, keepdim=True))
    return smem_sum(tangents[0] * ties, dim, keepdim) / smem_sum(ties, dim, keepdim)


_amax, _amin = (
    define_reduction(name, cpu=cpu, backward=_backward, jvp=_jvp, save_result=True)[0]
    for name, cpu in (("amax", _aten.amax), ("amin", _aten.amin))
)
