"""Sharding rules for DTensor inputs, for tensor parallel and FSDP2.

There is nothing to call. The first DTensor that reaches an op imports this module, which registers
the rules. So ``import torch_smem_gemm`` does not import torch.distributed.tensor, which a program
on one device never needs, and calls without a DTensor have no overhead (see ``_learn_dtensor``).

For one dimension of the mesh, a rule lists the possible placements of the result, each with the
placements of the inputs that it requires; DTensor selects the cheapest over all dimensions of the
mesh. If K is sharded, each process computes a partial sum, so the result is Partial, and so are the
addends. An activation cannot be applied to a partial sum: with an activation there is no such rule,
and DTensor gathers.

amax and amin gather a sharded dimension that they reduce. The all-reduce by maximum that torch's
own ops use can lose a NaN.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch.distributed.tensor import DTensor, Partial, Placement, Replicate, Shard
from torch.distributed.tensor._dtensor_spec import DTensorSpec
from torch.distributed.tensor._op_schema import RuntimeSchemaInfo
from torch.distributed.tensor.experimental import register_sharding

from torch_smem_gemm.ops._schema import arguments_type

# Placements of the result, and of every tensor argument; None for an argument that is None.
Layout = tuple[list[Placement], list[Placement | None]]
# Returns the layouts that a call allows; it takes the op's arguments by name (``arguments_type``).
Rule = Callable[[Any], list[Layout]]


def _layout(result: Placement, *inputs: Placement | None) -> Layout:
    return [result], list(inputs)


def _given(x: DTensorSpec | None, placement: Placement) -> Placement | None:
    return None if x is None else placement


def _broadcast(x: DTensorSpec | None, from_end: int, size: int) -> Placement | None:
    """Return the placement of ``x``, which broadcasts to the result, if the result is sharded.

    The result has ``size`` elements in the sharded dimension, the ``from_end``-th from its end.
    """
    if x is None:
        return None
    dim = x.ndim - from_end
    return Shard(dim) if dim >= 0 and x.shape[dim] == size else Replicate()


def _gemm(given: Any) -> list[Layout]:
    a, b, bias, c = given.a, given.b, given.bias, given.c
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
    if not given.activation:
        by_k = Shard(a.ndim - 1), Shard(b.ndim - 2)
        layouts.append(_layout(partial, *by_k, _given(bias, partial), _given(c, partial)))
    return layouts


def _linear(given: Any) -> list[Layout]:
    bias = given.bias
    replicated, partial = Replicate(), Partial()
    last = given.x.ndim - 1
    layouts = [_layout(replicated, replicated, replicated, _given(bias, replicated))]
    layouts += [
        _layout(Shard(d), Shard(d), replicated, _given(bias, replicated)) for d in range(last)
    ]
    layouts.append(_layout(Shard(last), replicated, Shard(0), _given(bias, Shard(0))))
    if not given.activation:
        layouts.append(_layout(partial, Shard(last), Shard(1), _given(bias, partial)))
    return layouts


def _with_preactivation(rule: Rule) -> Rule:
    """Return the rule for the form of the op whose second result is sharded like the first."""

    def rule_of_both(given: Any) -> list[Layout]:
        return [(results * 2, inputs) for results, inputs in rule(given)]

    return rule_of_both


def _transpose(given: Any) -> list[Layout]:
    x, dim0, dim1 = given.x, given.dim0, given.dim1
    moved = list(range(x.ndim))
    if moved:
        moved[dim0], moved[dim1] = moved[dim1], moved[dim0]
    layouts = [_layout(Replicate(), Replicate())]
    layouts += [_layout(Shard(to), Shard(d)) for d, to in enumerate(moved)]
    layouts += [_layout(p, p) for p in set(x.placements) if p.is_partial()]
    return layouts


def _reduction(given: Any, result_of_shards: Callable[[int], Partial | None]) -> list[Layout]:
    """Return the rules of a reduction over shards of dimension d: ``result_of_shards(d)``."""
    x, keepdim = given.x, given.keepdim
    dims = given.dim if x.ndim else ()  # 0 and -1 also name the one of a scalar
    reduced = {d % x.ndim for d in dims} if dims else set(range(x.ndim))
    layouts = [_layout(Replicate(), Replicate())]
    for d in range(x.ndim):
        after = d if keepdim else d - sum(other < d for other in reduced)
        result = result_of_shards(d) if d in reduced else Shard(after)
        if result is not None:
            layouts.append(_layout(result, Shard(d)))
    return layouts


def _partial_inputs(given: Any) -> list[Layout]:
    """A sum of partial inputs is a partial sum, unless they are converted or rounded first."""
    assert given.x.tensor_meta is not None
    dtype = given.x.tensor_meta.dtype
    linear = dtype.is_floating_point and given.dtype in (None, dtype)
    return [_layout(Partial(), Partial())] if linear else []


def _sum(given: Any) -> list[Layout]:
    return _reduction(given, lambda d: Partial()) + _partial_inputs(given)


def _mean(given: Any) -> list[Layout]:
    def mean_of_means(d: int) -> Partial | None:
        # The mean of means is the mean only where all shards have the same size.
        size = given.x.shape[d]
        return Partial("avg") if size and size % given.x.mesh.size() == 0 else None

    return _reduction(given, mean_of_means) + _partial_inputs(given)


def _extremum(given: Any) -> list[Layout]:
    return _reduction(given, lambda d: None)


def _register(name: str, rule: Rule) -> None:
    overloads: list[Any] = [getattr(torch.ops.smem, op).default for op in (name, f"_{name}")]
    arguments = arguments_type(name)
    register_sharding(overloads)(lambda *args, **options: rule(arguments(*args, **options)))
    if overloads[0]._schema.arguments[1].name == "dim":
        # DTensor caches its decisions by the arguments from the first int on. A list of ints does
        # not count as an int, so `dim` has to be declared.
        known = DTensor._op_dispatcher.sharding_propagator.op_to_schema_info
        known.update(dict.fromkeys(overloads, RuntimeSchemaInfo(static_argnum=1)))


_RULES: dict[str, Rule] = {
    "gemm": _gemm,
    "linear": _linear,
    "gemm_with_preactivation": _with_preactivation(_gemm),
    "linear_with_preactivation": _with_preactivation(_linear),
    "transpose": _transpose,
    "sum": _sum,
    "mean": _mean,
    "amax": _extremum,
    "amin": _extremum,
}
for _name, _rule in _RULES.items():
    _register(_name, _rule)
