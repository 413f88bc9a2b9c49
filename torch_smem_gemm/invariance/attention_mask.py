"""What an attention mask says: which contiguous range of keys each row of the batch attends to."""

from __future__ import annotations

import threading
from typing import Any

import torch
from torch import Tensor

# A mask is remembered for the next layer of a model, unless it is larger than this.
_REMEMBERED_BYTES = 64 << 20


class Ranges:
    """For each row of a batch: the first key that its queries see, and how many there are.

    Attributes:
        is_causal: query i of Q sees the keys before ``first + length - (Q - 1 - i)``; with
            ``is_padded_right``, those before ``first + min(i + 1, length)``. Otherwise all
            queries see all keys of the range.
        is_padded_right: queries from ``length`` on are padding.
        first: (batch,) int32; None is 0 everywhere.
        lengths: (batch,) int32; None is the number of keys everywhere.
        remembered: what is derived from the ranges for one layer, for the next.
    """

    def __init__(
        self,
        is_causal: bool,
        first: Tensor | None = None,
        lengths: Tensor | None = None,
        is_padded_right: bool = False,
    ) -> None:
        self.is_causal, self.is_padded_right = is_causal, is_padded_right
        self.first, self.lengths = first, lengths
        self.remembered: dict[Any, Any] = {}


class _LastMask(threading.local):
    """The last mask of this thread; it is kept alive so that its memory cannot be reused."""

    mask: Tensor | None = None
    key: Any = None
    ranges: Ranges | None = None


_last = _LastMask()


def ranges_of(mask: Tensor, batch: int) -> Ranges | None:
    """Return the ranges that a mask says; None if it says something else.

    The host waits for the GPU to learn this, once for a mask that several layers share. While a
    CUDA graph is captured it cannot, and None is returned.

    Args:
        mask: (batch or 1, heads or 1, queries or 1, keys), bool, or float to be added.
        batch: the number of rows.
    """
    if mask.shape[1] != 1 and mask.stride(1) != 0:
        return None
    key = None
    if not mask.is_inference():  # such a tensor does not count its changes
        key = mask.data_ptr(), mask._version, mask.shape, mask.stride(), mask.dtype, batch
        if _last.mask is not None and key == _last.key:
            return _last.ranges
    if mask.is_cuda and torch.cuda.is_current_stream_capturing():
        return None
    ranges = _find(mask[:, 0], batch)
    if key is not None and mask.untyped_storage().nbytes() <= _REMEMBERED_BYTES:
        _last.mask, _last.key, _last.ranges = mask, key, ranges
    return ranges


def _find(mask: Tensor, batch: int) -> Ranges | None:
    """Return the ranges of a mask (batch or 1, queries or 1, keys)."""
    sees = mask if mask.dtype == torch.bool else mask == 0
    *_, queries, keys = sees.shape
    row = sees[:, -1]  # what the last query sees
    first = row.int().argmax(-1).int()
    lengths = row.sum(-1).int()
    key = torch.arange(keys, device=mask.device)
    in_range = (key >= first[:, None]) & (key < (first + lengths)[:, None])
    query = torch.arange(queries, device=mask.device)[:, None]
    end = (first + lengths)[:, None, None]
    causal = in_range[:, None] & (key < end - (queries - 1 - query))
    from_the_left = in_range[:, None] & (key <= query)
    is_mask = torch.ones((), dtype=torch.bool, device=mask.device)
    if mask.dtype != torch.bool:
        # A finite number hides a key only if the query sees another one.
        lowest = torch.finfo(mask.dtype).min
        hidden = torch.isneginf(mask) | ((mask <= lowest) & sees.any(-1, keepdim=True))
        is_mask = (sees | hidden).all()
    found = [
        (sees == candidate).all() & is_mask
        for candidate in (in_range[:, None], causal, from_the_left & (first == 0)[:, None, None])
    ]
    is_full, is_causal, is_padded_right = torch.stack(found).tolist()
    if not (is_full or is_causal or is_padded_right):
        return None
    first, lengths = (x.expand(batch).contiguous() for x in (first, lengths))
    return Ranges(not is_full, first, lengths, not is_full and not is_causal)
