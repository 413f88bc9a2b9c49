"""The rows of a batch: composed for the inputs, and found again in any tensor of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree

# Elements whose checksum is computed at a time: 64 MiB of temporary int64 numbers.
_CHUNK = 1 << 23
_MULTIPLIER = 0x9E3779B97F4A7C15 - (1 << 64)  # 2^64 divided by the golden ratio, as an int64
_INTEGERS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def batch_size_of(inputs: Any) -> int:
    """Return the number of rows that all tensors of ``inputs`` have.

    Raises ValueError if there is no tensor, or if they differ in it.
    """
    sizes = {leaf.shape[:1] for leaf in _tensors(inputs)}
    if len(sizes) != 1 or not next(iter(sizes)) or next(iter(sizes))[0] == 0:
        found = ", ".join(str(tuple(leaf.shape)) for leaf in _tensors(inputs)) or "no tensor"
        raise ValueError(
            "smem.check_batch_invariance: the tensors of inputs have the shapes "
            f"{found}, expected the same first size, the batch, of 1 or more"
        )
    return next(iter(sizes))[0]


def batch_of(inputs: Any, size: int, position: int) -> Any:
    """Return inputs of ``size`` rows: row 0 at ``position``, the other rows around it, repeated."""
    rows = batch_size_of(inputs)
    others = [1 + i % (rows - 1) if rows > 1 else 0 for i in range(size - 1)]
    chosen = [*others[:position], 0, *others[position:]]

    def take(leaf: Any) -> Any:
        if not isinstance(leaf, Tensor):
            return leaf
        return leaf[torch.tensor(chosen, device=leaf.device)]

    return _pytree.tree_map(take, _plain(inputs))


def _plain(inputs: Any) -> Any:
    """Return a mapping such as a tokenizer's BatchEncoding as a dict."""
    return dict(inputs) if isinstance(inputs, Mapping) else inputs


def _tensors(inputs: Any) -> list[Tensor]:
    return [leaf for leaf in _pytree.tree_leaves(_plain(inputs)) if isinstance(leaf, Tensor)]


def part_of(tensor: Tensor, alone: tuple[int, ...], size: int, position: int) -> Tensor | None:
    """Return the part of a batch's tensor that belongs to the row at ``position``.

    Args:
        tensor: of a run with a batch of ``size``.
        alone: the shape of the same tensor in a run of that row alone.
        size: the number of rows in the batch.
        position: the row.

    Returns:
        The part, of shape ``alone``; the tensor itself if it does not grow with the batch; None if
        it grows in another way than by the batch in one dimension, such as (batch * tokens, ...).
    """
    shape = tuple(tensor.shape)
    if shape == alone:
        return tensor
    if len(shape) != len(alone):
        return None
    grown = [d for d, (a, b) in enumerate(zip(alone, shape, strict=True)) if a != b]
    if len(grown) != 1 or shape[grown[0]] != size * alone[grown[0]]:
        return None
    length = alone[grown[0]]
    return tensor.narrow(grown[0], position * length, length)


def checksum(tensor: Tensor) -> int:
    """Return a number that depends on every bit of a tensor's elements and on their order.

    The bits are multiplied by an odd number of their position and added modulo 2^64, on the
    tensor's device; only this number is waited for.
    """
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj())
    flat = tensor.detach().resolve_neg().contiguous().reshape(-1)
    bits = flat.view(_INTEGERS[flat.element_size()])
    total = torch.zeros((), dtype=torch.int64, device=tensor.device)
    for begin in range(0, len(bits), _CHUNK):
        part = bits[begin : begin + _CHUNK].long()
        position = torch.arange(begin, begin + len(part), device=tensor.device)
        total += ((part + 1) * ((position * _MULTIPLIER) | 1)).sum()
    return int(total)
