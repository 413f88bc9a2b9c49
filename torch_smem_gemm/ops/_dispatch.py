"""From an op's Python function to its kernels: gradients, transforms, compilation.

There are three paths to the same C++ function, and each call takes the cheapest one that is correct
for it (host times on torch 2.13, one 1x1 call on the CPU). ``_C.OpCall`` decides, in C++:

- nothing to differentiate: the bare op ``smem::_name`` (1.7 us);
- eager gradients: the bare op in a classic autograd.Function (8 us; through an op with
  register_autograd it takes 10, and every call without gradients 3 us more);
- torch.compile, torch.func, forward mode, dispatch modes and direct calls: the public op
  ``smem::name``, whose Autograd kernel does the same (register_autograd's refuses to work under
  torch.func). Modes see that name too: policies and formulas refer to it.
"""

import functools
import importlib
import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._C._functorch import TransformType
from torch._functorch.autograd_function import enable_single_level_autograd_function
from torch.autograd import forward_ad
from torch.autograd.function import _SingleLevelFunction
from torch.compiler import is_dynamo_compiling

from torch_smem_gemm import _C
from torch_smem_gemm._C import OpCall
from torch_smem_gemm.ops._checks import check_out

Op = Callable[..., Any]  # returns a tensor, or a tuple of them
Describe = Callable[..., Any]  # returns (shape, dtype), or a list of such pairs
Setup = Callable[[Any, tuple, Any], None]
Backward = Callable[..., tuple]
Jvp = Callable[..., Any]


def define(
    name: str,
    *,
    describe: Describe,
    cpu: Op,
    vmap: Callable[..., tuple],
    setup: Setup,
    backward: Backward,
    jvp: Jvp,
    differentiable: Callable[[tuple], Op | None] = lambda args: None,
    cast: Callable[[Tensor, torch.dtype], Tensor] | None = None,
    tf32_defaults: tuple | None = None,
) -> tuple[Op, OpCall]:
    """Register the Python rules of ``smem::name`` and ``smem::_name``; return what to call.

    The function that is returned first also works while torch.compile traces it. The OpCall does
    not, which saves time; `_C.pyi` describes it.

    Args:
        name: for example "gemm"; C++ has defined the schemas and the kernels for CUDA tensors.
        describe: checks the op's arguments and returns the result's shape and dtype, or those of
            each result of an op that has several (and no ``.out``).
        cpu: computes the op on CPU tensors if no kernel is named.
        vmap: ``vmap(op, info, in_dims, *args)``, the vmap rule of ``op``.
        setup: ``setup(ctx, inputs, output)`` saves what ``backward`` needs.
        backward: ``backward(ctx, grad)`` returns one gradient per input, by differentiable calls.
            ``ctx.needs_input_grad`` may lack trailing inputs, which need none.
        jvp: ``jvp(op, output, args, tangents)`` returns the output's tangent by differentiable
            calls, of ``op`` if possible; ``tangents`` has None for an argument without a tangent.
        differentiable: ``differentiable(args)`` returns the function to differentiate instead of
            the op, or None if the op's results suffice for ``backward`` and ``jvp``. Without
            options it must return None.
        cast: for OpCall: ``cast(tensor, dtype)`` casts an argument as autocast does.
        tf32_defaults: for OpCall: the defaults of all arguments, but with tf32 as the precision.

    torch calls Python kernels without trailing arguments that equal their defaults, so
    ``describe``, ``cpu`` and ``vmap`` have the schema's defaults. The other rules get all
    arguments. Both results may also be called without trailing defaults, which takes less time.
    """
    public, bare = (getattr(torch.ops.smem, prefix + name) for prefix in ("", "_"))
    arguments = bare.default._schema.arguments
    recover = recovery(bare.default, describe)
    public_call = asking_torch_for_memory(public.default, describe)
    defaults = tuple(argument.default_value for argument in arguments)
    names = [argument.name for argument in arguments]
    kernel_at = names.index("kernel_id") if "kernel_id" in names else len(names)
    # The tensors come first, so only they are checked for gradients: each check takes 0.1 us.
    tensors = sum("Tensor" in str(argument.type) for argument in arguments)
    assert all("Tensor" in str(argument.type) for argument in arguments[:tensors])

    def on_cpu(*args: Any) -> Tensor:
        if len(args) > kernel_at and args[kernel_at]:
            try:
                return bare.default(*args)
            except RuntimeError as error:
                return recover(error, *args)
        return cpu(*args)

    def below_autograd(*args: Any) -> Tensor:
        # A Function's forward disables gradients and forward mode, but the outer levels of
        # torch.func, to which this call continues, need both.
        with (
            torch._C._AutoDispatchBelowAutograd(),
            torch.enable_grad(),
            forward_ad._set_fwd_grad_enabled(True),
        ):
            return public_call(*args)

    # OpOverload itself is a Python function around _op.
    op_call = OpCall(
        tensors,
        bare.default._op,
        public.default,
        on_cpu,
        recover,
        setup,
        cast,
        defaults,
        tf32_defaults,
    )
    apply = _function(name, torch.autograd.Function, op_call.forward, backward)
    apply_single_level = _function(
        name,
        _SingleLevelFunction,
        _saving_for_jvp(below_autograd, setup),
        backward,
        functools.partial(jvp, public.default),
    )

    def differentiate(*args: Any) -> Tensor:
        return (differentiable(args) or apply)(*args)

    op_call.differentiate_by(differentiate, apply)

    def on_autograd(*args: Any) -> Tensor:
        args += defaults[len(args) :]
        # torch.func runs an Autograd kernel once per level. A single-level Function is made for
        # that; autograd.Function's apply would dispatch to torch.func again.
        with enable_single_level_autograd_function():
            if (_in_forward_mode() and _has_tangent(args[:tensors])) or _needs_grad(args[:tensors]):
                return (differentiable(args) or apply_single_level)(*args)
            return below_autograd(*args)

    torch.library.impl(f"smem::{name}", "Autograd", on_autograd)
    # torch's own kernel there would ask every tensor for gradients, in 0.3 us.
    torch.library.impl(f"smem::_{name}", "Autograd", torch.library.fallthrough_kernel)
    _register_rules(name, defaults, describe, on_cpu, vmap)

    def call(*args: Any) -> Tensor:
        return public.default(*args) if is_dynamo_compiling() else op_call(*args)

    return call, op_call


def _saving_for_jvp(op: Op, setup: Setup) -> Op:
    """Return the forward of a Function with forward mode."""

    def forward(ctx: Any, *args: Any) -> Tensor:
        output = op(*args)
        setup(ctx, args, output)
        if _in_forward_mode():
            ctx.has_one_output = isinstance(output, Tensor)
            outputs = (output,) if ctx.has_one_output else output
            ctx.save_for_forward(*outputs, *(x if isinstance(x, Tensor) else None for x in args))
            ctx.options = tuple(None if isinstance(x, Tensor) else x for x in args)
        return output

    return forward


def _function(name: str, base: Any, forward: Op, backward: Backward, jvp: Jvp | None = None) -> Op:
    """Return ``apply`` of an autograd Function of type ``base``.

    Without a ``jvp`` it must not be called in forward mode.
    """
    # Created by type() so that it has the op's name, which grad_fn and anomaly mode show.
    rules: dict[str, Any] = {
        "forward": staticmethod(forward),
        "backward": staticmethod(backward),
        # From autograd.Function; compiled autograd also calls it on a single-level Function.
        "_compiled_autograd_key": staticmethod(torch.autograd.Function._compiled_autograd_key),
    }
    if jvp is not None:
        rules["jvp"] = staticmethod(_jvp_of_primals(jvp))
    title = "".join(part.capitalize() for part in name.split("_"))
    function = type(base)(f"Smem{title}", (base,), rules)

    # autograd.Function.apply checks for torch.func's transforms first, which takes 4 us of 12.
    # Calls under transforms do not reach this path, so the check is skipped.
    return super(torch.autograd.Function, function).apply if jvp is None else function.apply


def _jvp_of_primals(jvp: Jvp) -> Callable[..., Any]:
    """Return a Function's rule that calls ``jvp(output, args, tangents)``."""

    def rule(ctx: Any, *tangents: Tensor | None) -> Any:
        outputs = len(ctx.saved_tensors) - len(ctx.options)
        tensors = ctx.saved_tensors[outputs:]
        output = ctx.saved_tensors[0] if ctx.has_one_output else ctx.saved_tensors[:outputs]
        if ctx.has_one_output and not (output.is_floating_point() or output.is_complex()):
            return None
        # The saved tensors carry this level's tangents: a call on them would differentiate again.
        primals = tuple(
            option if x is None else forward_ad.unpack_dual(x, level=0).primal
            for x, option in zip(tensors, ctx.options, strict=True)
        )
        with forward_ad._set_fwd_grad_enabled(True):  # for the outer levels of torch.func
            return jvp(output, primals, tangents)

    return rule


def _register_rules(
    name: str, defaults: tuple, describe: Describe, on_cpu: Op, vmap: Callable[..., tuple]
) -> None:
    """Register the fake, vmap and CPU rules of ``smem::name`` and ``smem::_name``."""
    packet = getattr(torch.ops.smem, name)

    def check_args_and_out(*args: Any, out: Tensor) -> None:
        shape, dtype = describe(*args)
        check_out(name, out, shape, dtype, args[0].device)

    def checked_on_cpu(*args: Any) -> Tensor:
        describe(*args)
        return on_cpu(*args, *defaults[len(args) :])

    def on_cpu_out(*args: Any, out: Tensor) -> None:
        check_args_and_out(*args, out=out)
        out.copy_(checked_on_cpu(*args))

    def checked_vmap(op: Op, info: Any, in_dims: tuple, *args: Any) -> tuple:
        describe(*map(_one_entry, args, in_dims))
        return vmap(op, info, in_dims, *args)

    for op in (name, f"_{name}"):
        register_fake(op, describe)
        if "out" in packet.overloads():
            torch.library.register_fake(f"smem::{op}.out", check_args_and_out)
        # Each rule calls its own op: only the public one continues to autograd.
        rule = functools.partial(checked_vmap, getattr(torch.ops.smem, op).default)
        torch.library.register_vmap(f"smem::{op}", rule)
    torch.library.impl(f"smem::{name}", "CPU", checked_on_cpu)
    if "out" in packet.overloads():
        torch.library.impl(f"smem::{name}.out", "CPU", on_cpu_out)


def _one_entry(value: Any, mapped: int | None) -> Any:
    """Return what a call under vmap sees of an argument: a tensor without its mapped dimension."""
    if mapped is None or not isinstance(value, Tensor):
        return value
    if value.shape[mapped] > 0:
        return value.select(mapped, 0)
    return value.new_empty((*value.shape[:mapped], *value.shape[mapped + 1 :]))


def register_fake(op: str, describe: Describe) -> None:
    """Register the fake form of ``smem::op``: uninitialised results of the described shapes."""

    def fake(*args: Any) -> Any:
        described = describe(*args)
        if isinstance(described, list):
            return tuple(args[0].new_empty(shape, dtype=dtype) for shape, dtype in described)
        shape, dtype = described
        return args[0].new_empty(shape, dtype=dtype)

    torch.library.register_fake(f"smem::{op}", fake)


def asking_torch_for_memory(op: Op, describe: Describe) -> Op:
    """Return ``op`` with the recovery of `recovery`."""
    recover = recovery(op, describe)

    def call(*args: Any) -> Any:
        try:
            return op(*args)
        except RuntimeError as error:
            return recover(error, *args)

    return call


def recovery(op: Op, describe: Describe) -> Callable[..., Any]:
    """Return ``recover(error, *args)``, which calls ``op`` again if that helps against its error.

    If its results do not fit in memory, torch allocates them first: the op allocates its results
    itself, which is faster, but only torch's allocator raises torch.OutOfMemoryError. The error
    that the first DTensor causes is also handled here.
    """

    def recover(error: RuntimeError, *args: Any) -> Any:
        if isinstance(error, NotImplementedError):
            if not _learn_dtensor():
                raise error
            return op(*args)
        raise_interruption(error)
        if not _lacks_memory(error):
            raise error
        described = describe(*args)
        results = described if isinstance(described, list) else [described]
        held = [torch.empty(*size, dtype=t, device=args[0].device) for *size, t in results]
        del held  # the memory is available now
        try:
            return op(*args)
        except RuntimeError as again:
            if _lacks_memory(again):  # for the op's workspace
                raise torch.OutOfMemoryError(str(again)) from None
            raise

    return recover


def raise_interruption(error: RuntimeError) -> None:
    """Raise the exception of a signal handler, if ``error`` says that it interrupted a kernel.

    Ctrl-C's handler raises KeyboardInterrupt. C++ cannot throw it through torch's dispatcher.
    """
    if str(error).startswith("cpu_emulator: interrupted"):
        interruption = _C.take_interruption()
        if interruption is not None:
            raise interruption from None


def _lacks_memory(error: RuntimeError) -> bool:
    return str(error).startswith("smem.") and ": out of memory" in str(error)


def _learn_dtensor() -> bool:
    """Register the sharding rules at the first DTensor; return False if they are registered.

    They are not registered earlier because importing torch.distributed.tensor is slow.
    """
    rules = "torch_smem_gemm.distributed"
    if rules in sys.modules or "torch.distributed.tensor" not in sys.modules:
        return False
    importlib.import_module(rules)
    return True


def _in_forward_mode() -> bool:
    """Whether tensors may have forward-mode tangents at this level of torch.func."""
    if torch._C._are_functorch_transforms_active():  # compiled code does not enter a dual_level
        return torch._C._functorch.peek_interpreter_stack().key() == TransformType.Jvp
    return forward_ad._current_level >= 0


def _needs_grad(tensors: Sequence[Tensor | None]) -> bool:
    if torch.is_grad_enabled():
        for tensor in tensors:
            if tensor is not None and isinstance(tensor, Tensor) and tensor.requires_grad:
                return True
    return False


def _has_tangent(tensors: Sequence[Tensor | None]) -> bool:
    return any(
        x is not None and forward_ad.unpack_dual(x, level=0).tangent is not None for x in tensors
    )


def refuse_grad_with_out(op: str, *tensors: Tensor | None) -> None:
    """Raise, as torch does, if ``out=`` is given and an argument requires grad."""
    if _needs_grad(tensors):
        raise RuntimeError(
            f"smem.{op}: out=... does not support automatic differentiation, "
            "but one of the arguments requires grad"
        )
