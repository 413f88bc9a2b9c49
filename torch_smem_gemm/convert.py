"""Turn the linear layers of an existing model into this package's, and back, in place."""

from __future__ import annotations

import functools
import logging
import sys
import warnings
from collections.abc import Callable
from typing import Any

import torch

from torch_smem_gemm._kernels import kernels
from torch_smem_gemm.nn import Linear
from torch_smem_gemm.ops._arguments import check_bool
from torch_smem_gemm.ops._checks import GEMM_DTYPES
from torch_smem_gemm.ops._codes import precision_code
from torch_smem_gemm.split_cache import release

logger = logging.getLogger(__name__)

_Classes = dict[type[torch.nn.Module], type[torch.nn.Module]]


class Converted(list[str]):
    """The names that :func:`convert` replaced, in the order of ``model.named_modules()``.

    Attributes:
        skipped: name of each module like a Linear that was left as it was, and why.
    """

    def __init__(self) -> None:
        super().__init__()
        self.skipped: dict[str, str] = {}


def convert(
    model: torch.nn.Module,
    *,
    filter: Callable[[str, torch.nn.Module], bool] | None = None,
    precision: str | None = None,
    cache_split: bool | None = None,
) -> Converted:
    """Convert every plain ``torch.nn.Linear`` of ``model`` to :class:`torch_smem_gemm.Linear`.

    The ``Conv1D`` modules of Hugging Face's transformers, which are GPT-2's Linear layers, become
    :class:`torch_smem_gemm.conv1d.Conv1D`.

    Only the class of each module object changes. Parameters, tied weights, buffers, hooks and the
    training mode stay as they are, and references held by an optimizer or a parent module remain
    valid. Modules that read a Linear's weight without calling it (``torch.nn.MultiheadAttention``,
    the inference fast path of ``torch.nn.TransformerEncoderLayer``) keep doing so.

    A module that is registered under several names is converted once, and each of its names is
    listed. The filter is called for each name; if it rejects one, the module is not converted.

    Convert before wrapping: parametrizations, FSDP and adapters replace a Linear's class by their
    own, and such a class is skipped. A module that multiplies by parameters of its own is skipped
    too; ``skipped`` lists it if its class's name ends in Experts or Router.

    Weights on a GPU where torch's products are faster give a warning, once for each GPU: 16-bit
    ones anywhere but on Hopper, float32 ones where :func:`torch_smem_gemm.plan` names ``simt`` for
    large products. The bits of torch's products depend on the batch, those of ours do not.

    Args:
        model: any module; a ``torch.nn.Linear`` itself is converted too, under the name ``""``.
        filter: called as ``filter(name, module)``; a module for which it is false is skipped.
        precision: as in :class:`torch_smem_gemm.Linear`, for the modules converted by this call
            and by earlier calls; ``skipped`` reports the latter. None leaves theirs unchanged.
        cache_split: as in :class:`torch_smem_gemm.Linear`, for the same modules as the precision:
            True keeps the splits of float32 weights in eval mode, which takes as much GPU memory
            as these weights again. True and False also free the splits that are kept.

    Returns:
        The names replaced, with the attribute ``skipped``: name -> reason, for the others.

    Raises:
        TypeError: ``model`` is not a module.
        TypeError, ValueError: a precision that does not exist, or ``cache_split`` that is no bool.
        Any exception that the filter raises; the model is then unchanged.
    """
    precision_code("convert", precision)
    if cache_split is not None:
        check_bool("convert", "cache_split", cache_split)
    options = {"precision": precision, "cache_split": cache_split}
    options = {name: value for name, value in options.items() if value is not None}
    ours = _ours()
    linears = [
        (name, module) for name, module in _modules("convert", model) if _looks_linear(module, ours)
    ]
    reasons: dict[int, str] = {}
    for name, module in linears:
        is_ours = type(module) in ours.values()
        reason = None if is_ours else _why_not(module, ours)
        if reason is None and filter is not None and not filter(name, module):
            reason = f"the filter said no to {name!r}"
        if reason is not None:
            reasons.setdefault(id(module), reason)
    for _, module in linears:
        if type(module) in ours.values() and id(module) not in reasons:
            reasons[id(module)] = _keep(module, options)

    converted = Converted()
    for name, module in linears:
        if id(module) in reasons:
            converted.skipped[name] = reasons[id(module)]
            logger.info("skipped %r: %s", name, reasons[id(module)])
            continue
        module.__class__ = ours.get(type(module), type(module))  # once for a shared module
        vars(module)["_converted"] = True
        _set(module, options)
        converted.append(name)
    logger.info("converted %d modules, skipped %d", len(converted), len(converted.skipped))
    for name in converted:
        weight = model.get_submodule(name).weight
        if isinstance(weight, torch.Tensor):
            _warn_where_slower(weight)
    return converted


_warned: set[torch.device] = set()


def _warn_where_slower(weight: torch.Tensor) -> None:
    """Say once for each GPU that torch's products of this dtype are faster there."""
    if not weight.is_cuda or weight.device in _warned:
        return
    capability = torch.cuda.get_device_capability(weight.device)
    if why := _why_slower(capability, weight.dtype):
        _warned.add(weight.device)
        name = torch.cuda.get_device_name(weight.device)
        dtype = str(weight.dtype).removeprefix("torch.")
        warnings.warn(
            f"smem.convert: {name} has compute capability {capability[0]}.{capability[1]}: "
            f"products in {dtype} run {why}; expect torch to be faster",
            stacklevel=3,
        )


# Of cuBLAS's SGEMM, on an H200 at 4096^3.
_SHARE_OF_SGEMM = {"simt": "0.93 to 0.95", "register_tiled": "0.6"}


@functools.cache  # a model has many weights of one dtype
def _why_slower(capability: tuple[int, int], dtype: torch.dtype) -> str | None:
    """What large products run on, if torch's are faster there."""
    if dtype == torch.float32:
        from torch_smem_gemm.ops.plan import GemmProblem, plan_problem  # not with the package

        problem = GemmProblem.contiguous(4096, 4096, 4096)
        kernel = plan_problem(dtype, problem, capability=capability).kernel
        share = _SHARE_OF_SGEMM.get(kernel)
        return share and (
            f"on the kernel {kernel}, which reached {share} of the speed of cuBLAS's SGEMM "
            "on an H200"
        )
    if dtype.itemsize != 2 or capability == (9, 0):
        return None
    # On an H200 mma makes 453 to 520 TFLOP/s at 4096^3 and 8192^3, of the 645 of mma.sync alone.
    (mma,) = (row for row in kernels("gemm") if row.name == "mma")
    oldest = mma.oldest(dtype)
    if oldest and capability >= oldest:
        return "on the kernel mma, which reached 0.70 to 0.80 of the speed of mma.sync on an H200"
    return "without tensor cores"


def revert(model: torch.nn.Module) -> list[str]:
    """Give the modules that :func:`convert` replaced their former class again, in place.

    A :class:`torch_smem_gemm.Linear` that was constructed directly is not reverted, nor is a
    converted one that has been given an activation, because a ``torch.nn.Linear`` would compute
    something else. A parametrization changes the class: the module can be reverted after the
    parametrization has been removed.

    Args:
        model: any module.

    Returns:
        The names reverted, in the order of ``model.named_modules()``; a shared module has several.

    Raises:
        TypeError: ``model`` is not a module.
    """
    plain = {ours: plain for plain, ours in _ours().items()}
    reverted: list[tuple[str, torch.nn.Module]] = [
        (name, module)
        for name, module in _modules("revert", model)
        if type(module) in plain
        and vars(module).get("_converted")
        and vars(module).get("activation") is None
    ]
    for module in {module for _, module in reverted}:
        release(module)
        module.__class__ = plain[type(module)]
        for attribute in ("_converted", "activation", "precision", "cache_split"):
            vars(module).pop(attribute, None)
    logger.info("reverted %d modules", len(reverted))
    return [name for name, _ in reverted]


def _modules(function: str, model: torch.nn.Module) -> list[tuple[str, torch.nn.Module]]:
    """Yield every name in ``model`` with its module; a shared module appears once per name."""
    if not isinstance(model, torch.nn.Module):
        raise TypeError(
            f"smem.{function}: model is a {type(model).__name__}, expected a torch.nn.Module"
        )
    return list(model.named_modules(remove_duplicate=False))


def _ours() -> _Classes:
    """Return the classes that are converted, each with its replacement."""
    ours: _Classes = {torch.nn.Linear: Linear}
    # A model with a Conv1D has imported its module. Importing transformers here would be slow.
    if hasattr(sys.modules.get("transformers.pytorch_utils"), "Conv1D"):
        from torch_smem_gemm.conv1d import Conv1D

        ours[Conv1D.__bases__[0]] = Conv1D
    return ours


def _looks_linear(module: torch.nn.Module, ours: _Classes) -> bool:
    """Whether a user might expect ``module`` to be converted."""
    return (
        isinstance(module, tuple(ours))
        or type(module).__name__.endswith("Linear")
        or _is_part_of_experts(module)
    )


def _is_part_of_experts(module: torch.nn.Module) -> bool:
    """Whether ``module`` multiplies by its own parameters for a mixture of experts, by its name."""
    return type(module).__name__.endswith(("Experts", "Router")) and any(
        parameter.dim() >= 2 for parameter in module.parameters(recurse=False)
    )


def _set(module: torch.nn.Module, options: dict[str, Any]) -> None:
    """Set options of a converted module."""
    vars(module).update(options)
    if "cache_split" in options:
        release(module)


def _keep(module: torch.nn.Module, options: dict[str, Any]) -> str:
    """Set options of a converted module; return why a module of this package is skipped."""
    reason = f"already a torch_smem_gemm.{type(module).__name__}"
    if not options:
        return reason
    if not vars(module).get("_converted"):
        stay = " and ".join(f"its {name} stays {getattr(module, name)!r}" for name in options)
        return f"{reason}, not made by convert: {stay}"
    _set(module, options)
    now = " and ".join(f"{name} is now {value!r}" for name, value in options.items())
    return f"{reason}, whose {now}"


def _why_not(module: torch.nn.Module, ours: _Classes) -> str | None:
    """Return why ``module`` cannot be converted to a class in ``ours``; None if it can."""
    kind = type(module)
    name = f"{kind.__module__}.{kind.__qualname__}"
    if kind is torch.nn.modules.linear.NonDynamicallyQuantizableLinear:
        return "torch.nn.MultiheadAttention reads its weight and never calls it"
    if _is_part_of_experts(module):
        return f"{name} multiplies by parameters of its own, without a Linear"
    if kind not in ours:
        return f"{name} is not exactly torch.nn.Linear or transformers' Conv1D"
    if "forward" in module.__dict__:
        return "its forward is overridden on the instance"
    weight = module.weight
    if type(weight) not in (torch.nn.Parameter, torch.Tensor):
        return f"its weight is a {type(weight).__name__}, not a plain tensor"
    if weight.dtype not in GEMM_DTYPES:
        served = ", ".join(str(dtype).removeprefix("torch.") for dtype in GEMM_DTYPES)
        return f"its weight is {weight.dtype}, expected one of {served}"
    return None
