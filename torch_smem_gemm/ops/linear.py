"""smem.linear: activation(x @ weight.T + bias)."""

from typing import Any

import torch
from torch import Tensor

from torch_smem_gemm.ops import _aten
from torch_smem_gemm.ops._checks import check_codes, check_linear
from torch_smem_gemm.ops._codes import activation_code, precision_code, resolved
from torch_smem_gemm.ops._dispatch import Op, autocast, define, needs_grad
from torch_smem_gemm.ops.gemm import product_over_rows
from torch_smem_gemm.ops.sum import sum_to_shape


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
        torch.OutOfMemoryError: no memory for the result.
    """
    activation_ = activation_code("linear", activation)
    precision_ = precision_code("linear", precision)
    x, weight, bias = autocast(x, weight, bias)
    if x.is_cpu:
        check_linear(x, weight, bias, out_dtype)
        return _aten.linear(x, weight, bias, activation_, out_dtype=out_dtype)
    precision_ = resolved(precision_, x.dtype)
    if activation_ and needs_grad(x, weight, bias):
        # The gradient needs what the activation was applied to.
        return _aten.activate(_linear(x, weight, bias, 0, precision_, out_dtype), activation_)
    return _linear(x, weight, bias, activation_, precision_, out_dtype)


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


def _setup(ctx: Any, inputs: tuple, output: Tensor) -> None:
    x, weight, bias, activation, precision, _ = inputs
    ctx.save_for_backward(x, weight, bias if activation else None)
    ctx.bias_shape = None if bias is None else bias.shape
    ctx.numbers = activation, precision


def _backward(ctx: Any, grad: Tensor) -> tuple:
    x, weight, bias = ctx.saved_tensors
    activation, precision = ctx.numbers
    needs = ctx.needs_input_grad
    if activation:
        # Only direct calls of the op come here; linear() applies the activation outside.
        z = _linear(x, weight, bias, 0, precision, None)
        grad = _aten.activation_gradient(grad, z.to(grad.dtype), activation)
    narrow = grad.to(x.dtype)  # from the result's dtype
    return (
        _linear(narrow, weight.mT, None, 0, precision, None) if needs[0] else None,
        product_over_rows(narrow, x, precision=precision) if needs[1] else None,
        sum_to_shape(grad, ctx.bias_shape).to(x.dtype) if needs[2] else None,
        *(None,) * 3,
    )


def _jvp(op: Op, output: Tensor, args: tuple, tangents: tuple) -> Tensor:
    x, weight, bias, activation, *choices = args
    tangent_x, tangent_weight, tangent_bias, *_ = tangents
    tangent = torch.zeros_like(output)
    if tangent_x is not None:
        tangent = tangent + op(tangent_x, weight, None, 0, *choices)
    if tangent_weight is not None:
        tangent = tangent + op(x, tangent_weight, None, 0, *choices)
    if tangent_bias is not None:
        tangent = tangent + tangent_bias
    if activation:
        z = op(x, weight, bias, 0, *choices)
        tangent = _aten.activation_gradient(tangent, z, activation)
    return tangent


def _vmap(
    op: Op,
    info: Any,
    in_dims: tuple,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    activation: int = 0,
    precision: int = 0,
    out_dtype: torch.dtype | None = None,
) -> tuple[Tensor, int]:
    dim_x, dim_weight, dim_bias = (*in_dims, None, None)[:3]
    x = x.movedim(dim_x, 0) if dim_x is not None else x.expand(info.batch_size, *x.shape)
    if dim_weight is None and dim_bias is None:
        return op(x, weight, bias, activation, precision, out_dtype), 0

    def mapped(tensor: Tensor, dim: int | None, extra: int) -> Tensor:
        """Put the mapped dimension first and ``extra`` dimensions of size 1 after it."""
        lead = 1 if dim is None else tensor.shape[dim]
        tensor = tensor if dim is None else tensor.movedim(dim, 0)
        rest = tensor.shape if dim is None else tensor.shape[1:]
        return tensor.reshape(lead, *(1,) * extra, *rest)

    rows = x.unsqueeze(-2) if x.dim() == 2 else x
    y = torch.ops.smem.gemm(
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
    return y.squeeze(-2) if x.dim() == 2 else y, 0


_linear = define(
    "linear",
    describe=_describe,
    cpu=_aten.linear,
    vmap=_vmap,
    setup=_setup,
    backward=_backward,
    jvp=_jvp,
)
