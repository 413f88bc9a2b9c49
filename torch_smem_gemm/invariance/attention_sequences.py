"""Attention with one sequence of keys per row of the batch, by torch's kernels of variable length.

The keys and values stay where they are: a sequence is a first row and a length. The rows hold
either one head (the layout of a cache: batch, heads, tokens, features), and then each head has
sequences of its own, or all heads (the layout of a projection: batch, tokens, heads, features).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from torch_smem_gemm.invariance.attention_mask import Ranges
from torch_smem_gemm.ops._dispatch import asking_torch_for_memory, register_fake

# Keys of one part. On an H200, 512 took less time than 256 and 1024 at 3000 and 8000 keys.
PART = 512
# Up to so many queries of all heads that share keys, the keys are cut into parts. A model has fewer
# heads that share keys: transformers passes them as heads, or with a mask as queries.
_FEW_QUERIES = 128
_FLASH_MAX_HEAD = 256
_ALIGNMENT = 16  # bytes
# custom_mask_type of aten::_efficient_attention_forward.
_NO_MASK, _CAUSAL_BOTTOM_RIGHT = 0, 2
_REMEMBERED = 64

_unmasked: dict[tuple, Spans] = {}
_indices: dict[tuple, Indices] = {}


class Keys(NamedTuple):
    """Keys and values as (rows, heads in a row, features), and where each sequence begins."""

    k: Tensor
    v: Tensor
    heads: int
    heads_are_sequences: bool
    batch_step: int  # rows from one row of the batch to the next
    head_step: int


class Spans(NamedTuple):
    """The sequences, int32: the first row of their queries and keys, and their number of keys."""

    queries: Tensor  # one more than there are sequences, the last the end
    keys: Tensor  # one more, which is not used
    lengths: Tensor


class Indices(NamedTuple):
    """What spans of any length are made of, int32, for each sequence and one more."""

    queries: Tensor  # as of Spans
    row: Tensor  # of the batch
    head: Tensor  # of the keys
    key: Tensor  # the first one of the part


# attend(q, keys, spans, most queries, most keys, is_causal, scale): the result of q's rows, and the
# logsumexp of their scores as (heads in a row, rows).
Attend = Callable[..., tuple[Tensor, Tensor]]


def attend_by_ranges(q: Tensor, k: Tensor, v: Tensor, ranges: Ranges, scale: float) -> Tensor:
    """Return the attention of q (batch, heads, queries, features) without a gradient.

    ``k`` and ``v`` have as many features, and as many heads or a divisor of them.
    """
    batch, heads, queries, head = q.shape
    group = heads // k.shape[1]
    is_flash = q.dtype != torch.float32 and head <= _FLASH_MAX_HEAD and _has_flash(q.get_device())
    attend = _flash if is_flash else _efficient
    keys = _as_rows(k, v, only_sequences=group > 1 and queries > 1 and not is_flash)
    length = k.shape[2]
    if queries == 1 or (not ranges.is_causal and group * queries <= _FEW_QUERIES):
        return _of_few_queries(attend, q, keys, length, ranges, scale)
    spans = _spans(keys, ranges, batch, heads, group, queries, length, parts=1)
    rows = _rows(q, keys)
    # FlashAttention's rows do not depend on how many precede them; the other kernel's do.
    if ranges.is_padded_right or (ranges.is_causal and ranges.first is not None and not is_flash):
        return _with_padding(attend, rows, q, keys, spans, length, ranges, scale)
    out, _ = attend(rows, keys, spans, queries, length, ranges.is_causal, scale)
    out = _outputs(out, q, keys)
    if ranges.lengths is not None and not is_flash:  # which leaves rows without keys as they were
        out = torch.where(ranges.lengths[:, None, None, None] > 0, out, 0)
    return out


@functools.cache
def _has_flash(device: int) -> bool:
    return torch.cuda.get_device_capability(device) >= (8, 0)


def _with_padding(
    attend: Attend,
    rows: Tensor,
    q: Tensor,
    keys: Keys,
    spans: Spans,
    length: int,
    ranges: Ranges,
    scale: float,
) -> Tensor:
    """Attention of causal queries and of the padding among them, as sequences of their own.

    Padding after the queries sees every key, padding before them none.
    """
    queries = q.shape[2]
    assert ranges.lengths is not None
    none = torch.zeros_like(spans.lengths)
    real = spans.lengths.clamp(max=queries)
    middle = spans.queries[:-1] + (real if ranges.is_padded_right else queries - real)
    begins = torch.cat([torch.stack([spans.queries[:-1], middle], 1).flatten(), spans.queries[-1:]])
    firsts = spans.keys[:-1].repeat_interleave(2)
    firsts = torch.cat([firsts, firsts[-1:]])

    def of(lengths: tuple[Tensor, Tensor], is_causal: bool) -> Tensor:
        halves = Spans(begins, firsts, torch.stack(lengths, 1).flatten())
        out, _ = attend(rows, keys, halves, queries, length, is_causal, scale)
        return _outputs(out, q, keys)

    real_queries = ranges.lengths.clamp(max=queries)[:, None]
    query = torch.arange(queries, device=q.device)
    if ranges.is_padded_right:
        is_real = query < real_queries
        causal, padding = of((spans.lengths, none), True), of((none, spans.lengths), False)
    else:
        is_real = query >= queries - real_queries
        causal, padding = of((none, spans.lengths), True), torch.zeros((), dtype=q.dtype).to(q)
    return torch.where(is_real[:, None, :, None], causal, padding)


def _of_few_queries(
    attend: Attend, q: Tensor, keys: Keys, length: int, ranges: Ranges, scale: float
) -> Tensor:
    """Attention of q (batch, heads, queries, features), not causal, with the keys in parts.

    The queries of all heads that share keys are one sequence, which a caller may also have made.
    """
    batch, heads, queries, features = q.shape
    of_keys, parts = keys.heads, max(-(-length // PART), 1)
    group = heads // of_keys * queries
    spans = _spans(keys, ranges, batch, of_keys, 1, group, length, parts)
    if keys.heads_are_sequences:
        sequences, in_row = batch * of_keys, 1
        rows = q.reshape(sequences, 1, group, features)
    else:
        sequences, in_row = batch, of_keys
        rows = q.reshape(batch, of_keys, group, features).transpose(1, 2)
        rows = rows.reshape(batch, 1, group * of_keys, features)
    if parts > 1:
        rows = rows.expand(-1, parts, -1, -1)
    rows = rows.reshape(-1, in_row, features)
    out, logsumexp = attend(rows, keys, spans, group, min(length, PART), False, scale)
    if parts > 1:
        out = _combine(out, logsumexp, spans.lengths, parts, group)
    elif ranges.lengths is not None:
        is_seen = spans.lengths.view(sequences, 1, 1) > 0
        out = torch.where(is_seen, out.view(sequences, -1, features), 0)
    if keys.heads_are_sequences:
        return out.view_as(q)  # takes less time than view(q.shape)
    return out.view(batch, group, of_keys, features).transpose(1, 2).reshape(q.shape)


def _as_rows(k: Tensor, v: Tensor, only_sequences: bool) -> Keys:
    """Return k and v (batch, heads, tokens, features) as rows, copied only if they must be."""
    strides = k.stride()
    if strides == v.stride() and _are_aligned(k, v, strides):
        batch, heads, tokens, features = k.shape
        s0, s1, s2, _ = strides
        s0, s1 = s0 if batch > 1 else 0, s1 if heads > 1 else 0
        if s0 % s2 == 0 and s1 % s2 == 0:
            rows = (batch - 1) * (s0 // s2) + (heads - 1) * (s1 // s2) + tokens
            shape, strides = (rows, 1, features), (s2, s2, 1)
            k, v = (x.as_strided(shape, strides) for x in (k, v))
            return Keys(k, v, heads, True, s0 // s2, s1 // s2)
        if s0 % s2 == 0 and not only_sequences:
            rows = (batch - 1) * (s0 // s2) + tokens
            shape, strides = (rows, heads, features), (s2, s1, 1)
            k, v = (x.as_strided(shape, strides) for x in (k, v))
            return Keys(k, v, heads, False, s0 // s2, 0)
    k, v = (x.clone(memory_format=torch.contiguous_format) for x in (k, v))
    return _as_rows(k, v, only_sequences=True)


def _are_aligned(k: Tensor, v: Tensor, strides: tuple[int, ...]) -> bool:
    s0, s1, s2, s3 = strides
    multiple = _ALIGNMENT // k.element_size()
    return (
        s3 == 1
        and s2 > 0
        and (s0 % multiple == s1 % multiple == s2 % multiple == 0)
        and (k.data_ptr() % _ALIGNMENT == v.data_ptr() % _ALIGNMENT == 0)
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
        return out.view_as(q)
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
    device, shape = keys.k.device, (batch, heads, group, queries, parts)
    if torch.cuda.is_current_stream_capturing():
        # A replay reads what was captured: memory of the graph, not of a dictionary.
        return _spans_of(_indices_of(*shape, device), keys, ranges, length, parts)
    remembered = _unmasked if ranges.first is None else ranges.remembered
    of_indices = device.index, torch._C._cuda_getCurrentRawStream(device.index), *shape
    key = *of_indices, keys.batch_step, keys.head_step, length
    found = remembered.get(key)
    if found is None:
        indices = _indices.get(of_indices)  # the same at every length, as a decode's steps have
        if indices is None:
            indices = _indices_of(*shape, device)
            _remember(_indices, of_indices, indices)
        found = _spans_of(indices, keys, ranges, length, parts)
        _remember(remembered, key, found)
    return found


def _spans_of(indices: Indices, keys: Keys, ranges: Ranges, length: int, parts: int) -> Spans:
    starts = torch.add(indices.key, indices.row, alpha=keys.batch_step)
    starts.add_(indices.head, alpha=keys.head_step)
    if ranges.first is None or ranges.lengths is None:
        left = length - indices.key[:-1]
    else:
        starts += ranges.first.index_select(0, indices.row)
        left = ranges.lengths.index_select(0, indices.row[:-1]) - indices.key[:-1]
    return Spans(indices.queries, starts, left.clamp_(0, PART) if parts > 1 else left)


def _indices_of(
    batch: int, heads: int, group: int, queries: int, parts: int, device: torch.device
) -> Indices:
    """Return the indices of the sequences of ``heads`` heads, of which ``group`` share keys."""
    sequences = batch * heads * parts
    number = torch.arange(sequences + 1, dtype=torch.int32, device=device)
    sequence = number.clamp(max=sequences - 1)
    row_and_head = sequence.div(parts, rounding_mode="floor")
    return Indices(
        queries=number * queries,
        row=row_and_head.div(heads, rounding_mode="floor"),
        head=(row_and_head % heads).div(group, rounding_mode="floor"),
        key=sequence % parts * PART,
    )


def _remember(remembered: dict[tuple, Any], key: tuple, value: Any) -> None:
    while len(remembered) >= _REMEMBERED:
        remembered.pop(next(iter(remembered)), None)
    remembered[key] = value


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
    return out, logsumexp


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
    # It is (sequences, heads, queries rounded up). In decode all sequences have as many queries.
    return out.squeeze(0), logsumexp[:, :, :queries].transpose(0, 1).flatten(1).contiguous()


def _describe_combined(
    parts_out: Tensor, logsumexp: Tensor, lengths: Tensor, parts: int, group: int
) -> tuple[list[int], torch.dtype]:
    rows, *others = parts_out.shape
    return [rows // parts, *others], parts_out.dtype


register_fake("_combine_parts", _describe_combined)
_combine = asking_torch_for_memory(torch.ops.smem._combine_parts.default._op, _describe_combined)
