"""scaled_dot_product_attention of the mode: torch's own kernels, one sequence of keys at a time.

torch's kernels split the keys among thread blocks where there are too few rows to fill the GPU, so
the bits depend on the batch. Its kernels for sequences of variable length (FlashAttention 2, and
memory-efficient attention for float32 and older GPUs) do not split. They are called with one
sequence per row of the batch, which begins and ends where the mask says: a row has the same bits
without padding, padded on the left and padded on the right. Where one query meets many keys
(decode), these are cut into parts of fixed length, as sequences of their own, and the parts'
results are combined in their order: the length of a part does not depend on the batch.

With gradients, with dropout, and for masks that do not cut a contiguous range of keys,
memory-efficient attention serves, its backward with the keys in one part.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor

from torch_smem_gemm.invariance.attention_mask import Ranges, ranges_of
from torch_smem_gemm.invariance.attention_sequences import attend_by_ranges
from torch_smem_gemm.invariance.forms import Kernel

_DTYPES = (torch.float16, torch.bfloat16, torch.float32)
# Sizes that the kernels ask for, in elements.
_HEAD_MULTIPLE = 8
_BIAS_MULTIPLE = 16
# custom_mask_type of aten::_efficient_attention_forward.
_NO_MASK, _CAUSAL_TOP_LEFT = 0, 1


def scaled_dot_product_attention(
    torchs: Kernel,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """torch.nn.functional.scaled_dot_product_attention with bits that the batch does not change."""
    tensors = query, key, value
    options = {"scale": scale, "enable_gqa": enable_gqa}
    if isinstance(query, (FakeTensor, FunctionalTensor)):  # while torch traces
        return torchs(*tensors, attn_mask, dropout_p, is_causal, **options)
    if type(query).__torch_dispatch__ is not Tensor.__torch_dispatch__:
        raise NotImplementedError(
            "smem.batch_invariant: scaled_dot_product_attention has no batch-invariant kernel for "
            f"{type(query).__name__}, expected plain tensors: call it on those of this device"
        )
    is_served = (
        query.dtype in _DTYPES
        and query.dtype == key.dtype == value.dtype
        and min(query.dim(), key.dim(), value.dim()) >= 2
        and min(query.numel(), key.numel(), value.numel()) > 0
    )
    if not is_served or (is_causal and attn_mask is not None):
        # float64 is made of products and softmax, which are the mode's. The rest is empty or wrong.
        return torchs(*tensors, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)
    batch = query.shape[:-3]
    if not key.shape[:-3] == value.shape[:-3] == batch:  # the comparison takes less time
        batch = torch.broadcast_shapes(*(x.shape[:-3] for x in tensors))
    q, k, v = (_four_dimensional(x, batch) for x in tensors)
    _check_heads(q, k, v, enable_gqa)
    mask = None if attn_mask is None else _four_dimensional(attn_mask, batch, expand=False)
    width, scale = v.shape[-1], 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    head = -(-max(q.shape[-1], width) // _HEAD_MULTIPLE) * _HEAD_MULTIPLE
    q, k, v = (x if x.shape[-1] == head else F.pad(x, (0, head - x.shape[-1])) for x in (q, k, v))
    differentiates = torch.is_grad_enabled() and any(
        x is not None and x.requires_grad for x in (*tensors, attn_mask)
    )
    ranges = None
    if not differentiates and not dropout_p and not (is_causal and q.shape[2] > k.shape[2]):
        if is_causal:
            k, v = (x[:, :, : q.shape[2]] for x in (k, v))
        ranges = Ranges(is_causal) if mask is None else ranges_of(mask, q.shape[0])
    if ranges is None:
        out = _dense(q, k, v, mask, dropout_p, is_causal, scale, differentiates)
    else:
        out = attend_by_ranges(q, k, v, ranges, scale)
    out = out if width == head else out[..., :width]
    return out if query.dim() == 4 else out.reshape(*batch, *query.shape[-3:-1], width)


def _four_dimensional(x: Tensor, batch: torch.Size, expand: bool = True) -> Tensor:
    """Return ``x`` as (batch, heads, length, features)."""
    while x.dim() < 4:
        x = x.unsqueeze(0)
    if len(batch) > 1:
        return x.expand(*batch, *x.shape[-3:]).flatten(0, -4)
    return x.expand(*batch, -1, -1, -1) if expand and batch and x.shape[0] != batch[0] else x


def _check_heads(q: Tensor, k: Tensor, v: Tensor, enable_gqa: bool) -> None:
    heads, of_keys = q.shape[1], k.shape[1]
    fits = heads == of_keys or (enable_gqa and heads % of_keys == 0)
    if not fits or v.shape[1] != of_keys or k.shape[2] != v.shape[2] or q.shape[3] != k.shape[3]:
        raise RuntimeError(
            "scaled_dot_product_attention: query, key and value have the shapes "
            f"{tuple(q.shape)}, {tuple(k.shape)} and {tuple(v.shape)}, expected the same lengths "
            "of key and value, the same features of query and key, and the same heads, or with "
            "enable_gqa a multiple of them in query"
        )


def _dense(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    dropout_p: float,
    is_causal: bool,
    scale: float,
    differentiates: bool,
) -> Tensor:
    """Memory-efficient attention, differentiable, with any mask."""
    group = q.shape[1] // k.shape[1]
    if group > 1:
        k, v = (x.repeat_interleave(group, 1) for x in (k, v))
    bias = None if mask is None else _bias(mask, q, k.shape[2])
    return torch.ops.aten._scaled_dot_product_efficient_attention(
        q, k, v, bias, differentiates, dropout_p, is_causal, scale=scale
    )[0]


def _bias(mask: Tensor, q: Tensor, keys: int) -> Tensor:
    """Return what is added to the scores, its rows aligned."""
    if mask.dtype == torch.bool:
        mask = torch.zeros_like(mask, dtype=q.dtype).masked_fill_(~mask, -math.inf)
    mask = mask.expand(*mask.shape[:-1], keys)
    padding = -keys % _BIAS_MULTIPLE
    if padding:
        mask = F.pad(mask, (0, padding))[..., :keys]
    return mask.expand(*q.shape[:3], keys)


def efficient_backward(
    torchs: Kernel,
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    out: Tensor,
    logsumexp: Tensor,
    seed: Tensor,
    offset: Tensor,
    dropout_p: float,
    needs: list[bool],
    is_causal: bool = False,
    *,
    scale: float | None = None,
) -> tuple[Tensor | None, ...]:
    """The backward of memory-efficient attention, with the keys in one part for every batch."""
    if bias is not None and not bias.numel():
        bias = None
    *grads, grad_bias = torch.ops.aten._efficient_attention_backward(
        *(x.transpose(1, 2) for x in (grad, query, key, value)),
        bias,
        out.transpose(1, 2),
        None,
        None,
        query.shape[2],
        key.shape[2],
        logsumexp,
        dropout_p,
        seed,
        offset,
        _CAUSAL_TOP_LEFT if is_causal else _NO_MASK,
        needs[3],
        scale=scale,
        num_splits_key=1,
    )
    return (*(x.transpose(1, 2) for x in grads), grad_bias)


KERNELS: dict[str, Kernel] = {"scaled_dot_product_attention": scaled_dot_product_attention}
KERNELS_BELOW_AUTOGRAD: dict[str, Kernel] = {
    "_scaled_dot_product_efficient_attention_backward": efficient_backward
}
