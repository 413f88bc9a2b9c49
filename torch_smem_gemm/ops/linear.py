"""smem.linear: activation(x @ weight.T + bias)."""

from typing import Any

import torch
from torch import Tensor
from torch.compiler import is_dynamo_compiling

from torch_smem_gemm.ops import _aten
from torch_smem_gemm.ops._activation import (
    Batched,
    define_with_activation,
    gradient_and_bias_gradient,
)
from torch_smem_gemm.ops._arguments import WRONG_TYPE, check_after, check_dtype
from torch_smem_gemm.ops._autocast import autocast
from torch_smem_gemm.ops._checks import check_linear
from torch_smem_gemm.ops._codes import activation_code, precision_code, resolved
from torch_smem_gemm.ops._schema import arguments_type
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
        TypeError: an argument that is not a tensor or dtype where one is expected.
        torch.OutOfMemoryError: no memory for the result, or for what the kernel works in.
    """
    try:
        is_plain = activation is None and out_dtype is None and precision is None
        if is_plain and not is_dynamo_compiling():
            result = _linear_call.plain(x, weight, bias)
            if result is not NotImplemented:
                return result
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


def _check(given: Any) -> tuple[list[int], torch.dtype]:
    return check_linear(given.x, given.weight, given.bias, given.out_dtype)


def _save(ctx: Any, inputs: tuple, z: Tensor) -> None:
    x, weight, _, activation, precision, _ = inputs
    ctx.save_for_backward(x, weight, z if activation else None)
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


def _batch(info: Any, in_dims: Any, given: Any) -> Batched:
    x, weight, bias = given.x, given.weight, given.bias
    x = x.movedim(in_dims.x, 0) if in_dims.x is not None else x.expand(info.batch_size, *x.shape)
    if in_dims.weight is None and in_dims.bias is None:
        return "linear", given._replace(x=x), lambda y: y

    def mapped(tensor: Tensor, dim: int | None, extra: int) -> Tensor:
        """Put the mapped dimension first and ``extra`` dimensions of size 1 after it."""
        lead = 1 if dim is None else tensor.shape[dim]
        tensor = tensor if dim is None else tensor.movedim(dim, 0)
        tail = tensor.shape if dim is None else tensor.shape[1:]
        return tensor.reshape(lead, *(1,) * extra, *tail)

    rows = x.unsqueeze(-2) if x.dim() == 2 else x
    arguments = arguments_type("gemm")(
        a=rows,
        b=mapped(weight, in_dims.weight, rows.dim() - 3).mT,
        c=None if bias is None else mapped(bias, in_dims.bias, rows.dim() - 2),
        beta=0.0 if bias is None else 1.0,
        activation=given.activation,
        precision=given.precision,
        out_dtype=given.out_dtype,
    )
    return "gemm", arguments, lambda y: y.squeeze(-2) if x.dim() == 2 else y


_linear, _linear_call = define_with_activation(
    "linear", check=_check, cpu=_aten.linear, save=_save, backward=_backward, batch=_batch
)
