"""The kernel for an activation's gradient and the bias gradient: every dtype, shape and layout."""

import itertools
import math
from collections.abc import Callable

import pytest
import torch
from helpers import (
    ACTIVATION_CODES,
    ACTIVATIONS,
    assert_accurate,
    check_error_on_fake_tensors,
    every_activation,
    every_float,
    laid_out,
    normal,
    same_bits,
    short,
)
from torch import Tensor
from torch.library import opcheck
from trace_lines import record

import torch_smem_gemm as smem

OPS = torch.ops.smem
close = torch.testing.assert_close

SHAPES = [(5,), (1, 1), (1, 300), (33, 20), (2, 300, 7), (2500, 36), (3, 4097, 8), (20, 260)]


def torchs(activation: str | None) -> Callable[[Tensor, Tensor], Tensor]:
    """torch's gradient of what goes into the activation."""

    def gradient(grad: Tensor, z: Tensor) -> Tensor:
        z = z.detach().requires_grad_()
        return torch.autograd.grad(ACTIVATIONS[activation](z), z, grad)[0]

    return gradient


def rows_of(x: Tensor) -> Tensor:
    """All dimensions but the last as one."""
    return x.reshape(-1, x.shape[-1])


# ------------------------------------------------------------------------------------ the kernel


@every_float
@every_activation
def test_both_gradients(activation: str | None, dtype: torch.dtype, device: str) -> None:
    for shape in SHAPES:
        grad, z = (normal(*shape, dtype=dtype, device=device) for _ in range(2))
        dz, bias_gradient = OPS._activation_backward(grad, z, ACTIVATION_CODES[activation])
        assert dz.is_contiguous()
        assert_accurate(torchs(activation), (dz, (grad, z)))
        # The very sum that smem.sum finds, in its order.
        expected = smem.sum(rows_of(dz), 0, kernel="columns")
        assert same_bits(bias_gradient, expected), shape


@every_float
@every_activation
def test_extreme_numbers(activation: str | None, dtype: torch.dtype, device: str) -> None:
    """Zeros, tiny, huge and non-finite ones, as by torch."""
    numbers = [0.0, -0.0, 1e-7, -1e-7, 5.5, -5.5, 11.0, -11.0, 100.0, -100.0, 6e4, -6e4]
    z = [*numbers, math.inf, -math.inf, math.nan, 1.0, -1.0, 1.0]
    grad = [1.0, -2.5, *[0.5] * 13, math.inf, -math.inf, math.nan]
    z, grad = (torch.tensor(x, dtype=dtype, device=device)[None] for x in (z, grad))
    dz, _ = OPS._activation_backward(grad, z, ACTIVATION_CODES[activation])
    expected = torchs(activation)(grad.double(), z.double()).to(dtype)
    close(dz, expected, equal_nan=True)


@every_float
def test_any_strides(dtype: torch.dtype, device: str) -> None:
    for shape in ((40, 36), (3, 20, 36)):
        grad, z = (normal(*shape, dtype=dtype, device=device) for _ in range(2))
        expected = OPS._activation_backward(grad, z, 4)
        for of_grad, of_z in itertools.product(
            ("contiguous", "transposed", "unaligned", "step2", "apart"), repeat=2
        ):
            for result, wanted in zip(
                OPS._activation_backward(laid_out(grad, of_grad), laid_out(z, of_z), 4),
                expected,
                strict=True,
            ):
                assert same_bits(result, wanted), (of_grad, of_z)
        one = normal(1, dtype=dtype, device=device)
        for expanded in (one.expand(shape), grad[..., :1].expand(shape), grad[:1].expand(shape)):
            for result, wanted in zip(
                OPS._activation_backward(expanded, z, 4),
                OPS._activation_backward(expanded.contiguous(), z, 4),
                strict=True,
            ):
                assert same_bits(result, wanted)


def test_nothing_to_add_or_to_write(device: str) -> None:
    for shape in ((0, 5), (3, 0), (2, 0, 4), (0, 0)):
        z = torch.empty(shape, device=device)
        dz, bias_gradient = OPS._activation_backward(z, z, 2)
        assert dz.shape == shape
        assert torch.equal(bias_gradient, torch.zeros(shape[-1], device=device))


@every_float
def test_a_column_does_not_depend_on_the_others(dtype: torch.dtype, device: str) -> None:
    """Nor on how many there are, though the work is then shared out another way."""
    grad, z = (normal(3000, 300, dtype=dtype, device=device) for _ in range(2))
    dz, bias_gradient = OPS._activation_backward(grad, z, 3)
    for columns in (slice(0, 1), slice(7, 8), slice(0, 4), slice(4, 100), slice(3, 290)):
        part, sums = OPS._activation_backward(grad[:, columns], z[:, columns], 3)
        assert same_bits(part, dz[:, columns]), columns
        assert same_bits(sums, bias_gradient[columns]), columns
    neighbours = grad.clone()
    neighbours[:, :7], neighbours[:, 8:] = math.nan, math.inf
    assert same_bits(OPS._activation_backward(neighbours, z, 3)[1][7], bias_gradient[7])


def test_run_to_run(device: str) -> None:
    grad, z = (normal(5000, 40, dtype=torch.bfloat16, device=device) for _ in range(2))
    first = OPS._activation_backward(grad, z, 2)
    for _ in range(3):
        for result, expected in zip(OPS._activation_backward(grad, z, 2), first, strict=True):
            assert same_bits(result, expected)


@every_float
@pytest.mark.parametrize("shape", [(300, 128), (70, 36), (33, 7)], ids=short)
def test_under_the_tracer(shape: tuple, dtype: torch.dtype) -> None:
    """No fault; and whole rows are moved by whole sectors, each tensor once."""
    grad, z = (normal(*shape, dtype=dtype) for _ in range(2))
    _, launches = record(lambda: OPS._activation_backward(grad, z, 2))
    for launch in launches:
        assert not launch.faults
    if shape == (300, 128):
        for name in ("grad", "z", "dz"):
            sectors = launches[0].count("sectors", memory=name)
            assert sectors == grad.numel() * grad.element_size() // 32, name


BAD = [
    lambda t: (t(3, 4), t(3, 5), 2),
    lambda t: (t(4), t(3, 4), 2),
    lambda t: (t(), t(), 2),
    lambda t: (t(3, 4), t(3, 4), 5),
    lambda t: (t(3, 4), t(3, 4, dtype=torch.float64), 2),
    lambda t: (t(3, 4, dtype=torch.int32), t(3, 4, dtype=torch.int32), 2),
]


@pytest.mark.parametrize("call", BAD, ids=range(len(BAD)))
def test_errors_are_the_same_on_fake_tensors(call: Callable, device: str) -> None:
    check_error_on_fake_tensors("_activation_backward", call, device)


def test_opcheck(device: str) -> None:
    grad, z = (normal(6, 8, device=device) for _ in range(2))
    opcheck(OPS._activation_backward.default, (grad, z, 2))


@pytest.mark.gpu
@every_float
def test_large_on_the_gpu(dtype: torch.dtype) -> None:
    """Several chunks and blocks of every kind, beside torch."""
    for shape in ((8192, 4096), (65536, 40), (33, 20_000), (100_000, 3)):
        grad, z = (normal(*shape, dtype=dtype, device="cuda") for _ in range(2))
        dz, bias_gradient = OPS._activation_backward(grad, z, 3)
        assert_accurate(torchs("gelu_tanh"), (dz, (grad, z)))
        assert same_bits(bias_gradient, smem.sum(dz, 0))
