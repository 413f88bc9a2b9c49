"""Autocast as torch's own ops do it: a leaf parameter is cast once, and torch keeps the cast.

torch has no call that returns a cast it keeps. But an op that autocasts and returns a view of its
argument returns a view of the cast, whose base is the cast itself, with its gradient: einsum of a
single operand is one, on CUDA. It takes 3 us, so the casts found so are looked up in a dict the
next time. The dict is an attribute of a tensor that only torch's cache owns, and so it ends with
all that it holds when torch clears its cache.
"""

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


class _Casts(dict[int, tuple[weakref.ref, Tensor]]):
    """Casts that torch's cache holds, each after a reference to what was cast, by the id of that.

    An id alone may be that of a tensor which is gone.
    """

    __slots__ = ("__weakref__",)


_current = weakref.ref(_Casts())  # dead: there are none yet

# By device: returns a view of what torch's autocast makes of its argument.
_VIEW_OF_CAST: dict[str, Callable[[Tensor], Tensor]] = {"cuda": lambda t: torch.einsum("...", t)}


def autocast(first: Tensor, *others: Tensor | None) -> Any:
    """Cast float tensors as autocast casts torch.matmul's; float64 and integers stay.

    Returns a sequence of as many tensors. Casts of float32 parameters are those of torch's cache.
    """
    tensors = (first, *others)
    if not torch._C._is_any_autocast_enabled():  # a quarter of the time of asking for one device
        return tensors
    device = "cuda" if first.is_cuda else first.device.type
    if device == "meta" or not torch.is_autocast_enabled(device):
        return tensors
    dtype = torch.get_autocast_dtype(device)
    keeps = None  # asked for a parameter alone: it takes 0.4 us
    casts = []
    for t in tensors:
        if t is None or t.dtype == dtype:
            casts.append(t)
        elif t.dtype == torch.float32 and t.requires_grad:
            keeps = _keeps_casts(device) if keeps is None else keeps
            casts.append(_kept_cast(t, dtype, device) if keeps else _cast(t, dtype))
        else:
            floats = t.is_floating_point() and t.dtype != torch.float64
            casts.append(_cast(t, dtype) if floats else t)
    return casts


def _cast(t: Tensor, dtype: torch.dtype) -> Any:
    return t.type(dtype)  # what t.to(dtype) does, in half the time


def _keeps_casts(device: str) -> bool:
    """Whether torch's cache is in use here, and we can ask it."""
    return (
        device in _VIEW_OF_CAST
        # torch does not use it under torch.compile, nor in inference mode; and the tensors of
        # torch.func's transforms are gone after the call.
        and not torch.compiler.is_compiling()
        and not torch.is_inference_mode_enabled()
        and not torch._C._are_functorch_transforms_active()
        and torch.is_autocast_cache_enabled()
    )


def _kept_cast(t: Tensor, dtype: torch.dtype, device: str) -> Tensor:
    """Return the cast of a float32 tensor that requires grad, from the cache where it is a leaf."""
    cast = _remembered(t)
    if cast is not None and cast.dtype == dtype:
        return cast
    if not t.is_leaf or t._is_view():
        return _cast(t, dtype)
    cast = _in_torchs_cache(t, device)
    if cast.dtype != dtype or (torch.is_grad_enabled() and not cast.requires_grad):
        return _cast(t, dtype)  # made in an outer region of another dtype, or without gradients
    if cast.requires_grad and not torch._C._len_torch_dispatch_stack():
        _remember(t, cast, device)
    return cast


def _in_torchs_cache(t: Tensor, device: str) -> Tensor:
    """Return the cast in torch's cache, which makes it now unless it has it."""
    view = _VIEW_OF_CAST[device](t)
    return view if view._base is None else view._base


# Only the next two hold the dict, and briefly: a traceback that held it would keep it alive.


def _remembered(t: Tensor) -> Tensor | None:
    casts = _current()
    found = None if casts is None else casts.get(id(t))
    return found[1] if found is not None and found[0]() is t else None


def _remember(t: Tensor, cast: Tensor, device: str) -> None:
    global _current
    casts = _current()
    if casts is None:
        owner = torch.empty(0, dtype=torch.float32, device=t.device, requires_grad=True)
        owned: Any = _in_torchs_cache(owner, device)
        casts = owned.smem_casts = _Casts()
        _current = weakref.ref(casts)
    casts[id(t)] = weakref.ref(t), cast
