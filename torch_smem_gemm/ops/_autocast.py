"""Autocast as in torch's own ops: a leaf parameter is cast once, and torch caches the cast.

torch has no function that returns a cast from its cache. But if an op autocasts its argument and
returns a view, the base of the view is the cached cast, with its gradient. On CUDA, einsum of a
single operand is such an op. It takes 3 us, so the casts found this way are kept in a dict. The
dict is an attribute of a tensor that only torch's cache owns, so it is freed with its contents when
torch clears its cache.
"""

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


class _Casts(dict[int, tuple[weakref.ref, Tensor]]):
    """Casts in torch's cache by the id of the original, each with a weak reference to the original.

    The reference is needed because the id of a freed tensor can be reused.
    """

    __slots__ = ("__weakref__",)


_current = weakref.ref(_Casts())  # dead, since there are none yet

# By device: a function that returns a view of the cast that torch's autocast makes.
_VIEW_OF_CAST: dict[str, Callable[[Tensor], Tensor]] = {"cuda": lambda t: torch.einsum("...", t)}


def autocast(first: Tensor, *others: Tensor | None) -> tuple:
    """Cast float tensors as autocast does for torch.matmul, but not float64 and integers.

    Returns one tensor per argument. Casts of float32 parameters come from torch's cache.
    """
    tensors = (first, *others)
    if not torch._C._is_any_autocast_enabled():  # four times as fast as the check of one device
        return tensors
    device = "cuda" if first.is_cuda else first.device.type
    if device == "meta" or not torch.is_autocast_enabled(device):
        return tensors
    dtype = torch.get_autocast_dtype(device)
    return tuple(
        t if t is None or t.dtype == dtype else _autocast_one(t, dtype, device) for t in tensors
    )


def cast_eagerly(t: Tensor, dtype: torch.dtype) -> Tensor:
    """Cast a CUDA tensor as autocast does; not while torch.compile traces.

    Activations and casts that this module keeps come first: they take 1 us less.
    """
    if not t.requires_grad or torch.is_inference_mode_enabled():
        return t.type(dtype) if t.dtype == torch.float32 else _autocast_one(t, dtype, "cuda")
    cast = _remembered(t)
    if cast is not None and cast.dtype == dtype and torch.is_autocast_cache_enabled():
        return cast
    return _autocast_one(t, dtype, "cuda")


def _autocast_one(t: Tensor, dtype: torch.dtype, device: str) -> Tensor:
    if t.dtype == torch.float32 and t.requires_grad and _keeps_casts(device):
        return _kept_cast(t, dtype, device)
    return _cast(t, dtype) if t.is_floating_point() and t.dtype != torch.float64 else t


def _cast(t: Tensor, dtype: torch.dtype) -> Any:
    return t.type(dtype)  # does the same as t.to(dtype) in half the time


def _keeps_casts(device: str) -> bool:
    """Whether torch's cache is in use and accessible."""
    return (
        device in _VIEW_OF_CAST
        # torch does not use it under torch.compile or in inference mode. The tensors of
        # torch.func's transforms do not outlive the call.
        and not torch.compiler.is_compiling()
        and not torch.is_inference_mode_enabled()
        and not torch._C._are_functorch_transforms_active()
        and torch.is_autocast_cache_enabled()
    )


def _kept_cast(t: Tensor, dtype: torch.dtype, device: str) -> Tensor:
    """Return the cast of a float32 tensor that requires grad, from the cache if it is a leaf."""
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
    """Return the cast in torch's cache, which creates it if necessary."""
    view = _VIEW_OF_CAST[device](t)
    return view if view._base is None else view._base


# Only the next two functions refer to the dict: a traceback that did would keep it alive.


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
