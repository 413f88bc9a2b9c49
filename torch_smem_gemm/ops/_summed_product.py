"""A product summed over batch dimensions and rounded once: the gradient of a broadcast operand.

The sum over a batch dimension S of ``x[s] @ y[s]`` is one product whose inner dimension combines S
with K. It is computed as one product if the strides of x and y allow that, or if copies are no
larger than the batch of products. Otherwise the products are stored and summed. 16-bit products are
stored in float32, for one part of the result's rows (or columns) at a time, so that they need no
more memory than a batch of 16-bit products.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from torch_smem_gemm.ops.sum import sum_to_shape

# product(x, y, out_dtype): x @ y, batch dimensions broadcast, differentiably.
Product = Callable[[Tensor, Tensor, torch.dtype | None], Tensor]

_PARTS = 3  # a third in float32 with its sum takes less memory than all in 16 bits
_SMALL = 2**20  # bytes; torch's allocator does not free smaller units


def summed_product(product: Product, x: Tensor, y: Tensor, shape: Sequence[int]) -> Tensor:
    """Return ``x @ y`` summed down to ``shape``, to which the batch dimensions broadcast.

    Args:
        product: the multiplication.
        x: (..., M, K).
        y: (..., K, N), with the size of x, or 1, in each batch dimension, or the other way round;
            with the same size in those to be summed.
        shape: (..., M, N), without, or with 1 for, the batch dimensions to be summed.
    """
    rank = max(x.dim(), y.dim())
    if rank == 2:
        return product(x, y, None)
    x, y = (z if z.dim() == rank else z[(None,) * (rank - z.dim())] for z in (x, y))
    batch = [n if m == 1 else m for m, n in zip(x.shape[:-2], y.shape[:-2], strict=True)]
    extra = rank - len(shape)
    summed = [
        d for d, size in enumerate(batch) if size != 1 and (d < extra or shape[d - extra] == 1)
    ]
    if not summed:
        return product(x, y, None).reshape(shape)
    if hasattr(x, "placements") or hasattr(y, "placements"):
        into_one = math.prod(batch[d] for d in summed) == math.prod(batch)
        return _of_dtensors(product, x, y, into_one, shape)
    copied = sum(z.numel() for z in (x.mT, y) if not _can_merge(z, summed))
    if copied <= math.prod(batch) * x.shape[-2] * y.shape[-1]:
        return product(_merged(x.mT, summed).mT, _merged(y, summed), None).reshape(shape)
    return _by_parts(product, x, y, math.prod(batch), shape)


def _can_merge(z: Tensor, summed: list[int]) -> bool:
    """Whether the ``summed`` dimensions and the rows can be one dimension without a copy."""
    dims = [d for d in (*summed, z.dim() - 2) if z.shape[d] != 1]
    return all(
        z.stride(outer) == z.stride(inner) * z.shape[inner]
        for outer, inner in itertools.pairwise(dims)
    )


def _merged(z: Tensor, summed: list[int]) -> Tensor:
    """Merge the ``summed`` dimensions and the rows into one dimension; copy only if necessary."""
    rows, columns = z.dim() - 2, z.dim() - 1
    kept = [d for d in range(rows) if d not in summed]
    sizes = [z.shape[d] for d in kept]
    length = math.prod(z.shape[d] for d in summed) * z.shape[rows]
    if z.stride(rows) < z.stride(columns):  # a copy keeps the order of elements within a matrix
        z = z.permute(*kept, columns, *summed, rows)
        return z.reshape(*sizes, z.shape[len(kept)], length).mT
    return z.permute(*kept, *summed, rows, columns).reshape(*sizes, length, z.shape[-1])


def _by_parts(product: Product, x: Tensor, y: Tensor, batch: int, shape: Sequence[int]) -> Tensor:
    """Sum a batch of products; 16-bit ones in float32, one part of the result at a time."""
    dtype, wide = x.dtype, wide_dtype(x)
    m, n = x.shape[-2], y.shape[-1]
    parts = 1 if wide is None or 4 * batch * m * n <= _SMALL else _PARTS
    by_rows = m >= n
    pairs = [(part, y) for part in x.chunk(parts, -2)] if by_rows else []
    pairs = pairs or [(x, part) for part in y.chunk(parts, -1)]
    sums = [
        sum_to_shape(z, (*shape[:-2], *z.shape[-2:])).to(dtype)
        for z in (product(x, y, wide) for x, y in pairs)
    ]
    return sums[0] if len(sums) == 1 else torch.cat(sums, -2 if by_rows else -1)


def wide_dtype(x: Tensor) -> torch.dtype | None:
    """Return the dtype to sum products in, None for their own."""
    return torch.float32 if x.element_size() == 2 else None


def _of_dtensors(product: Product, x: Any, y: Any, into_one: bool, shape: Sequence[int]) -> Tensor:
    """Return ``summed_product`` of DTensors; ``into_one``: all batch dimensions are summed.

    torch merges only dimensions that are sharded evenly, and in the first of them.
    """
    rows = x.dim() - 1  # how many dimensions are merged where all can be
    sharded = {
        (placement.dim, tensor.shape[placement.dim] % tensor.device_mesh.size() == 0)
        for tensor in (x.mT, y)
        for placement in getattr(tensor, "placements", ())
        if placement.is_shard() and placement.dim < rows
    }
    if not into_one or len(sharded) > 1 or not all(even for _, even in sharded):
        return sum_to_shape(product(x, y, wide_dtype(x)), shape).to(x.dtype)
    first = next((dim for dim, _ in sharded), 0)
    x, y = (z.movedim(first, 0).reshape(math.prod(z.shape[:-1]), z.shape[-1]) for z in (x.mT, y))
    return product(x.mT, y, None).reshape(shape)
