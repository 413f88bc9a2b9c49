"""Sharding rules: what the ops do with a DTensor, for tensor parallel and FSDP2.

There is nothing to call. The first DTensor that reaches an op imports this module, which registers
the rules: so ``import torch_smem_gemm`` does not import torch.distributed.tensor, which a program
on one device never needs, and no call pays for the question (see ``_learn_dtensor``).

A rule lists, for one dimension of the mesh, how the result may lie and how the inputs must lie for
it; DTensor takes what costs the least to reach, over all dimensions of the mesh. Where K is sharded
each process has a part of every sum, so that the result is Partial, and the addends too. An
activation must not be applied to a part: with one there is no such rule, and DTensor gathers.

amax and amin gather a sharded dimension that they reduce: an all-reduce by maximum, which torch's
own use, may lose a NaN.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.distributed.tensor import DTensor, Partial, Placement, Replicate, Shard
from torch.distributed.tensor._dtensor_spec import DTensorSpec
from torch.distributed.tensor._op_schema import RuntimeSchemaInfo
from torch.distributed.tensor.experimental import register_sharding

# Placements of the result, and of every tensor argument: None where there is none.
Layout = tuple[list[Placement], list[Placement | None]]


def _layout(result: Placement, *inputs: Placement | None) -> Layout:
    return [result], list(inputs)


def _given(x: DTensorSpec | None, placement: Placement) -> Placement | None:
    return None if x is None else placement


def _broadcast(x: DTensorSpec | None, from_end: int, size: int) -> Placement | None:
    """How ``x``, which broadcasts to the result, lies where that is sharded.

    The result has ``size`` elements in the sharded dimension, the ``from_end``-th from its end.
    """
    if x is None:
        return None
    dim = x.ndim - from_end
    return Shard(dim) if dim >= 0 and x.shape[dim] == size else Replicate()


def _gemm(
    a: DTensorSpec,
    b: DTensorSpec,
    bias: DTensorSpec | None = None,
    c: DTensorSpec | None = None,
    alpha: float = 1.0,
    beta: float = 0.0,
    activation: int = 0,
    precision: int = 0,
    kernel_id: int = 0,
    out_dtype: torch.dtype | None = None,
) -> list[Layout]:
    replicated, partial = Replicate(), Partial()
    layouts = [
        _layout(replicated, replicated, replicated, _given(bias, replicated), _given(c, replicated))
    ]
    batch = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    shape = (*batch, a.shape[-2], b.shape[-1])
    for dim, size in enumerate(shape):
        if size < 2:
            continue
        from_end = len(shape) - dim
        layouts.append(
            _layout(
                Shard(dim),
                replicated if from_end == 1 else _broadcast(a, from_end, size),
                replicated if from_end == 2 else _broadcast(b, from_end, size),
                _broadcast(bias, from_end, size),
                _broadcast(c, from_end, size),
            )
        )
    if not activation:
        by_k = Shard(a.ndim - 1), Shard(b.ndim - 2)
        layouts.append(_layout(partial, *by_k, _given(bias, partial), _given(c, partial)))
    return layouts


def _linear(
    x: DTensorSpec,
    weight: DTensorSpec,
    bias: DTensorSpec | None = None,
    activation: int = 0,
    precision: int = 0,
    out_dtype: torch.dtype | None = None,
) -> list[Layout]:
    replicated, partial = Replicate(), Partial()
    last = x.ndim - 1
    layouts = [_layout(replicated, replicated, replicated, _given(bias, replicated))]
    layouts += [
        _layout(Shard(d), Shard(d), replicated, _given(bias, replicated)) for d in range(last)
    ]
    layouts.append(_layout(Shard(last), replicated, Shard(0), _given(bias, Shard(0))))
    if not activation:
        layouts.append(_layout(partial, Shard(last), Shard(1), _given(bias, partial)))
    return layouts


def _transpose(x: DTensorSpec, dim0: int = -2, dim1: int = -1, kernel_id: int = 0) -> list[Layout]:
    moved = list(range(x.ndim))
    if moved:
        moved[dim0], moved[dim1] = moved[dim1], moved[dim0]
    layouts = [_layout(Replicate(), Replicate())]
    layouts += [_layout(Shard(to), Shard(d)) for d, to in enumerate(moved)]
    layouts += [_layout(p, p) for p in set(x.placements) if p.is_partial()]
    return layouts


def _reduction(
    x: DTensorSpec,
    dim: Sequence[int] | None,
    keepdim: bool,
    part: Callable[[int], Partial | None],
) -> list[Layout]:
    """Rules of a reduction whose results over shards of dimension ``d`` are ``part(d)``."""
    reduced = {d % x.ndim for d in dim} if dim else set(range(x.ndim))
    layouts = [_layout(Replicate(), Replicate())]
    for d in range(x.ndim):
        after = d if keepdim else d - sum(other < d for other in reduced)
        result = part(d) if d in reduced else Shard(after)
        if result is not None:
            layouts.append(_layout(result, Shard(d)))
    return layouts


def _of_parts(x: DTensorSpec, dtype: torch.dtype | None) -> list[Layout]:
    """The sum of parts is a part of the sum, unless they are converted or rounded first."""
    assert x.tensor_meta is not None
    linear = x.tensor_meta.dtype.is_floating_point and dtype in (None, x.tensor_meta.dtype)
    return [_layout(Partial(), Partial())] if linear else []


def _sum(
    x: DTensorSpec,
    dim: Sequence[int] | None = None,
    keepdim: bool = False,
    dtype: torch.dtype | None = None,
    kernel_id: int = 0,
) -> list[Layout]:
    return _reduction(x, dim, keepdim, lambda d: Partial()) + _of_parts(x, dtype)


def _mean(
    x: DTensorSpec,
    dim: Sequence[int] | None = None,
    keepdim: bool = False,
    dtype: torch.dtype | None = None,
    kernel_id: int = 0,
) -> list[Layout]:
    def part(d: int) -> Partial | None:
        # The mean of means is the mean where all shards are of one size.
        return Partial("avg") if x.shape[d] and x.shape[d] % x.mesh.size() == 0 else None

    return _reduction(x, dim, keepdim, part) + _of_parts(x, dtype)


def _extremum(
    x: DTensorSpec, dim: Sequence[int] | None = None, keepdim: bool = False, kernel_id: int = 0
) -> list[Layout]:
    return _reduction(x, dim, keepdim, lambda d: None)


def _register(name: str, rule: Callable[..., list[Layout]]) -> None:
    overloads: list[Any] = [getattr(torch.ops.smem, op).default for op in (name, f"_{name}")]
    register_sharding(overloads)(rule)
    if overloads[0]._schema.arguments[1].name == "dim":
        # DTensor remembers what it found by the arguments from the first int on, and does not
        # count a list of them.
        known = DTensor._op_dispatcher.sharding_propagator.op_to_schema_info
        known.update(dict.fromkeys(overloads, RuntimeSchemaInfo(static_argnum=1)))


_RULES: dict[str, Callable[..., list[Layout]]] = {
    "gemm": _gemm,
    "linear": _linear,
    "transpose": _transpose,
    "sum": _sum,
    "mean": _mean,
    "amax": _extremum,
    "amin": _extremum,
}
for _name, _rule in _RULES.items():
    _register(_name, _rule)
