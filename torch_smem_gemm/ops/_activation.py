"""What gemm and linear share of differentiating through their activation."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from torch_smem_gemm.ops import _aten
from torch_smem_gemm.ops._checks import check_activation_backward
from torch_smem_gemm.ops._codes import ACTIVATIONS
from torch_smem_gemm.ops._dispatch import Op, asking_torch_for_memory, register_fake
from torch_smem_gemm.ops.sum import sum_to_shape

_RELU = ACTIVATIONS["relu"]


def needs_preactivation(activation: int) -> bool:
    """Whether the derivative takes what the activation is applied to; relu's takes the result."""
    return activation not in (0, _RELU)


def rules_of_both_forms(
    *, describe: Callable, save: Callable, tangent: Callable, activation_at: int
) -> tuple[dict[str, Callable], dict[str, Callable]]:
    """Return rules for ``define``: of an op, and of its form ``..._with_preactivation``.

    Args:
        describe: the op's rule.
        save: ``save(ctx, inputs, z)`` saves what the backward needs; z is what the activation is
            applied to, or relu's result, or None.
        tangent: ``tangent(output, args, tangents)`` gives the tangent before the activation.
        activation_at: place of its code among the arguments.
    """

    def setup(ctx: Any, inputs: tuple, output: Tensor) -> None:
        save(ctx, inputs, output if inputs[activation_at] else None)  # relu: the result says enough

    def jvp(op: Op, output: Tensor, args: tuple, tangents: tuple) -> Tensor:
        before = tangent(output, args, tangents)
        # None, or relu, whose slope has no derivative: with one the tangent would keep its own
        # tensor.
        return _aten.activation_gradient(before, output.detach(), args[activation_at])

    def describe_both(*args: Any) -> list[tuple[list[int], torch.dtype]]:
        shape, dtype = describe(*args)
        return [(shape, dtype), (shape, args[0].dtype)]

    def setup_both(ctx: Any, inputs: tuple, outputs: tuple[Tensor, Tensor]) -> None:
        # An output, so that it is differentiated in its turn. What has no gradient stays without.
        save(ctx, inputs, outputs[1])
        ctx.set_materialize_grads(False)

    def jvp_both(
        op: Op, outputs: tuple[Tensor, Tensor], args: tuple, tangents: tuple
    ) -> tuple[Tensor, Tensor]:
        y, z = outputs
        before = tangent(y, args, tangents)
        through = _aten.activation_gradient(before, z.to(y.dtype), args[activation_at])
        return through, before.to(z.dtype)

    return (
        {"describe": describe, "setup": setup, "jvp": jvp},
        {"describe": describe_both, "setup": setup_both, "jvp": jvp_both},
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
    """Return the gradient of z = ... + bias, and that of the bias where it ``needs_bias``.

    Args:
        grad: gradient of activation(z), or None.
        grad_z: gradient that z has beside, or None.
        z: what the activation is applied to, or relu's result; None where there is no activation.
        activation: its code.
        needs_bias: the bias is (z.shape[-1],).
        by_kernel: CPU tensors, too, go to a kernel.
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
    """Whether the one kernel for both gradients may serve; it cannot be differentiated again."""
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
