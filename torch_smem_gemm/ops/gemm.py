"""smem.gemm: activation(alpha * a @ b + beta * c + bias)."""

import math
from collections.abc import Sequence
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
from torch_smem_gemm.ops._arguments import WRONG_TYPE, check_after, check_dtype, real_number
from torch_smem_gemm.ops._autocast import autocast
from torch_smem_gemm.ops._checks import GEMM_DTYPES, check_gemm, check_split
from torch_smem_gemm.ops._codes import (
    AUTO,
    activation_code,
    kernel_code,
    kernel_for_any_k,
    precision_code,
    resolved,
)
from torch_smem_gemm.ops._dispatch import refuse_grad_with_out, register_fake
from torch_smem_gemm.ops._summed_product import summed_product, wide_dtype
from torch_smem_gemm.ops.sum import sum_to_shape


def gemm(
    a: Tensor,
    b: Tensor,
    *,
    bias: Tensor | None = None,
    activation: str | None = None,
    c: Tensor | None = None,
    alpha: float = 1.0,
    beta: float | None = None,
    out_dtype: torch.dtype | None = None,
    precision: str | None = None,
    kernel: str = "auto",
    out: Tensor | None = None,
) -> Tensor:
    """Return ``activation(alpha * a @ b + beta * c + bias)``.

    Differentiable to any order in a, b, bias and c.

    Args:
        a: (..., M, K); float64, float32, float16 or bfloat16, any strides.
        b: (..., K, N), dtype and device of ``a``; batch dimensions broadcast as in torch.matmul.
        bias: (N,), added to every row.
        activation: None, "relu", "gelu", "gelu_tanh" or "silu", by torch.nn.functional's formulas.
        c: broadcasts to the result's shape; not read where ``beta`` is 0. Its dtype may be the
            inputs' or the result's.
        alpha: factor of the product.
        beta: factor of ``c``; None is 1 where there is a ``c``, as in torch.addmm, and 0 where
            there is none. (``torch.ops.smem.gemm`` has 0.)
        out_dtype: None for the inputs' dtype. torch.float32 with float16 or bfloat16 inputs keeps
            the float32 sums as they are, as torch.mm's does.
        precision: the least precision of float32 products, forward and backward; other dtypes have
            one precision. "fp32": float32's error, by the fastest kernel; docs/accuracy.md has the
            bound that holds on every input. "ieee": every product and sum is an IEEE FMA. "tf32":
            factors of 10 bits. None is "tf32" if torch's setting allows it
            (torch.backends.cuda.matmul.fp32_precision, read at the call), else "fp32".
        kernel: "auto" (on CPU tensors: ATen), or a name of ``smem.kernels("gemm")``; on CPU tensors
            the named kernel itself runs on the CPU, if ``smem.kernels`` says that it is
            ``emulated``.
        out: the tensor for the result; its shape must fit. It may overlap the inputs. Not with
            gradients.

    Returns:
        (..., M, N), dtype of ``a`` or ``out_dtype``, contiguous, or ``out``. float16 and bfloat16
        are summed in float32 and rounded once, at the end.

    Raises:
        RuntimeError: shapes, dtypes or devices do not fit, or the named kernel cannot take the
            problem; the text names the argument, what was expected and what came.
        ValueError, TypeError: unknown activation, precision or kernel; the text lists the valid.
        TypeError: an argument that is not a tensor, real number or dtype where one is expected.
        torch.OutOfMemoryError: no memory for the result, or for what the kernel works in.
    """
    try:
        is_plain = (
            (bias is None and c is None and out is None)
            and (activation is None and out_dtype is None and precision is None)
            and kernel == "auto"
            and alpha == 1
            and (beta is None or beta == 0)
        )
        if is_plain and not is_dynamo_compiling():
            result = _gemm_call.plain(a, b)
            if result is not NotImplemented:
                return result
        if is_plain and _has_matrices_for_aten(a, b):
            # ATen's own checks take less time.
            try:
                return torch.mm(a, b)
            except RuntimeError:
                check_gemm(a, b, None, None, 0.0)
                raise
        alpha = real_number("gemm", "alpha", alpha)
        beta = beta_or_default(beta, c)
        check_dtype("gemm", "out_dtype", out_dtype)
        activation_ = activation_code("gemm", activation)
        precision_ = precision_code("gemm", precision)
        kernel_ = kernel_code("gemm", kernel)
        if out is not None:
            refuse_grad_with_out("gemm", a, b, bias, c)
            precision_ = resolved(precision_, a.dtype)
            torch.ops.smem.gemm.out(
                a, b, bias, c, alpha, beta, activation_, precision_, kernel_, out_dtype, out=out
            )
            return out
        if out_dtype is None:
            a, b, bias, c = autocast(a, b, bias, c)
        else:  # c may stay as wide as the result
            a, b, bias = autocast(a, b, bias)
        if kernel_ == AUTO and a.is_cpu:
            check_gemm(a, b, bias, c, beta, out_dtype)
            return _aten.gemm(a, b, bias, c, alpha, beta, activation_, out_dtype=out_dtype)
        precision_ = resolved(precision_, a.dtype)
        return _gemm(a, b, bias, c, alpha, beta, activation_, precision_, kernel_, out_dtype)
    except WRONG_TYPE as error:
        optional = {"bias": bias, "c": c, "out": out}
        check_after("gemm", error, required={"a": a, "b": b}, optional=optional)
        real_number("gemm", "alpha", alpha)
        beta_or_default(beta, c)
        raise


def _has_matrices_for_aten(a: Tensor, b: Tensor) -> bool:
    """Whether torch.mm of these tensors has the result of the op."""
    # With b on the meta device it would return memory that nothing has written.
    on_cpu = a.is_cpu and b.is_cpu
    return on_cpu and a.dim() == b.dim() == 2 and a.dtype == b.dtype and a.dtype in GEMM_DTYPES


def beta_or_default(beta: float | None, c: Tensor | None) -> float:
    """Return the factor of ``c``; TypeError where ``beta`` is no real number."""
    if beta is None:
        return 0.0 if c is None else 1.0
    return real_number("gemm", "beta", beta)


def _check(given: Any) -> tuple[list[int], torch.dtype]:
    return check_gemm(given.a, given.b, given.bias, given.c, given.beta, given.out_dtype)


def _save(ctx: Any, inputs: tuple, z: Tensor) -> None:
    a, b, _, c, alpha, beta, activation, precision, kernel, _ = inputs
    ctx.save_for_backward(a, b, z if activation else None)
    ctx.c_like = None if c is None else (c.shape, c.dtype)
    ctx.numbers = alpha, beta, activation, precision, kernel


def _backward(ctx: Any, grad: Tensor | None, grad_z: Tensor | None = None) -> tuple:
    if grad is None and grad_z is None:
        return (None,) * 10
    a, b, z = ctx.saved_tensors
    alpha, beta, activation, precision, kernel = ctx.numbers
    needs = (*ctx.needs_input_grad, False, False)
    dz, grad_bias = gradient_and_bias_gradient(
        grad, grad_z, z, activation, needs_bias=needs[2], by_kernel=kernel != AUTO
    )
    narrow = dz.to(a.dtype)  # from the result's dtype
    choices = alpha, precision, kernel_for_any_k(kernel)
    return (
        product_summed_to(a.shape, narrow, b.mT, *choices) if needs[0] else None,
        _grad_b(narrow, a, b, *choices) if needs[1] else None,
        None if grad_bias is None else grad_bias.to(a.dtype),
        _grad_c(dz, beta, *ctx.c_like) if needs[3] else None,
        *(None,) * 6,
    )


def _grad_c(grad: Tensor, beta: float, shape: torch.Size, dtype: torch.dtype) -> Tensor:
    if beta == 0:
        return grad.new_zeros(shape, dtype=dtype)
    if beta == 1:
        return sum_to_shape(grad, shape).to(dtype)
    # Rounded only after the multiplication.
    return (sum_to_shape(grad, shape, wide_dtype(grad)) * beta).to(dtype)


def product_summed_to(
    shape: Sequence[int],
    x: Tensor,
    y: Tensor,
    alpha: float = 1.0,
    precision: int = 0,
    kernel: int = AUTO,
) -> Tensor:
    """Return alpha * x @ y summed down to ``shape`` over batch dimensions, rounded once."""

    def multiply(x: Tensor, y: Tensor, out_dtype: torch.dtype | None) -> Tensor:
        return _gemm(x, y, None, None, alpha, 0.0, 0, precision, kernel, out_dtype)

    return summed_product(multiply, x, y, shape)


def product_over_rows(
    x: Tensor, y: Tensor, alpha: float = 1.0, precision: int = 0, kernel: int = AUTO
) -> Tensor:
    """Return alpha * x.mT @ y summed over the batch, which both have: one product of all rows."""
    # Faster than product_summed_to in most cases. A DTensor cannot be flattened. reshape is used
    # because batched gradients have no rule for flatten.
    if x.is_contiguous() and y.is_contiguous() and not hasattr(x, "placements"):
        x, y = (z.reshape(math.prod(z.shape[:-1]), z.shape[-1]) for z in (x, y))
    return product_summed_to((x.shape[-1], y.shape[-1]), x.mT, y, alpha, precision, kernel)


def _grad_b(grad: Tensor, a: Tensor, b: Tensor, *choices: Any) -> Tensor:
    if b.dim() == 2:
        return product_over_rows(a, grad, *choices)
    return product_summed_to(b.shape, a.mT, grad, *choices)


def _batch(info: Any, in_dims: Any, given: Any) -> Batched:
    a, b, bias, c, beta = given.a, given.b, given.bias, given.c, given.beta
    rank = max(
        tensor.dim() - (dim is not None)
        for tensor, dim in ((a, in_dims.a), (b, in_dims.b), (c, in_dims.c))
        if tensor is not None
    )

    def lead(tensor: Tensor, dim: int | None) -> Tensor:
        """Put the mapped dimension first, before all batch dimensions of any operand."""
        if dim is None:
            return tensor
        tensor = tensor.movedim(dim, 0)
        return tensor.reshape(tensor.shape[0], *(1,) * (rank + 1 - tensor.dim()), *tensor.shape[1:])

    a, b, c = lead(a, in_dims.a), lead(b, in_dims.b), None if c is None else lead(c, in_dims.c)
    if in_dims.a is None and in_dims.b is None:
        # Only the addends are mapped: give the product the mapped dimension they broadcast over.
        a = a.expand(info.batch_size, *(1,) * (rank - a.dim()), *a.shape)
    batched = given._replace(a=a, b=b, bias=bias, c=c)
    if bias is None or in_dims.bias is None:
        return "gemm", batched, lambda y: y
    # A bias per entry becomes a row of c per entry.
    addend = lead(bias, in_dims.bias)
    if c is None or beta == 0:
        return "gemm", batched._replace(bias=None, c=addend, beta=1.0), lambda y: y
    # Their sum stays as wide as the result's, which is rounded once.
    wide = wide_dtype(a)
    addend = beta * c.to(wide) + addend
    batched = batched._replace(bias=None, c=addend, beta=1.0, out_dtype=given.out_dtype or wide)
    return "gemm", batched, lambda y: y if given.out_dtype else y.to(a.dtype)


_gemm, _gemm_call = define_with_activation(
    "gemm", check=_check, cpu=_aten.gemm, save=_save, backward=_backward, batch=_batch
)


def _describe_split(
    x: Tensor, lines_last: bool = False, part_length: int = 0
) -> list[tuple[Any, torch.dtype]]:
    """Describe the split of each row, or column with ``lines_last``; see csrc/gemm/fp16x3/split.h.

    The results are k blocks of 32 fp16 hi values and their lo values, then per row the scale
    exponent, the status, and the position and value of the outlier; with ``part_length``, per slice
    of K.
    """
    check_split(x, part_length)
    *of_lines, length = (x.mT if lines_last else x).shape
    if part_length > 0:
        of_lines.insert(-1, -(-length // part_length))
        length = part_length
    return [
        ([*of_lines, -(-length // 32), 2, 32], torch.float16),
        (of_lines, torch.int32),
        (of_lines, torch.uint8),
        (of_lines, torch.int64),
        (of_lines, torch.float32),
    ]


register_fake("_split", _describe_split)
