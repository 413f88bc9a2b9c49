"""Turn the Linear layers of an existing model into this package's, and back, in place."""

from __future__ import annotations

import logging
from collections.abc import Callable

import torch

from torch_smem_gemm.nn import Linear
from torch_smem_gemm.ops._checks import GEMM_DTYPES
from torch_smem_gemm.ops._codes import precision_code

logger = logging.getLogger(__name__)


class Converted(list[str]):
    """The names that :func:`convert` replaced, in the order of ``model.named_modules()``.

    Attributes:
        skipped: name of each Linear that was left as it was, and why.
    """

    def __init__(self) -> None:
        super().__init__()
        self.skipped: dict[str, str] = {}


def convert(
    model: torch.nn.Module,
    *,
    filter: Callable[[str, torch.nn.Module], bool] | None = None,
    precision: str | None = None,
) -> Converted:
    """Make every plain ``torch.nn.Linear`` of ``model`` a :class:`torch_smem_gemm.Linear`.

    Only the class of each module object changes. Parameters, tied weights, buffers, hooks, training
    mode, and what an optimizer or a parent module refers to stay the very same objects. Modules
    that read a Linear's weight without calling it (``torch.nn.MultiheadAttention``, the inference
    fast path of ``torch.nn.TransformerEncoderLayer``) go on doing so.

    A module that stands under several names is converted once, and each of its names is listed.
    The filter is asked about each name, and one no keeps the module.

    Convert before wrapping: parametrizations, FSDP and adapters replace a Linear's class by their
    own, and such a class is skipped.

    Args:
        model: any module; a ``torch.nn.Linear`` itself is converted too, under the name ``""``.
        filter: called as ``filter(name, module)``; a module for which it is false is skipped.
        precision: as in :class:`torch_smem_gemm.Linear`, for the modules converted by this call.

    Returns:
        The names replaced, with the attribute ``skipped``: name -> reason, for the others.

    Raises:
        TypeError: ``model`` is not a module.
        TypeError, ValueError: a precision that does not exist.
        Whatever the filter raises; the model is then unchanged.
    """
    precision_code("convert", precision)
    linears = [(name, module) for name, module in _modules(model) if _looks_linear(module)]
    reasons: dict[int, str] = {}
    for name, module in linears:
        reason = _why_not(module)
        if reason is None and filter is not None and not filter(name, module):
            reason = f"the filter said no to {name!r}"
        if reason is not None:
            reasons.setdefault(id(module), reason)

    converted = Converted()
    for name, module in linears:
        if id(module) in reasons:
            converted.skipped[name] = reasons[id(module)]
            logger.info("skipped %r: %s", name, reasons[id(module)])
            continue
        module.__class__ = Linear
        assert isinstance(module, Linear)
        module._converted = True
        if precision is not None:
            module.precision = precision
        converted.append(name)
    logger.info("converted %d Linear modules, skipped %d", len(converted), len(converted.skipped))
    return converted


def revert(model: torch.nn.Module) -> list[str]:
    """Make the modules that :func:`convert` replaced plain ``torch.nn.Linear`` again, in place.

    A :class:`torch_smem_gemm.Linear` made by hand stays, and so does a converted one that was given
    an activation since: a ``torch.nn.Linear`` would compute something else.

    Args:
        model: any module.

    Returns:
        The names reverted, in the order of ``model.named_modules()``, all names of a shared module.

    Raises:
        TypeError: ``model`` is not a module.
    """
    reverted: list[tuple[str, torch.nn.Module]] = [
        (name, module)
        for name, module in _modules(model)
        if type(module) is Linear and module._converted and module.activation is None
    ]
    for _, module in reverted:
        module.__class__ = torch.nn.Linear
        for attribute in ("_converted", "activation", "precision"):
            module.__dict__.pop(attribute, None)
    logger.info("reverted %d Linear modules", len(reverted))
    return [name for name, _ in reverted]


def _modules(model: torch.nn.Module) -> list[tuple[str, torch.nn.Module]]:
    """Every name in ``model``, so that a shared module comes once for each."""
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"model is a {type(model).__name__}, expected a torch.nn.Module")
    return list(model.named_modules(remove_duplicate=False))


def _looks_linear(module: torch.nn.Module) -> bool:
    """Whether a user would ask why ``module`` was not converted."""
    return isinstance(module, torch.nn.Linear) or type(module).__name__.endswith("Linear")


def _why_not(module: torch.nn.Module) -> str | None:
    """Why ``module`` cannot become a Linear of this package; None if it can."""
    kind = type(module)
    if kind is Linear:
        return "already a torch_smem_gemm.Linear"
    if kind is torch.nn.modules.linear.NonDynamicallyQuantizableLinear:
        return "torch.nn.MultiheadAttention reads its weight and never calls it"
    if kind is not torch.nn.Linear:
        return f"{kind.__module__}.{kind.__qualname__} is not exactly torch.nn.Linear"
    if "forward" in module.__dict__:
        return "its forward is overridden on the instance"
    weight = module.weight
    if type(weight) not in (torch.nn.Parameter, torch.Tensor):
        return f"its weight is a {type(weight).__name__}, not a plain tensor"
    if weight.dtype not in GEMM_DTYPES:
        served = ", ".join(str(dtype).removeprefix("torch.") for dtype in GEMM_DTYPES)
        return f"its weight is {weight.dtype}, expected one of {served}"
    return None
