"""smem.linear: activation(x @ weight.T + bias)."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from torch_smem_gemm.ops import _aten
from torch_smem_gemm.ops._activation import (
    gradient_and_bias_gradient,
    needs_preactivation,
    rules_of_both_forms,
)
from torch_smem_gemm.ops._arguments import WRONG_TYPE, check_after, check_dtype
from torch_smem_gemm.ops._autocast import autocast
from torch_smem_gemm.ops._checks import check_codes, check_linear
from torch_smem_gemm.ops._codes import activation_code, precision_code, resolved
from torch_smem_gemm.ops._dispatch import Op, define
from torch_smem_gemm.ops.gemm import product_over_rows


def linear(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    activation: str | None = None,
    out_dtype: torch.dtype | None = None,
    precision: str | None = None,
) -> Tensor:
    """Return ``activation(x @ weight.T + bias)``, as torch.nn.functional.linear.

    Differentiable to any order in x, weight and bias.

    Args:
        x: (..., in_features); float64, float32, float16 or bfloat16, any strides.
        weight: (out_features, in_features), dtype and device of ``x``.
        bias: (out_features,).
        activation: None, "relu", "gelu", "gelu_tanh" or "silu".
        out_dtype: as for ``smem.gemm``: None, or torch.float32 with float16 or bfloat16 inputs.
        precision: as for ``smem.gemm``.

    Returns:
        (..., out_features), dtype of ``x`` or ``out_dtype``, contiguous.

    Raises:
        RuntimeError: shapes, dtypes or devices do not fit.
        ValueError, TypeError: unknown activation or precision; the text lists the valid ones.
        TypeError: an argument that is no tensor or dtype where one is expected.
        torch.OutOfMemoryError: no memory for the result, or for what the kernel works in.
    """
    try:
        is_plain = activation is None and out_dtype is None and precision is None
        if is_plain and not x.is_cpu:
            x, weight, bias = autocast(x, weight, bias)
            precision_ = resolved(0, x.dtype)
            return (
                _linear(x, weight, bias, 0, precision_) if precision_ else _linear(x, weight, bias)
            )
        activation_ = activation_code("linear", activation)
        precision_ = precision_code("linear", precision)
        check_dtype("linear", "out_dtype", out_dtype)
        by_aten = x.is_cpu and out_dtype is None and x.dtype == weight.dtype
        if not (by_aten and (bias is None or x.dtype == bias.dtype)):  # else ATen casts
            x, weight, bias = autocast(x, weight, bias)
        if x.is_cpu:
            check_linear(x, weight, bias, out_dtype)
            return _aten.linear(x, weight, bias, activation_, out_dtype=out_dtype)
        precision_ = resolved(precision_, x.dtype)
        return _linear(x, weight, bias, activation_, precision_, out_dtype)
    except WRONG_TYPE as error:
        required = {"x": x, "weight": weight}
        check_after("linear", error, required=required, optional={"bias": bias})
        raise


def _describe(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    activation: int = 0,
    precision: int = 0,
    out_dtype: torch.dtype | None = None,
) -> tuple[list[int], torch.dtype]:
    check_codes("linear", activation, precision)
    return check_linear(x, weight, bias, out_dtype)


def _save(ctx: Any, inputs: tuple, z: Tensor | None) -> None:
    x, weight, _, activation, precision, _ = inputs
    ctx.save_for_backward(x, weight, z)
    ctx.numbers = activation, precision


def _backward(ctx: Any, grad: Tensor | None, grad_z: Tensor | None = None) -> tuple:
    if grad is None and grad_z is None:
        return (None,) * 6
    x, weight, z = ctx.saved_tensors
    activation, precision = ctx.numbers
    needs = ctx.needs_input_grad
    dz, grad_bias = gradient_and_bias_gradient(
        grad, grad_z, z, activation, needs_bias=needs[2], by_kernel=False
    )
    narrow = dz.to(x.dtype)  # from the result's dtype
    return (
        _linear(narrow, weight.mT, None, 0, precision, None) if needs[0] else None,
        _grad_weight(narrow, x, precision) if needs[1] else None,
        None if grad_bias is None else grad_bias.to(x.dtype),
        *(None,) * 3,
    )


def _grad_weight(grad: Tensor, x: Tensor, precision: int) -> Tensor:
    if x.dim() == 1:
        grad, x = grad.unsqueeze(0), x.unsqueeze(0)
    return product_over_rows(grad, x, precision=precision)


def _tangent_before_activation(output: Tensor, args: tuple, tangents: tuple) -> Tensor:
    x, weight, _, _, *choices = args
    tangent_x, tangent_weight, tangent_bias, *_ = tangents
    op = torch.ops.smem.linear.default
    tangent = torch.zeros_like(output)
    if tangent_x is not None:
        tangent = tangent + op(tangent_x, weight, None, 0, *choices)
    if tangent_weight is not None:
        tangent = tangent + op(x, tangent_weight, None, 0, *choices)
    if tangent_bias is not None:
        tangent = tangent + tangent_bias
    return tangent


_RULES, _RULES_WITH_PREACTIVATION = rules_of_both_forms(
    describe=_describe, save=_save, tangent=_tangent_before_activation, activation_at=3
)


def _vmap(op: Op, info: Any, in_dims: tuple, *args: Any) -> tuple[Tensor, int]:
    call, unmap = _mapped(op, torch.ops.smem.gemm.default, info, in_dims, *args)
    return unmap(call()), 0


def _vmap_with_preactivation(
    op: Op, info: Any, in_dims: tuple, *args: Any
) -> tuple[tuple[Tensor, Tensor], tuple[int, int]]:
    gemm = torch.ops.smem.gemm_with_preactivation.default
    call, unmap = _mapped(op, gemm, info, in_dims, *args)
    y, z = call()
    return (unmap(y), unmap(z)), (0, 0)


def _mapped(
    op: Op,
    gemm: Op,
    info: Any,
    in_dims: tuple,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    activation: int = 0,
    precision: int = 0,
    out_dtype: torch.dtype | None = None,
) -> tuple[Callable[[], Any], Callable[[Tensor], Tensor]]:
    """One call of ``op``, or of ``gemm``, for all members, and what is still to do to a result."""
    dim_x, dim_weight, dim_bias = (*in_dims, None, None)[:3]
    x = x.movedim(dim_x, 0) if dim_x is not None else x.expand(info.batch_size, *x.shape)
    if dim_weight is None and dim_bias is None:
        return lambda: op(x, weight, bias, activation, precision, out_dtype), lambda y: y

    def mapped(tensor: Tensor, dim: int | None, extra: int) -> Tensor:
        """Put the mapped dimension first and ``extra`` dimensions of size 1 after it."""
        lead = 1 if dim is None else tensor.shape[dim]
        tensor = tensor if dim is None else tensor.movedim(dim, 0)
        rest = tensor.shape if dim is None else tensor.shape[1:]
        return tensor.reshape(lead, *(1,) * extra, *rest)

    rows = x.unsqueeze(-2) if x.dim() == 2 else x
    args = (
        rows,
        mapped(weight, dim_weight, rows.dim() - 3).mT,
        None,
        None if bias is None else mapped(bias, dim_bias, rows.dim() - 2),
        1.0,
        0.0 if bias is None else 1.0,
        activation,
        precision,
        0,
        out_dtype,
    )
    return lambda: gemm(*args), lambda y: y.squeeze(-2) if x.dim() == 2 else y


_linear_with_preactivation = define(
    "linear_with_preactivation",
    cpu=_aten.linear_with_preactivation,
    vmap=_vmap_with_preactivation,
    backward=_backward,
    **_RULES_WITH_PREACTIVATION,
)


def _first_of_both(*args: Any) -> Tensor:
    return _linear_with_preactivation(*args)[0]


_linear = define(
    "linear",
    cpu=_aten.linear,
    vmap=_vmap,
    backward=_backward,
    differentiable=lambda args: _first_of_both if needs_preactivation(args[3]) else None,
    **_RULES,
)
