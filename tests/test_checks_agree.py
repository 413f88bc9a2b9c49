"""Python's checks (fake tensors) and C++'s (kernels) say the same of any call, good or bad.

A call is drawn to be good; then, now and then, a shape or a dtype in it is drawn anew.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

import torch_smem_gemm  # noqa: F401  (registers the ops)

OPS = torch.ops.smem
DTYPES = st.sampled_from(
    [torch.float32] * 6 + [torch.float64, torch.float16, torch.int32, torch.uint32]
)
SIZES = st.sampled_from([0, 1, 2, 3])
SHAPES = st.lists(SIZES, max_size=4).map(tuple)
DIMS = st.integers(-5, 4)
SELDOM = st.integers(0, 24).map(lambda n: n == 24)
many = settings(max_examples=300)


class Spec:
    """A tensor to be made: now a fake one, now a real one."""

    def __init__(self, draw: st.DrawFn, shape: Sequence[int], dtype: torch.dtype) -> None:
        self.shape = draw(SHAPES) if draw(SELDOM) else tuple(shape)
        self.dtype = draw(DTYPES) if draw(SELDOM) else dtype
        self.expanded = draw(SELDOM)

    def make(self) -> Tensor:
        """The tensor."""
        if self.expanded:
            return torch.zeros((), dtype=self.dtype).expand(self.shape)
        return torch.zeros(self.shape, dtype=self.dtype)


def outcome(call: Callable[[], Tensor | None]) -> object:
    """The error's text, or what came out."""
    try:
        result = call()
    except RuntimeError as error:
        return str(error)
    return None if result is None else (result.shape, result.dtype)


def same_in_both(packet: Any, args: Sequence[Any], out: Spec | None) -> None:
    """Call an op, or its .out form, with fake tensors and with real ones."""

    def call() -> Tensor | None:
        made = [arg.make() if isinstance(arg, Spec) else arg for arg in args]
        return packet.default(*made) if out is None else packet.out(*made, out=out.make())

    with FakeTensorMode():
        checked_by_python = outcome(call)
    assert outcome(call) == checked_by_python


def some_of(draw: st.DrawFn, shape: Sequence[int]) -> list[int]:
    """A shape that broadcasts to ``shape``."""
    shape = shape[draw(st.integers(0, len(shape))) :]
    return [draw(st.sampled_from([1, size])) for size in shape]


def maybe(draw: st.DrawFn, shape: Sequence[int], dtype: torch.dtype) -> Spec | None:
    """A tensor or None."""
    return Spec(draw, shape, dtype) if draw(st.booleans()) else None


def codes(draw: st.DrawFn) -> tuple[int, int]:
    """An activation and a precision."""
    return (draw(st.integers(-1, 5)) if draw(SELDOM) else 0, draw(st.integers(-1, 4)))


def asked_for(draw: st.DrawFn) -> torch.dtype | None:
    """An out_dtype, mostly none."""
    return draw(DTYPES) if draw(st.integers(0, 3)) == 3 else None


@many
@given(data=st.data())
def test_gemm(data: st.DataObject) -> None:
    draw = data.draw
    dtype, (m, n, k) = draw(DTYPES), draw(st.tuples(SIZES, SIZES, SIZES))
    batch = draw(st.lists(SIZES, max_size=2))
    batches = some_of(draw, batch), some_of(draw, batch)
    result = [*torch.broadcast_shapes(*batches), m, n]
    args = (
        Spec(draw, (*batches[0], m, k), dtype),
        Spec(draw, (*batches[1], k, n), dtype),
        maybe(draw, (n,), dtype),
        maybe(draw, some_of(draw, result), dtype),
        *(1.0, draw(st.sampled_from([0.0, 2.0])), *codes(draw), 1),
        out_dtype := asked_for(draw),
    )
    same_in_both(OPS._gemm, args, maybe(draw, result, out_dtype or dtype))


@many
@given(data=st.data())
def test_linear(data: st.DataObject) -> None:
    draw = data.draw
    dtype, (n, k) = draw(DTYPES), draw(st.tuples(SIZES, SIZES))
    batch = draw(st.lists(SIZES, max_size=3))
    args = (
        Spec(draw, (*batch, k), dtype),
        Spec(draw, (n, k), dtype),
        maybe(draw, (n,), dtype),
        *codes(draw),
        out_dtype := asked_for(draw),
    )
    same_in_both(OPS._linear, args, maybe(draw, (*batch, n), out_dtype or dtype))


@many
@given(data=st.data())
def test_transpose(data: st.DataObject) -> None:
    draw = data.draw
    dtype, shape, dims = draw(DTYPES), draw(SHAPES), draw(st.tuples(DIMS, DIMS))
    fits = shape and all(-len(shape) <= dim < len(shape) for dim in dims)
    result = torch.empty(shape, device="meta").transpose(*dims).shape if fits else shape
    out = maybe(draw, result, dtype)
    same_in_both(OPS._transpose, (Spec(draw, shape, dtype), *dims, 1), out)


@many
@given(data=st.data())
def test_sum(data: st.DataObject) -> None:
    draw = data.draw
    dtype, shape, keepdim = draw(DTYPES), draw(SHAPES), draw(st.booleans())
    dims = draw(st.one_of(st.none(), st.lists(DIMS, max_size=3)))
    dtype_to = draw(st.one_of(st.none(), DTYPES))
    try:
        result = torch.empty(shape, device="meta").sum(dims, keepdim).shape
    except (IndexError, RuntimeError):
        result = shape
    out = maybe(draw, result, dtype_to or dtype)
    same_in_both(OPS._sum, (Spec(draw, shape, dtype), dims, keepdim, dtype_to, 1), out)


@many
@given(data=st.data())
def test_other_reductions(data: st.DataObject) -> None:
    draw = data.draw
    dtype, shape, keepdim = draw(DTYPES), draw(SHAPES), draw(st.booleans())
    dims = draw(st.one_of(st.none(), st.lists(DIMS, max_size=3)))
    name = draw(st.sampled_from(["mean", "amax", "amin"]))
    dtype_to = [draw(st.one_of(st.none(), DTYPES))] if name == "mean" else []
    try:
        result = torch.empty(shape, device="meta").sum(dims, keepdim).shape
    except (IndexError, RuntimeError):
        result = shape
    out = maybe(draw, result, (dtype_to and dtype_to[0]) or dtype)
    args = (Spec(draw, shape, dtype), dims, keepdim, *dtype_to, 3)
    same_in_both(getattr(OPS, f"_{name}"), args, out)
