"""The rules that gemm and linear share: differentiation through the activation, vmap, forward mode.

Both ops have a form ``..._with_preactivation`` that also returns the pre-activation, the tensor to
which the activation is applied: the derivatives of all activations but relu need it.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from torch_smem_gemm.ops import _aten
from torch_smem_gemm.ops._autocast import cast_eagerly
from torch_smem_gemm.ops._checks import check_activation_backward, check_codes
from torch_smem_gemm.ops._codes import ACTIVATIONS, PRECISIONS
from torch_smem_gemm.ops._dispatch import Op, OpCall, asking_torch_for_memory, define, register_fake
from torch_smem_gemm.ops._schema import arguments_type
from torch_smem_gemm.ops.sum import sum_to_shape

_RELU = ACTIVATIONS["relu"]

# The op to call for all entries of a vmap, its arguments, and what remains to do to each result.
Batched = tuple[str, tuple, Callable[[Tensor], Tensor]]


def define_with_activation(
    name: str,
    *,
    check: Callable[[Any], tuple[list[int], torch.dtype]],
    cpu: Op,
    save: Callable[[Any, tuple, Tensor], None],
    backward: Callable[..., tuple],
    batch: Callable[[Any, Any, Any], Batched],
) -> tuple[Op, OpCall]:
    """Define ``smem::name`` and ``smem::name_with_preactivation``; return what calls the first.

    Args:
        name: "gemm" or "linear".
        check: ``check(arguments)`` checks the named arguments and returns the result's shape and
            dtype.
        cpu: serves CPU tensors where no kernel is named.
        save: ``save(ctx, inputs, z)`` saves what the backward needs; z is the pre-activation, or
            the result, which suffices for relu. Without activation it need not be saved.
        backward: ``backward(ctx, grad, grad_z)`` returns one gradient per input.
        batch: ``batch(info, in_dims, arguments)`` expresses a vmap as one call, ``in_dims`` and
            ``arguments`` by name; all results have the mapped dimension first.
    """
    arguments = arguments_type(name)
    fields = arguments._fields
    activation_at = fields.index("activation")
    product = getattr(torch.ops.smem, name).default
    tf32_defaults = tuple(arguments(None, None, precision=PRECISIONS["tf32"]))
    no_addends: dict[str, Any] = {"bias": None, "activation": 0}
    if "c" in fields:
        no_addends |= {"c": None, "beta": 0.0}

    def describe(*args: Any) -> tuple[list[int], torch.dtype]:
        given = arguments(*args)
        check_codes(name, given.activation, given.precision)
        return check(given)

    def describe_both(*args: Any) -> list[tuple[list[int], torch.dtype]]:
        shape, dtype = describe(*args)
        return [(shape, dtype), (shape, args[0].dtype)]

    def setup_both(ctx: Any, inputs: tuple, outputs: tuple[Tensor, Tensor]) -> None:
        # An output is saved, so that it can be differentiated again. Missing gradients stay None.
        save(ctx, inputs, outputs[1])
        ctx.set_materialize_grads(False)

    def tangent(output: Tensor, args: tuple, tangents: tuple) -> Tensor:
        """Return the tangent of the pre-activation."""
        primal, tangent = arguments(*args), arguments(*tangents)
        operands = primal._replace(**no_addends)
        total = torch.zeros_like(output)
        for field in fields[:2]:
            if getattr(tangent, field) is not None:
                factors = operands._replace(**{field: getattr(tangent, field)})
                total = total + product(*factors)
        if tangent.bias is not None:
            total = total + tangent.bias
        if "c" in fields and tangent.c is not None and primal.beta != 0:
            total = total + primal.beta * tangent.c
        return total

    def jvp(op: Op, output: Tensor, args: tuple, tangents: tuple) -> Tensor:
        before = tangent(output, args, tangents)
        # The activation is None or relu. The slope of relu has no derivative, so the output is
        # detached: its tangent would keep the output alive.
        return _aten.activation_gradient(before, output.detach(), args[activation_at])

    def jvp_both(
        op: Op, outputs: tuple[Tensor, Tensor], args: tuple, tangents: tuple
    ) -> tuple[Tensor, Tensor]:
        y, z = outputs
        before = tangent(y, args, tangents)
        through = _aten.activation_gradient(before, z.to(y.dtype), args[activation_at])
        return through, before.to(z.dtype)

    def call_batched(
        op: Op, suffix: str, info: Any, in_dims: tuple, args: tuple
    ) -> tuple[Any, Callable[[Tensor], Tensor]]:
        target, batched, finish = batch(info, arguments(*in_dims), arguments(*args))
        if target != name:
            op = getattr(torch.ops.smem, target + suffix).default
        return op(*batched), finish

    def vmap(op: Op, info: Any, in_dims: tuple, *args: Any) -> tuple[Tensor, int]:
        y, finish = call_batched(op, "", info, in_dims, args)
        return finish(y), 0

    def vmap_both(
        op: Op, info: Any, in_dims: tuple, *args: Any
    ) -> tuple[tuple[Tensor, Tensor], tuple[int, int]]:
        (y, z), finish = call_batched(op, "_with_preactivation", info, in_dims, args)
        return (finish(y), finish(z)), (0, 0)

    both, _ = define(
        f"{name}_with_preactivation",
        describe=describe_both,
        cpu=_aten.with_preactivation(cpu, activation_at),
        vmap=vmap_both,
        setup=setup_both,
        backward=backward,
        jvp=jvp_both,
    )

    def first_of_both(*args: Any) -> Tensor:
        return both(*args)[0]

    return define(
        name,
        describe=describe,
        cpu=cpu,
        vmap=vmap,
        setup=save,
        backward=backward,
        jvp=jvp,
        differentiable=lambda args: None if args[activation_at] in (0, _RELU) else first_of_both,
        cast=cast_eagerly,
        tf32_defaults=tf32_defaults,
    )


def gradient_and_bias_gradient(
    grad: Tensor | None,
    grad_z: Tensor | None,
    z: Tensor | None,
    activation: int,
    *,
    needs_bias: bool,
    by_kernel: bool,
) -> tuple[Tensor, Tensor | None]:
    """Return the gradient of z = ... + bias, and the bias's gradient if ``needs_bias``.

    Args:
        grad: gradient of activation(z), or None.
        grad_z: gradient of z as an output of its own, or None.
        z: the pre-activation, or relu's result; None if there is no activation.
        activation: its code.
        needs_bias: whether to compute the gradient of the bias, which is (z.shape[-1],).
        by_kernel: whether CPU tensors also go to a kernel.
    """
    if grad is None:
        assert grad_z is not None
        dz = grad_z
    elif not activation or z is None:
        dz = grad if grad_z is None else grad + grad_z
    else:
        grad = grad.to(z.dtype)  # from the result's dtype
        if needs_bias and grad_z is None and _goes_to_the_kernel(grad, by_kernel):
            return _fused(grad, z, activation)
        dz = _aten.activation_gradient(grad, z, activation)
        dz = dz if grad_z is None else dz + grad_z
    return dz, sum_to_shape(dz, dz.shape[-1:]) if needs_bias else None


def _goes_to_the_kernel(grad: Tensor, by_kernel: bool) -> bool:
    """Whether the fused kernel for both gradients applies; it cannot be differentiated again."""
    return (
        (grad.is_cuda or (by_kernel and grad.is_cpu))
        and not torch.is_grad_enabled()
        and not torch._C._are_functorch_transforms_active()
        and forward_ad._current_level < 0
        and not hasattr(grad, "placements")  # a DTensor
    )


def _describe(grad: Tensor, z: Tensor, activation: int) -> list[tuple[Any, torch.dtype]]:
    check_activation_backward(grad, z, activation)
    return [(z.shape, z.dtype), (z.shape[-1:], z.dtype)]


register_fake("_activation_backward", _describe)
_fused = asking_torch_for_memory(torch.ops.smem._activation_backward.default, _describe)
