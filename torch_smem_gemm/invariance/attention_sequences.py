"""Attention with one sequence of keys per row of the batch, by torch's kernels of variable length.

The keys and values stay where they are: a sequence is a first row and a length. The rows hold
either one head (the layout of a cache: batch, heads, tokens, features), and then each head has
sequences of its own, or all heads (the layout of a projection: batch, tokens, heads, features).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from torch_smem_gemm.invariance.attention_mask import Ranges
from torch_smem_gemm.ops._codes import PRECISIONS

# Keys of one part. On an H200, 512 took less time than 256 and 1024 at 3000 and 8000 keys.
PART = 512
_FLASH_MAX_HEAD = 256
_ALIGNMENT = 16  # bytes
# custom_mask_type of aten::_efficient_attention_forward.
_NO_MASK, _CAUSAL_BOTTOM_RIGHT = 0, 2
_REMEMBERED_SPANS = 64

_unmasked: dict[tuple, Spans] = {}
_gemm = torch.ops.smem._gemm.default


class Keys(NamedTuple):
    """Keys and values as (rows, heads in a row, features), and where each sequence begins."""

    k: Tensor
    v: Tensor
    heads_are_sequences: bool
    batch_step: int  # rows from one row of the batch to the next
    head_step: int


class Spans(NamedTuple):
    """The sequences, int32: the first row of their queries and keys, and their number of keys."""

    queries: Tensor  # one more than there are sequences, the last the end
    keys: Tensor  # one more, which is not used
    lengths: Tensor


# attend(q, keys, spans, most queries, most keys, is_causal, scale) -> result, logsumexp of its rows
Attend = Callable[..., tuple[Tensor, Tensor]]


def attend_by_ranges(q: Tensor, k: Tensor, v: Tensor, ranges: Ranges, scale: float) -> Tensor:
    """Return the attention of q (batch, heads, queries, features) without a gradient.

    ``k`` and ``v`` have as many features, and as many heads or a divisor of them.
    """
    batch, heads, queries, head = q.shape
    group = heads // k.shape[1]
    is_flash = (
        q.dtype != torch.float32
        and head <= _FLASH_MAX_HEAD
        and torch.cuda.get_device_capability(q.device) >= (8, 0)
    )
    attend = _flash if is_flash else _efficient
    keys = _as_rows(k, v, only_sequences=group > 1 and queries > 1 and not is_flash)
    length = k.shape[2]
    if queries == 1:
        # The queries of a group see the same keys: they are one sequence.
        grouped = q.reshape(batch, k.shape[1], group, head)
        return _decode(attend, grouped, keys, length, ranges, scale).reshape(q.shape)
    spans = _spans(keys, ranges, batch, heads, group, queries, length, parts=1)
    rows = _rows(q, keys)
    if ranges.is_padded_right:
        return _padded_right(attend, rows, q, keys, spans, length, ranges, scale)
    out, _ = attend(rows, keys, spans, queries, length, ranges.is_causal, scale)
    return _outputs(out, q, keys)


def _padded_right(
    attend: Attend,
    rows: Tensor,
    q: Tensor,
    keys: Keys,
    spans: Spans,
    length: int,
    ranges: Ranges,
    scale: float,
) -> Tensor:
    """Attention of causal queries, and of those after them, which are padding and see every key."""
    queries = q.shape[2]
    ends = spans.queries[:-1] + spans.lengths
    begins = torch.cat([torch.stack([spans.queries[:-1], ends], 1).flatten(), spans.queries[-1:]])
    firsts = spans.keys[:-1].repeat_interleave(2)
    firsts = torch.cat([firsts, firsts[-1:]])
    none = torch.zeros_like(spans.lengths)

    def only(lengths: tuple[Tensor, Tensor], is_causal: bool) -> Tensor:
        halves = Spans(begins, firsts, torch.stack(lengths, 1).flatten())
        out, _ = attend(rows, keys, halves, queries, length, is_causal, scale)
        return _outputs(out, q, keys)

    of_rows = only((spans.lengths, none), True)
    of_padding = only((none, spans.lengths), False)
    assert ranges.lengths is not None
    is_row = torch.arange(queries, device=q.device) < ranges.lengths[:, None]
    return torch.where(is_row[:, None, :, None], of_rows, of_padding)


def _decode(
    attend: Attend, q: Tensor, keys: Keys, length: int, ranges: Ranges, scale: float
) -> Tensor:
    """Attention of q (batch, heads of keys, group, features) with the keys in parts."""
    batch, heads, group, head = q.shape
    parts = max(-(-length // PART), 1)
    spans = _spans(keys, ranges, batch, heads, 1, group, length, parts)
    if keys.heads_are_sequences:
        rows = q.reshape(batch * heads, 1, group, 1, head)
    else:
        rows = q.transpose(1, 2).unsqueeze(1)
    sequences, _, _, in_row, _ = rows.shape
    rows = rows.expand(-1, parts, -1, -1, -1).reshape(-1, in_row, head)
    out, logsumexp = attend(rows, keys, spans, group, min(length, PART), False, scale)
    if parts > 1:
        out = _combined(
            out.view(sequences, parts, group, in_row, head),
            logsumexp.reshape(sequences, parts, group, in_row),
            spans.lengths.view(sequences, parts),
        )
    out = out.view(sequences, group, in_row, head)
    if keys.heads_are_sequences:
        return out.view(batch, heads, group, head)
    return out.transpose(1, 2)


def _combined(out: Tensor, logsumexp: Tensor, lengths: Tensor) -> Tensor:
    """Return the attention over all parts, the second dimension, by their logsumexp.

    The parts are added in their order, in float32; those without keys, which come last, add zero.
    """
    logsumexp = torch.where(lengths[:, :, None, None] > 0, logsumexp, -torch.inf)
    largest = logsumexp.amax(1, keepdim=True)
    weights = (logsumexp - torch.where(largest.isinf(), 0, largest)).exp()
    weights = weights.movedim(1, -1).unsqueeze(-2)  # (sequences, group, heads in a row, 1, parts)
    values = out.movedim(1, -2).float()
    options = (None, None, 1.0, 0.0, 0, PRECISIONS["ieee"])
    total = _gemm(weights, torch.ones_like(weights).mT, *options)
    result = _gemm(weights, values, *options) / total
    return torch.where(total > 0, result, 0).squeeze(-2).to(out.dtype)


def _as_rows(k: Tensor, v: Tensor, only_sequences: bool) -> Keys:
    """Return k and v (batch, heads, tokens, features) as rows, copied only if they must be."""
    if k.stride() == v.stride() and _is_aligned(k) and _is_aligned(v):
        batch, heads, tokens, features = k.shape
        s0, s1, s2, _ = k.stride()
        s0, s1 = s0 if batch > 1 else 0, s1 if heads > 1 else 0
        if s0 % s2 == 0 and s1 % s2 == 0:
            rows = (batch - 1) * (s0 // s2) + (heads - 1) * (s1 // s2) + tokens
            shape, strides = (rows, 1, features), (s2, s2, 1)
            k, v = (x.as_strided(shape, strides) for x in (k, v))
            return Keys(k, v, True, s0 // s2, s1 // s2)
        if s0 % s2 == 0 and not only_sequences:
            rows = (batch - 1) * (s0 // s2) + tokens
            shape, strides = (rows, heads, features), (s2, s1, 1)
            k, v = (x.as_strided(shape, strides) for x in (k, v))
            return Keys(k, v, False, s0 // s2, 0)
    k, v = (x.clone(memory_format=torch.contiguous_format) for x in (k, v))
    return _as_rows(k, v, only_sequences=True)


def _is_aligned(x: Tensor) -> bool:
    multiple = _ALIGNMENT // x.element_size()
    *strides, last = x.stride()
    return (
        last == 1
        and strides[2] > 0
        and all(stride % multiple == 0 for stride in strides)
        and x.data_ptr() % _ALIGNMENT == 0
    )


def _rows(q: Tensor, keys: Keys) -> Tensor:
    """Return q (batch, heads, queries, features) as rows like those of the keys."""
    if keys.heads_are_sequences:
        return q.reshape(-1, 1, q.shape[3])
    return q.transpose(1, 2).reshape(-1, q.shape[1], q.shape[3])


def _outputs(out: Tensor, q: Tensor, keys: Keys) -> Tensor:
    """Return the result's rows as (batch, heads, queries, features)."""
    batch, heads, queries, features = q.shape
    if keys.heads_are_sequences:
        return out.view(q.shape)
    return out.view(batch, queries, heads, features).transpose(1, 2)


def _spans(
    keys: Keys,
    ranges: Ranges,
    batch: int,
    heads: int,
    group: int,
    queries: int,
    length: int,
    parts: int,
) -> Spans:
    """Return the sequences, in the order of the batch, the heads and the parts.

    They are remembered: all layers of a model have the same.
    """
    heads = heads if keys.heads_are_sequences else 1
    stream = torch.cuda.current_stream(keys.k.device)
    key = (stream, batch, heads, group, keys.batch_step, keys.head_step, queries, length, parts)
    remembered = _unmasked if ranges.first is None else ranges.remembered
    found = remembered.get(key)
    if found is not None:
        return found
    device = keys.k.device

    def numbers(count: int) -> Tensor:
        return torch.arange(count, dtype=torch.int32, device=device)

    first = torch.zeros(batch, dtype=torch.int32, device=device)
    lengths = torch.full_like(first, length)
    if ranges.first is not None and ranges.lengths is not None:
        first, lengths = ranges.first, ranges.lengths
    of_part = numbers(parts) * PART
    of_batch = numbers(batch) * keys.batch_step + first
    of_head = numbers(heads).div(group, rounding_mode="floor") * keys.head_step
    starts = (of_batch[:, None, None] + of_head[:, None] + of_part).flatten()
    if parts > 1:
        left = (lengths[:, None, None] - of_part).clamp_(0, PART)
    else:
        left = lengths[:, None, None]
    spans = Spans(
        numbers(len(starts) + 1) * queries,
        torch.cat([starts, starts[-1:]]),
        left.expand(batch, heads, parts).flatten(),
    )
    if not torch.cuda.is_current_stream_capturing():  # whose memory belongs to the graph
        while len(remembered) >= _REMEMBERED_SPANS:
            remembered.pop(next(iter(remembered)), None)
        remembered[key] = spans
    return spans


def _flash(
    q: Tensor, keys: Keys, spans: Spans, queries: int, length: int, is_causal: bool, scale: float
) -> tuple[Tensor, Tensor]:
    out, logsumexp, *_ = torch.ops.aten._flash_attention_forward(
        q,
        keys.k,
        keys.v,
        spans.queries,
        spans.keys,
        queries,
        length,
        0.0,
        is_causal,
        False,
        scale=scale,
        seqused_k=spans.lengths,
    )
    return out, logsumexp.mT


def _efficient(
    q: Tensor, keys: Keys, spans: Spans, queries: int, length: int, is_causal: bool, scale: float
) -> tuple[Tensor, Tensor]:
    out, logsumexp, *_ = torch.ops.aten._efficient_attention_forward(
        q.unsqueeze(0),
        keys.k.unsqueeze(0),
        keys.v.unsqueeze(0),
        None,
        spans.queries,
        spans.keys,
        queries,
        length,
        0.0,
        _CAUSAL_BOTTOM_RIGHT if is_causal else _NO_MASK,
        True,
        scale=scale,
        seqlen_k=spans.lengths,
    )
    # (sequences, heads, queries rounded up): in decode all sequences have as many queries.
    return out.squeeze(0), logsumexp[:, :, :queries].transpose(1, 2).reshape(-1, q.shape[1])
