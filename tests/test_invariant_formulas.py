"""What smem.batch_invariant computes instead of torch's kernels, beside torch on the CPU."""

import itertools
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from torch_smem_gemm.invariance import convolutions, reductions
from torch_smem_gemm.invariance.attention import scaled_dot_product_attention
from torch_smem_gemm.invariance.forms import in_place, with_out

close = torch.testing.assert_close
DIMS = [None, 1, [0, 2], -1]


def unused(*args: Any, **kwargs: Any) -> Tensor:
    raise AssertionError("torch's kernel was called")


@pytest.fixture
def x() -> Tensor:
    return torch.randn(3, 5, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("name", ["var", "std", "var_mean", "std_mean"])
@pytest.mark.parametrize("correction", [0, 1, 2])
def test_variances(x: Tensor, name: str, correction: int) -> None:
    for dim, keepdim in itertools.product(DIMS, (False, True)):
        options = {"correction": correction, "keepdim": keepdim}
        ours = reductions.KERNELS[f"{name}.correction"](unused, x, dim, **options)
        close(ours, getattr(torch, name)(x, dim, **options))


@pytest.mark.parametrize("order", [0, 0.5, 1, 2, 3])
def test_norms(x: Tensor, order: float) -> None:
    for dim, keepdim in itertools.product(DIMS, (False, True)):
        ours = reductions.vector_norm(unused, x, order, dim, keepdim)
        close(ours, torch.linalg.vector_norm(x, order, dim, keepdim))


def test_norm_of_complex_numbers() -> None:
    x = torch.randn(3, 4, dtype=torch.complex64)
    close(reductions.vector_norm(unused, x, 2, -1), torch.linalg.vector_norm(x, 2, -1))


def test_sums(x: Tensor) -> None:
    x[0, 0, 0] = torch.nan
    for dim, keepdim in itertools.product(DIMS, (False, True)):
        ours = reductions.KERNELS["nansum"](unused, x, dim, keepdim)
        close(ours, x.nansum(dim, keepdim))
    close(reductions.sum(unused, x[1], 0, dtype=torch.float32), x[1].float().sum(0))


def test_a_sum_of_integers_stays_torchs() -> None:
    x = torch.arange(6).view(2, 3)
    assert torch.equal(reductions.sum(torch.sum, x, 1), x.sum(1))


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_products_and_scans(x: Tensor, dim: int) -> None:
    close(reductions.prod(unused, x, dim), x.prod(dim))
    close(reductions.prod(unused, x, dim, True), x.prod(dim, True))
    for name, torchs in (("cumsum", torch.cumsum), ("cumprod", torch.cumprod)):
        close(reductions.KERNELS[name](torchs, x, dim), torchs(x, dim))
        narrow = x.bfloat16()
        assert reductions.KERNELS[name](torchs, narrow, dim).dtype == torch.bfloat16


def test_product_of_all(x: Tensor) -> None:
    close(reductions.prod_of_all(unused, x), x.prod())
    close(reductions.prod(unused, x[0, 0, 0], 0), x[0, 0, 0])


@pytest.mark.parametrize("dim", [0, -1])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gradients_of_softmax(x: Tensor, dim: int, dtype: torch.dtype) -> None:
    x = x.to(dtype).requires_grad_()
    grad = torch.cos(x.detach())
    for function, ours in (
        (torch.softmax, reductions.softmax_backward),
        (torch.log_softmax, reductions.log_softmax_backward),
    ):
        y = function(x, dim)
        saved = y.detach().clone()
        close(ours(unused, grad, saved, dim, dtype), torch.autograd.grad(y, x, grad)[0])
        assert torch.equal(saved, y)  # not written to


def test_a_wide_row_that_is_not_aligned_is_computed_in_float32() -> None:
    called = []

    def torchs(x: Tensor, dim: int, half_to_float: bool) -> Tensor:
        called.append(x.dtype)
        return x.softmax(dim)

    for width in (1000, 1024, 1032, 1025):
        x = torch.zeros(2, width, dtype=torch.bfloat16)
        assert reductions.softmax(torchs, x, -1, False).dtype == torch.bfloat16
    assert called == [torch.bfloat16] * 3 + [torch.float32]


CONVOLUTIONS = [
    (n, *options)
    for n in (1, 2, 3)
    for options in itertools.product((1, 2), (0, 1), (1, 2), (1, 2), (False, True), (0, 1))
    if not options[-1] or (options[4] and options[-1] < max(options[0], options[2]))
]


@pytest.mark.parametrize("options", CONVOLUTIONS, ids=str)
def test_convolutions_and_their_gradients(options: tuple) -> None:
    n, stride, padding, dilation, groups, transposed, extra = options
    torch.manual_seed(0)
    channels = (4, 6 // groups) if transposed else (6, 4 // groups)
    x = torch.randn(2, 4, *(7, 8, 6)[:n], dtype=torch.float64, requires_grad=True)
    weight = torch.randn(*channels, *(3, 2, 3)[:n], dtype=torch.float64, requires_grad=True)
    bias = torch.randn(6, dtype=torch.float64, requires_grad=True)
    if transposed:
        torchs = getattr(F, f"conv_transpose{n}d")
        y = torchs(x, weight, bias, stride, padding, extra, groups, dilation)
    else:
        torchs = getattr(F, f"conv{n}d")
        y = torchs(x, weight, bias, stride, padding, dilation, groups)
    window = [stride], [padding], [dilation], transposed, [extra], groups
    leaves = x, weight, bias
    detached = [leaf.detach() for leaf in leaves]
    close(convolutions.convolution(unused, *detached, *window), y)
    grad = torch.randn_like(y)
    ours = convolutions.convolution_backward(
        torch.sum, grad, *detached[:2], [6], *window, [True, True, True]
    )
    for mine, expected in zip(ours, torch.autograd.grad(y, leaves, grad), strict=True):
        close(mine, expected)


def test_form_with_out(x: Tensor) -> None:
    def double(torchs: Any, x: Tensor) -> Tensor:
        return 2 * x

    out = torch.empty(0, dtype=x.dtype)
    assert with_out(double)(unused, x, out=out) is out
    assert torch.equal(out, 2 * x)


def test_form_with_out_of_torchs_kernel(x: Tensor) -> None:
    def delegating(torchs: Any, x: Tensor) -> Tensor:
        return torchs(x)

    out = torch.empty_like(x)
    assert with_out(delegating)(torch.sin, x, out=out) is out
    assert torch.equal(out, x.sin())


def test_form_in_place(x: Tensor) -> None:
    def double(torchs: Any, x: Tensor) -> Tensor:
        return 2 * x

    expected = 2 * x
    assert in_place(double)(unused, x) is x
    assert torch.equal(x, expected)


class Dispatches(Tensor):
    """A tensor that handles torch's operators itself, as a DTensor does."""

    @classmethod
    def __torch_dispatch__(
        cls, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        raise AssertionError


def test_attention_of_other_tensors() -> None:
    q = torch.randn(1, 2, 3, 8)
    with pytest.raises(NotImplementedError, match="no batch-invariant kernel for Dispatches"):
        scaled_dot_product_attention(unused, q.as_subclass(Dispatches), q, q)
    with FakeTensorMode() as mode:
        fake = mode.from_tensor(q)
        traced = scaled_dot_product_attention(F.scaled_dot_product_attention, fake, fake, fake)
    assert traced.shape == q.shape
