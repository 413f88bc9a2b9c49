"""Additions to places that an index names, in the order of the index.

``index_add`` of rows is a kernel of this package: torch's deterministic one takes 115 us of host
time, and a layer of experts calls it once an expert. The rest are torch's deterministic kernels.
"""

from __future__ import annotations

import threading
from typing import Any

import torch
from torch import Tensor

from torch_smem_gemm.invariance.forms import Kernel, with_out

# torch has one setting for all threads.
_setting = threading.RLock()

_DTYPES = (torch.float32, torch.float16, torch.bfloat16)
# The kernel looks through an index of so many rows for each of them; a longer one is sorted first.
_MAX_UNSORTED = 2048

_index_add_rows = torch.ops.smem._index_add_.default._op


def _deterministic(torchs: Kernel, *args: Any, **kwargs: Any) -> Any:
    """Call torch's kernel under torch.use_deterministic_algorithms.

    It adds the values for a place in the order of the index, instead of by atomics.
    """
    with _setting:
        before = torch.are_deterministic_algorithms_enabled()
        warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
        # torch.use_deterministic_algorithms would import torch.compile's backend.
        torch._C._set_deterministic_algorithms(True, warn_only=True)
        try:
            return torchs(*args, **kwargs)
        finally:
            torch._C._set_deterministic_algorithms(before, warn_only=warn_only)


def index_add(
    torchs: Kernel, x: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: float = 1
) -> Tensor:
    """Return torch.index_add(x, dim, index, source) with bits that other rows do not change."""
    if not _adds_rows(x, dim, index, source, alpha):
        return _deterministic(torchs, x, dim, index, source, alpha=alpha)
    out = x.clone(memory_format=torch.contiguous_format)
    _add_rows(out, index, source)
    return out


def index_add_(
    torchs: Kernel, x: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: float = 1
) -> Tensor:
    """Do x.index_add_(dim, index, source) with bits that other rows do not change."""
    is_served = _adds_rows(x, dim, index, source, alpha) and x.is_contiguous()
    if not is_served or x.untyped_storage().data_ptr() == source.untyped_storage().data_ptr():
        return _deterministic(torchs, x, dim, index, source, alpha=alpha)
    _add_rows(x, index, source)
    return x


def _adds_rows(x: Tensor, dim: int, index: Tensor, source: Tensor, alpha: float) -> bool:
    """Whether the kernel serves the call. What is wrong with another one, torch's kernel says."""
    shape = x.shape
    return (
        len(shape) > 1
        and dim in (0, -len(shape))
        and alpha == 1
        and x.dtype in _DTYPES
        and x.dtype == source.dtype
        and index.dtype in (torch.int64, torch.int32)
        and x.get_device() == source.get_device() == index.get_device()
        and index.dim() == 1
        and source.shape == (index.shape[0], *shape[1:])
        and x.numel() > 0
    )


def _add_rows(x: Tensor, index: Tensor, source: Tensor) -> None:
    rows = index.shape[0]
    if rows == 0:
        return
    index, order = index.long(), None
    if rows > _MAX_UNSORTED:
        index, order = index.sort(stable=True)
    _index_add_rows(
        x.view(x.shape[0], -1), index.contiguous(), source.reshape(rows, -1).contiguous(), order
    )


KERNELS: dict[str, Kernel] = {
    "index_add": index_add,
    "index_add.out": with_out(index_add),
    "index_add_": index_add_,
    **dict.fromkeys(
        (
            "scatter_add",
            "scatter_add.out",
            "scatter_add_",
            "index_put_",
            "_index_put_impl_",
            "embedding_dense_backward",
        ),
        _deterministic,
    ),
}
