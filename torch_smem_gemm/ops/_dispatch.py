"""From an op's Python function to its kernels: gradients, transforms, compilation.

There are three ways to the same C++ function, and each call takes the cheapest that is right for it
(host times on torch 2.13, one 1x1 call on the CPU):

- nothing to differentiate: the bare op ``smem::_name`` (1.7 us);
- eager gradients: the bare op in a classic autograd.Function (5 us; through an op with
  register_autograd it takes 10, and every call without gradients 3 us more);
- torch.compile, torch.func and direct calls: the public op ``smem::name``, whose Autograd kernel
  does the same (register_autograd's refuses to work under torch.func).
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._functorch.autograd_function import enable_single_level_autograd_function
from torch.autograd.function import _SingleLevelFunction

from torch_smem_gemm.ops._checks import check_out

Op = Callable[..., Tensor]
Setup = Callable[[Any, tuple, Any], None]
Backward = Callable[..., tuple]


def _is_out_of_memory(error: RuntimeError) -> bool:
    return str(error).startswith("smem.") and ": out of memory" in str(error)


def differentiable(
    name: str, raw: Callable[..., Tensor], setup: Setup, backward: Backward
) -> Callable[..., Tensor]:
    """Give the public op its gradient, and return a function that calls ``raw`` with the same.

    ``setup(ctx, inputs, output)`` saves what ``backward(ctx, grad)`` needs; ``backward`` gives one
    gradient an input and must itself be made of differentiable calls.
    """
    public = getattr(torch.ops.smem, name).default
    arguments = public._schema.arguments

    def below_autograd(*args: Any) -> Tensor:
        with torch._C._AutoDispatchBelowAutograd():
            return public(*args)

    def function(base: type, forward: Callable[..., Tensor]) -> Callable[..., Tensor]:
        class Function(base):
            @staticmethod
            def forward(ctx: Any, *args: Any) -> Tensor:
                output = forward(*args)
                setup(ctx, args, output)
                return output

            @staticmethod
            def backward(ctx: Any, grad: Tensor) -> tuple:
                return backward(ctx, grad)

        Function.__name__ = f"Smem{name.capitalize()}"  # what grad_fn shows

        def call(*args: Any) -> Tensor:
            if torch.is_grad_enabled():
                for arg in args:
                    if isinstance(arg, Tensor) and arg.requires_grad:
                        return Function.apply(*args)
            return forward(*args)

        return call

    single_level = function(_SingleLevelFunction, below_autograd)

    def on_autograd(*args: Any) -> Tensor:
        # torch.func runs an Autograd kernel once a level of its own: a Function of a single level
        # is meant for that, where autograd.Function's apply would ask torch.func again.
        with enable_single_level_autograd_function():
            return single_level(*with_defaults(arguments, args))

    torch.library.impl(f"smem::{name}", "Autograd", on_autograd)
    eager = function(torch.autograd.Function, raw)

    def call(*args: Any) -> Tensor:
        if torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active():
            return public(*args)
        return eager(*args)

    return call


def with_defaults(arguments: Sequence[Any], args: tuple) -> tuple:
    """Add the trailing arguments that a Python kernel is not given: those with their defaults."""
    return (*args, *(argument.default_value for argument in arguments[len(args) :]))


def needs_grad(*tensors: Tensor | None) -> bool:
    """Whether a call on these tensors is to be differentiated."""
    if torch._C._are_functorch_transforms_active():
        return True
    return torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors)


def refuse_grad_with_out(op: str, *tensors: Tensor | None) -> None:
    """Raise, as torch does, where ``out=`` is given for a call that is to be differentiated."""
    if torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors):
        raise RuntimeError(
            f"smem.{op}: out=... does not support automatic differentiation, "
            "but one of the arguments requires grad"
        )


def autocast(*tensors: Tensor | None) -> tuple[Tensor | None, ...]:
    """Cast float tensors as autocast casts torch.matmul's; float64 and integers stay."""
    device = tensors[0].device.type
    if not torch.is_autocast_enabled(device):
        return tensors
    dtype = torch.get_autocast_dtype(device)
    return tuple(
        t.to(dtype) if t is not None and t.is_floating_point() and t.dtype != torch.float64 else t
        for t in tensors
    )


def register(
    name: str,
    describe: Callable[..., tuple[Sequence[int], torch.dtype]],
    cpu: Callable[..., Tensor],
    vmap: Callable[..., tuple],
) -> Callable[..., Tensor]:
    """Register an op's fake, vmap and CPU rules; return the function that calls it bare.

    ``describe(*args)`` checks the arguments and gives the result's shape and dtype; ``cpu(*args)``
    serves CPU tensors where no kernel is named; ``vmap(op, info, in_dims, *args)`` is the vmap rule
    of ``op``. Python kernels are called without trailing arguments that have their defaults, so
    all need the schema's.
    """
    packet = getattr(torch.ops.smem, f"_{name}")
    op, op_out = packet.default, packet.out
    arguments = op._schema.arguments
    has_kernel = arguments[-1].name == "kernel"

    def raw(*args: Any) -> Tensor:
        if args[0].is_cpu and not (has_kernel and args[-1]):
            return cpu(*args)
        try:
            return op(*args)
        except RuntimeError as error:
            if not _is_out_of_memory(error):
                raise
        # The op allocates its result itself, which is faster, but only torch's own error for
        # lacking memory is a torch.OutOfMemoryError: so now torch is asked.
        shape, dtype = describe(*args)
        out = torch.empty(shape, dtype=dtype, device=args[0].device)
        op_out(*args, out=out)
        return out

    def fake(*args: Any) -> Tensor:
        shape, dtype = describe(*args)
        return args[0].new_empty(shape, dtype=dtype)

    def check_args_and_out(*args: Any, out: Tensor) -> None:
        shape, dtype = describe(*args)
        check_out(name, out, shape, dtype, args[0].device)

    def on_cpu(*args: Any) -> Tensor:
        describe(*args)
        return raw(*with_defaults(arguments, args))

    def on_cpu_out(*args: Any, out: Tensor) -> None:
        check_args_and_out(*args, out=out)
        out.copy_(on_cpu(*args))

    for public in (name, f"_{name}"):
        torch.library.register_fake(f"smem::{public}", fake)
        torch.library.register_fake(f"smem::{public}.out", check_args_and_out)
    # Each rule calls on its own op: only the public one goes on to autograd.
    public_op = getattr(torch.ops.smem, name).default
    torch.library.register_vmap(f"smem::{name}", functools.partial(vmap, public_op))
    torch.library.register_vmap(f"smem::_{name}", functools.partial(vmap, op))
    torch.library.impl(f"smem::{name}", "CPU", on_cpu)
    torch.library.impl(f"smem::{name}.out", "CPU", on_cpu_out)
    return raw
