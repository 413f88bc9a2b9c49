"""Python's checks (fake tensors) and C++'s (kernels) say the same of any input, good or bad."""

from collections.abc import Callable
from typing import Any

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

import torch_smem_gemm  # noqa: F401  (registers the ops)

OPS = torch.ops.smem
FLOAT = torch.float32
SHAPES = st.lists(st.sampled_from([1, 1, 2, 3, 0]), max_size=4).map(tuple)
DTYPES = st.sampled_from([FLOAT] * 6 + [torch.float64, torch.float16, torch.int32])
TENSORS = st.tuples(SHAPES, DTYPES)
MAYBE = st.one_of(st.none(), TENSORS)


def outcome(call: Callable[[], Tensor]) -> object:
    """The error's text, or what came out."""
    try:
        result = call()
    except RuntimeError as error:
        return str(error)
    return None if result is None else (result.shape, result.dtype)


def same_in_both(op: Callable, *args: Any) -> None:
    """Call an op with fake tensors and with real ones of those shapes and dtypes."""

    def call() -> Tensor:
        made = [
            torch.zeros(arg[0], dtype=arg[1])
            if isinstance(arg, tuple) and len(arg) == 2 and isinstance(arg[1], torch.dtype)
            else arg
            for arg in args
        ]
        return op(*made[:-1], out=made[-1]) if made[-1] is not None else op(*made[:-1])

    with FakeTensorMode():
        checked_by_python = outcome(call)
    assert outcome(call) == checked_by_python


def overload(packet: Any) -> Callable:
    """The op, or its .out form where ``out`` is given."""
    return lambda *args, **out: packet.out(*args, **out) if out else packet.default(*args)


@given(a=TENSORS, b=TENSORS, bias=MAYBE, c=MAYBE, beta=st.sampled_from([0.0, 2.0]), out=MAYBE)
def test_gemm_is_checked_alike(
    a: tuple, b: tuple, bias: tuple, c: tuple, beta: float, out: tuple
) -> None:
    same_in_both(overload(OPS._gemm), a, b, bias, c, 1.0, beta, 0, 0, 1, out)


@given(x=TENSORS, weight=TENSORS, bias=MAYBE, out=MAYBE)
def test_linear_is_checked_alike(x: tuple, weight: tuple, bias: tuple, out: tuple) -> None:
    same_in_both(overload(OPS._linear), x, weight, bias, 0, 0, out)


DIMS = st.integers(-5, 4)


@given(x=TENSORS, dim0=DIMS, dim1=DIMS, out=MAYBE)
def test_transpose_is_checked_alike(x: tuple, dim0: int, dim1: int, out: tuple) -> None:
    same_in_both(overload(OPS._transpose), x, dim0, dim1, 1, out)


@given(
    x=TENSORS,
    dim=st.one_of(st.none(), st.lists(DIMS, max_size=3)),
    keepdim=st.booleans(),
    dtype=st.one_of(st.none(), DTYPES, st.just(torch.uint32)),
    out=MAYBE,
)
def test_sum_is_checked_alike(
    x: tuple, dim: list | None, keepdim: bool, dtype: torch.dtype | None, out: tuple
) -> None:
    same_in_both(overload(OPS._sum), x, dim, keepdim, dtype, 1, out)
