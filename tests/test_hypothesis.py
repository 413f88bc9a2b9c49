"""Shapes, strides, dtypes and kernels that nobody thought of: exact numbers against float64.

The inputs hold small integers, so that every sum is exact in float32 and each kernel must give the
reference, rounded once.
"""

from collections.abc import Callable

import pytest
import torch
from gemm_kernels import takes
from helpers import (
    FLOATS,
    GEMMS,
    SUMS,
    TENSOR_CORE_GEMMS,
    TRANSPOSES,
    any_bits,
    floats_of,
    poisoned,
    same_bits,
    small_integers,
    torch_gemm,
    wide,
)
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import torch_smem_gemm as smem

SIZES = st.one_of(st.integers(0, 5), st.integers(6, 40), st.sampled_from([16, 32, 33, 64, 65]))
TRANSPOSABLE = [torch.bool, torch.uint8, torch.bfloat16, torch.float32, torch.int64]
SUMMABLE = [*FLOATS, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool]


def filled(shape: tuple, dtype: torch.dtype, device: str) -> Tensor:
    """Small integers; without negative ones where the dtype has none.

    So small that even ATen, which rounds after each operation, loses nothing.
    """
    x = small_integers(*shape, device=device, limit=1 if dtype == torch.bfloat16 else 2)
    return (x if dtype.is_signed or dtype == torch.bool else x.abs()).to(dtype)


@st.composite
def strided(draw: st.DrawFn, shape: tuple, make: Callable[[tuple], Tensor]) -> Tensor:
    """A tensor of that shape: dimensions in any order, with steps, offsets, or expanded."""
    rank = len(shape)
    order = draw(st.permutations(range(rank)))
    steps = draw(st.lists(st.integers(1, 3), min_size=rank, max_size=rank))
    offsets = draw(st.lists(st.integers(0, 2), min_size=rank, max_size=rank))
    expand = draw(st.lists(st.integers(0, 5), min_size=rank, max_size=rank))
    buffer = make(tuple(offsets[d] + (1 if expand[d] == 0 else steps[d] * shape[d]) for d in order))
    view = buffer.permute([order.index(d) for d in range(rank)])
    view = view[tuple(slice(offsets[d], None, steps[d]) for d in range(rank))]
    view = view[tuple(slice(0, 1 if expand[d] == 0 else shape[d]) for d in range(rank))]
    return view.expand(shape)


@st.composite
def broadcast_to(draw: st.DrawFn, shape: tuple) -> tuple:
    """A shape that broadcasts to ``shape``."""
    shape = shape[draw(st.integers(0, len(shape))) :]
    ones = draw(st.lists(st.integers(0, 3), min_size=len(shape), max_size=len(shape)))
    return tuple(1 if one == 0 else size for one, size in zip(ones, shape, strict=True))


def out_for(draw: st.DrawFn, shape: tuple, dtype: torch.dtype, device: str) -> Tensor:
    """A poisoned ``out`` of any strides but expanded ones."""
    rank = len(shape)
    order = draw(st.permutations(range(rank)))
    steps = draw(st.lists(st.integers(1, 3), min_size=rank, max_size=rank))
    buffer = poisoned([steps[d] * shape[d] + 1 for d in order], dtype, device)
    view = buffer.permute([order.index(d) for d in range(rank)])
    view = view[tuple(slice(0, None, step) for step in steps)]
    return view[tuple(slice(0, size) for size in shape)]


def start(data: st.DataObject) -> st.DrawFn:
    """Seed torch's numbers, so that an example can be repeated; give the function that draws."""
    torch.manual_seed(data.draw(st.integers(0, 2**16), label="seed"))
    return data.draw


def choices_on(device: str) -> list[tuple[str, torch.dtype]]:
    """The GEMM kernels that run on a device, with each of their dtypes."""
    return [
        (kernel, dtype)
        for kernel in ("auto", *GEMMS, *TENSOR_CORE_GEMMS)
        for dtype in floats_of(kernel)
        if takes(kernel, dtype, device)
    ]


@given(data=st.data())
def test_gemm(device: str, data: st.DataObject) -> None:
    draw = start(data)
    kernel, dtype = draw(st.sampled_from(choices_on(device)))
    m, n, k = draw(SIZES), draw(SIZES), draw(SIZES)
    batch = tuple(draw(st.lists(st.integers(0, 3), max_size=3)))

    def operand(shape: tuple) -> Tensor:
        return draw(strided(shape, lambda size: filled(size, dtype, device)))

    a = operand((*draw(broadcast_to(batch)), m, k))
    b = operand((*draw(broadcast_to(batch)), k, n))
    result_shape = (*torch.broadcast_shapes(a.shape[:-2], b.shape[:-2]), m, n)
    bias = operand((n,)) if draw(st.booleans()) else None
    c, beta = None, 0.0
    if draw(st.booleans()):
        c = operand(draw(broadcast_to(result_shape)))
        beta = draw(st.sampled_from([0.0, 1.0, -2.0]))
    alpha = draw(st.sampled_from([1.0, -1.0, 2.0, 0.0]))
    activation = draw(st.sampled_from([None, "relu"]))

    out = out_for(draw, result_shape, dtype, device)
    options = {"bias": bias, "c": c, "alpha": alpha, "beta": beta, "activation": activation}
    smem.gemm(a, b, **options, kernel=kernel, out=out)
    result = smem.gemm(a, b, **options, kernel=kernel)
    expected = torch_gemm(*wide(a, b, bias, c), alpha, beta, activation).to(dtype)
    assert torch.equal(out, expected)
    assert torch.equal(result, expected)
    assert result.is_contiguous()


@given(data=st.data())
def test_linear(device: str, data: st.DataObject) -> None:
    draw = start(data)
    dtype, n, k = draw(st.sampled_from(FLOATS)), draw(SIZES), draw(SIZES)

    def operand(shape: tuple) -> Tensor:
        return draw(strided(shape, lambda size: filled(size, dtype, device)))

    x = operand((*draw(st.lists(st.integers(0, 5), max_size=4)), k))
    weight, bias = operand((n, k)), operand((n,)) if draw(st.booleans()) else None
    expected = torch.nn.functional.linear(*wide(x, weight, bias)).to(dtype)
    assert torch.equal(smem.linear(x, weight, bias), expected)
    assert torch.equal(smem.linear(x, weight, bias, activation="relu"), expected.relu())


@given(data=st.data())
def test_transpose(device: str, data: st.DataObject) -> None:
    draw = start(data)
    kernel = draw(st.sampled_from(["auto", *TRANSPOSES]))
    dtype = draw(st.sampled_from(TRANSPOSABLE))
    sizes = st.one_of(st.integers(1, 5), st.integers(0, 40))
    shape = tuple(draw(st.lists(sizes, max_size=2)) + draw(st.lists(st.integers(1, 3), max_size=4)))
    x = draw(strided(shape, lambda size: any_bits(*size, dtype=dtype, device=device)))
    limit = max(len(shape), 1)
    dim0, dim1 = draw(st.integers(-limit, limit - 1)), draw(st.integers(-limit, limit - 1))
    expected = x.transpose(dim0, dim1)
    out = out_for(draw, tuple(expected.shape), dtype, device)
    smem.transpose(x, dim0, dim1, kernel=kernel, out=out)
    result = smem.transpose(x, dim0, dim1, kernel=kernel)
    assert same_bits(out, expected)
    assert same_bits(result, expected)
    assert result.is_contiguous()


@given(data=st.data())
def test_sum(device: str, data: st.DataObject) -> None:
    draw = start(data)
    kernel = draw(st.sampled_from(["auto", *SUMS]))
    dtype, dtype_to = (draw(st.sampled_from(SUMMABLE)) for _ in range(2))
    sizes = st.one_of(st.integers(1, 5), st.integers(0, 40))
    shape = tuple(draw(st.lists(sizes, max_size=2)) + draw(st.lists(st.integers(1, 3), max_size=4)))
    x = draw(strided(shape, lambda size: filled(size, dtype, device)))
    if dtype_to == torch.uint8 and dtype.is_signed:
        dtype_to = None  # a float below zero has no uint8
    dims = draw(st.one_of(st.none(), st.sets(st.integers(0, max(len(shape) - 1, 0)))))
    dims = None if dims is None else [d - len(shape) if draw(st.booleans()) else d for d in dims]
    keepdim = draw(st.booleans())

    wide_to = dtype_to or dtype
    exact = torch.float64 if wide_to.is_floating_point else dtype_to
    expected = torch.sum(x, dims, keepdim, dtype=exact)
    if wide_to.is_floating_point:
        expected = expected.to(wide_to)
    out = out_for(draw, tuple(expected.shape), expected.dtype, device)
    smem.sum(x, dims, keepdim, dtype=dtype_to, kernel=kernel, out=out)
    result = smem.sum(x, dims, keepdim, dtype=dtype_to, kernel=kernel)
    assert result.dtype == expected.dtype
    assert torch.equal(result, expected)
    assert torch.equal(out, expected)


# gemv has an order of its own (test_gemv.py), which differs where out has one column.
@given(data=st.data())
@pytest.mark.parametrize("kernel", [name for name in GEMMS if name not in (GEMMS[0], "gemv")])
def test_kernels_agree_in_every_bit(device: str, kernel: str, data: st.DataObject) -> None:
    draw = start(data)
    dtype, (m, n, k) = draw(st.sampled_from(FLOATS)), draw(st.tuples(SIZES, SIZES, SIZES))
    a, b = (
        draw(strided(s, lambda size: torch.randn(size, device=device).to(dtype)))
        for s in ((m, k), (k, n))
    )
    alpha = draw(st.floats(-4, 4, width=32))
    results = [smem.gemm(a, b, alpha=alpha, kernel=name) for name in (kernel, GEMMS[0])]
    assert same_bits(*results)
