"""Reductions of the mode: sums by smem.sum, and what is made of sums.

Maxima, minima, and softmax and the norms of torch.nn.functional stay torch's: each row has the same
bits in any batch (measured over sizes, see docs/reproducibility.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from torch_smem_gemm.invariance.forms import Kernel, with_out
from torch_smem_gemm.ops._checks import reduced_dims
from torch_smem_gemm.ops._dispatch import asking_torch_for_memory

Dims = Sequence[int] | int | None

# Rows that are wider than this are read by torch's softmax in vectors of 16 bytes.
_WIDE_ROW = 1024
_VECTOR_BYTES = 16


def _op(name: str) -> Any:
    # The forms below Autograd: torch differentiates these operators by its own formulas.
    from torch_smem_gemm.ops._checks import check_reduction, reduction_dtype

    def describe(x: Tensor, dim: Any, keepdim: bool, dtype: Any) -> tuple[Any, torch.dtype]:
        return check_reduction(name, x, dim, keepdim, dtype), reduction_dtype(name, x, dtype)

    return asking_torch_for_memory(getattr(torch.ops.smem, f"_{name}").default._op, describe)


_smem_sum, _smem_mean = _op("sum"), _op("mean")


def _is_exact(x: Tensor, dtype: torch.dtype | None) -> bool:
    """Whether a sum in ``dtype`` is one of integers, which has no order."""
    wanted = dtype or x.dtype
    return not (wanted.is_floating_point or wanted.is_complex)


def _list(dim: Dims) -> list[int] | None:
    return None if dim is None else [dim] if isinstance(dim, int) else list(dim)


def _additive(name: str) -> Kernel:
    """Return torch.sum, torch.mean or torch.nansum, in an order that depends on the sizes alone."""
    add = _smem_mean if name == "mean" else _smem_sum

    def kernel(
        torchs: Kernel,
        x: Tensor,
        dim: Dims = None,
        keepdim: bool = False,
        *,
        dtype: torch.dtype | None = None,
    ) -> Tensor:
        if _is_exact(x, dtype):
            return torchs(x, dim, keepdim, dtype=dtype)
        x = torch.where(x.isnan(), 0, x) if name == "nansum" else x
        return add(x, _list(dim), keepdim, dtype)

    return kernel


sum, _mean, _nansum = (_additive(name) for name in ("sum", "mean", "nansum"))


def _variance(
    x: Tensor, dim: Dims, correction: float | None, keepdim: bool
) -> tuple[Tensor, Tensor]:
    """Return the variance and the mean, both in at least float32."""
    if x.is_complex():
        raise NotImplementedError(
            "smem.batch_invariant: aten::var has no batch-invariant kernel for complex numbers"
        )
    wide = x.to(_wide(x.dtype))
    dims = reduced_dims("var", x, _list(dim))
    mean = _smem_mean(wide, dims, True, None) if dims else wide
    squares = (wide - mean).square_()
    total = _smem_sum(squares, dims, keepdim, None) if dims else squares
    count = math.prod(x.shape[d] for d in dims)
    left = max(count - (1 if correction is None else correction), 0)
    return total / left, mean if keepdim or not dims else mean.reshape(total.shape)


def _moments(*, root: bool, and_mean: bool) -> Kernel:
    """Return torch.var, std, var_mean or std_mean, by two sums."""

    def kernel(
        torchs: Kernel,
        x: Tensor,
        dim: Dims = None,
        *,
        correction: float | None = None,
        keepdim: bool = False,
    ) -> Any:
        variance, mean = _variance(x, dim, correction, keepdim)
        spread = (variance.sqrt_() if root else variance).to(x.dtype)
        return (spread, mean.to(x.dtype)) if and_mean else spread

    return kernel


_var, _std = (_moments(root=root, and_mean=False) for root in (False, True))


def vector_norm(
    torchs: Kernel,
    x: Tensor,
    ord: float = 2,
    dim: Dims = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """torch.linalg.vector_norm, by a sum of powers; the maximum norm stays torch's."""
    if math.isinf(ord) or not x.numel():
        return torchs(x, ord, dim, keepdim, dtype=dtype)
    magnitude = x.abs()
    result_dtype = magnitude.dtype if dtype is None else dtype.to_real()
    magnitude = magnitude.to(_wide(result_dtype))
    if ord == 0:
        powers = (magnitude != 0).to(magnitude.dtype)
    elif ord == 1:
        powers = magnitude
    else:
        powers = magnitude.square() if ord == 2 else magnitude.pow(ord)
    total = _smem_sum(powers, _list(dim), keepdim, None)
    if ord not in (0, 1):
        total = total.sqrt() if ord == 2 else total.pow(1 / ord)
    return total.to(result_dtype)


def prod(
    torchs: Kernel,
    x: Tensor,
    dim: int,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """torch.prod, one factor after the other."""
    if _is_exact(x, dtype) or not x.numel():
        return torchs(x, dim, keepdim, dtype=dtype)
    x = x if dtype is None else x.to(dtype)
    if x.dim() == 0:
        return x.clone()
    last = _columns(x.to(_wide(x.dtype)), dim)
    result = torch.cumprod(last, 0)[-1, : last.shape[1] - _PADDING]
    others = [size for d, size in enumerate(x.shape) if d != dim % x.dim()]
    result = result.reshape(others).to(x.dtype)
    return result.unsqueeze(dim) if keepdim else result


def prod_of_all(torchs: Kernel, x: Tensor, *, dtype: torch.dtype | None = None) -> Tensor:
    """torch.prod over all dimensions."""
    if _is_exact(x, dtype) or not x.numel():
        return torchs(x, dtype=dtype)
    return prod(torchs, x.reshape(-1), 0, dtype=dtype)


def _scan(name: str) -> Kernel:
    def scan(torchs: Kernel, x: Tensor, dim: int, *, dtype: torch.dtype | None = None) -> Tensor:
        if _is_exact(x, dtype) or x.dim() == 0 or not x.numel():
            return torchs(x, dim, dtype=dtype)
        x = x if dtype is None else x.to(dtype)
        columns = _columns(x.to(_wide(x.dtype)), dim)
        scanned = torchs(columns, 0)[:, : columns.shape[1] - _PADDING]
        scanned = scanned.reshape(x.movedim(dim, 0).shape).movedim(0, dim)
        return scanned.to(x.dtype).contiguous()

    scan.__name__ = name
    return scan


# torch scans columns one element after the other, in one thread each, unless there is only one.
_PADDING = 1


def _columns(x: Tensor, dim: int) -> Tensor:
    """Return ``x`` with ``dim`` first and the others as columns, and a column of padding."""
    moved = x.movedim(dim, 0)
    columns = moved.reshape(len(moved), -1)
    return torch.nn.functional.pad(columns, (0, _PADDING))


def softmax(torchs: Kernel, x: Tensor, dim: int, half_to_float: bool) -> Tensor:
    """torch.softmax and log_softmax: torch's kernel, which depends on how rows are aligned.

    Wide rows in 16 bits are read in vectors from the first address that is a multiple of 16 bytes,
    and so added in an order that depends on the row's position. In float32 they are not.
    """
    row_bytes = x.shape[dim] * x.element_size() if x.dim() else 0
    is_wide = x.dim() > 0 and x.shape[dim] > _WIDE_ROW and x.element_size() < 4
    if not is_wide or not (row_bytes % _VECTOR_BYTES or x.data_ptr() % _VECTOR_BYTES):
        return torchs(x, dim, half_to_float)
    result = torchs(x.float(), dim, False)
    return result if half_to_float else result.to(x.dtype)


def softmax_backward(
    torchs: Kernel, grad: Tensor, output: Tensor, dim: int, input_dtype: torch.dtype
) -> Tensor:
    """The gradient of softmax: output * (grad - sum(output * grad))."""
    if not output.numel() or not output.dim():
        return torchs(grad, output, dim, input_dtype)
    wide = _wide(grad.dtype)
    grad, output = grad.to(wide), output.to(wide)
    total = _smem_sum(grad * output, [dim], True, None)
    return (output * (grad - total)).to(input_dtype)


def log_softmax_backward(
    torchs: Kernel, grad: Tensor, output: Tensor, dim: int, input_dtype: torch.dtype
) -> Tensor:
    """The gradient of log_softmax: grad - exp(output) * sum(grad)."""
    if not output.numel() or not output.dim():
        return torchs(grad, output, dim, input_dtype)
    wide = _wide(grad.dtype)
    grad = grad.to(wide)
    total = _smem_sum(grad, [dim], True, None)
    return (grad - output.to(wide).exp() * total).to(input_dtype)


def _wide(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype in which torch accumulates."""
    return torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype


_cumsum, _cumprod = _scan("cumsum"), _scan("cumprod")

KERNELS: dict[str, Kernel] = {
    "sum.dim_IntList": sum,
    "sum.IntList_out": with_out(sum),
    "mean.dim": _mean,
    "mean.out": with_out(_mean),
    "nansum": _nansum,
    "nansum.out": with_out(_nansum),
    "var.correction": _var,
    "var.correction_out": with_out(_var),
    "std.correction": _std,
    "std.correction_out": with_out(_std),
    "var_mean.correction": _moments(root=False, and_mean=True),
    "std_mean.correction": _moments(root=True, and_mean=True),
    "linalg_vector_norm": vector_norm,
    "linalg_vector_norm.out": with_out(vector_norm),
    "prod": prod_of_all,
    "prod.dim_int": prod,
    "prod.int_out": with_out(prod),
    "cumsum": _cumsum,
    "cumsum.out": with_out(_cumsum),
    "cumprod": _cumprod,
    "cumprod.out": with_out(_cumprod),
    "_softmax": softmax,
    "_log_softmax": softmax,
    "_softmax_backward_data": softmax_backward,
    "_log_softmax_backward_data": log_softmax_backward,
}
