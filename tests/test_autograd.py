"""Gradients of first and second order, through smem.* and torch.ops.smem.*, with every kernel."""

import itertools
import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from helpers import (
    ACTIVATIONS,
    FLOATS_BUT_TWO_BY_SWEEP,
    GEMMS,
    SUMS,
    TRANSPOSES,
    assert_accurate,
    short,
    torch_gemm,
)
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

import torch_smem_gemm as smem

OPS = torch.ops.smem
ACTIVATION_CODES = {name: code for code, name in enumerate(ACTIVATIONS)}
every_activation = pytest.mark.parametrize("activation", ACTIVATIONS)
every_gemm = pytest.mark.parametrize("kernel", ["auto", *GEMMS])


def code_of(op: str, kernel: str) -> int:
    """The integer that stands for a kernel in the schemas."""
    return ["auto", *(row.name for row in smem.kernels(op))].index(kernel)


def double(*shape: int, device: str) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, device=device, requires_grad=True)


def check(function: Callable[..., Tensor], *inputs: Tensor, fast: bool = False) -> None:
    """Gradients of first and second order against finite differences; fast: along one direction."""
    assert gradcheck(function, inputs, fast_mode=fast)
    assert gradgradcheck(function, inputs, fast_mode=fast)


ENDS = ("auto", GEMMS[-1])
SHAPES = [((3, 4), (4, 5)), ((2, 3, 4), (4, 5)), ((3, 4), (2, 4, 5)), ((2, 1, 3, 4), (3, 4, 2))]


@pytest.mark.parametrize(
    ("kernel", "shapes"),
    [
        # How shapes broadcast is no business of the kernel.
        pytest.param(kernel, shapes, marks=[] if kernel in ENDS or i == 0 else [pytest.mark.sweep])
        for kernel in ("auto", *GEMMS)
        for i, shapes in enumerate(SHAPES)
    ],
    ids=short,
)
def test_gemm(kernel: str, shapes: tuple, device: str) -> None:
    a, b = (double(*shape, device=device) for shape in shapes)
    check(lambda a, b: smem.gemm(a, b, kernel=kernel), a, b, fast=True)
    check(lambda a, b: OPS.gemm(a, b, kernel_id=code_of("gemm", kernel)), a, b, fast=True)


def test_gemm_in_every_direction(device: str) -> None:
    check(smem.gemm, double(2, 3, device=device), double(3, 2, device=device))


# Every kernel with one activation, some kernels with all: a bounded K, and the last.
EVERYTHING = [(kernel, "silu") for kernel in GEMMS] + [
    (kernel, activation)
    for kernel in ("auto", "panel", GEMMS[-1])
    for activation in ACTIVATIONS
    if (kernel, activation) != ("panel", "silu") and (kernel, activation) != (GEMMS[-1], "silu")
]


@pytest.mark.parametrize(("kernel", "activation"), EVERYTHING)
@pytest.mark.one_in(3)
def test_gemm_with_everything(kernel: str, activation: str | None, device: str) -> None:
    code, kernel_code = ACTIVATION_CODES[activation], code_of("gemm", kernel)

    def gemm(a: Tensor, b: Tensor, bias: Tensor, c: Tensor) -> Tensor:
        return smem.gemm(
            a, b, bias=bias, activation=activation, c=c, alpha=0.5, beta=2.0, kernel=kernel
        )

    def direct(a: Tensor, b: Tensor, bias: Tensor, c: Tensor) -> Tensor:
        return OPS.gemm(a, b, bias, c, 0.5, 2.0, code, 0, kernel_code)

    inputs = [double(*s, device=device) for s in ((2, 1, 3, 4), (3, 4, 5), (5,), (3, 1))]
    check(gemm, *inputs, fast=True)
    check(direct, *inputs, fast=True)


@pytest.mark.parametrize("shape", [(), (1,), (5,), (3, 1), (1, 5), (3, 5), (2, 1, 5)], ids=short)
def test_gradient_of_a_broadcast_c(shape: tuple, device: str) -> None:
    a, b, c = (double(*s, device=device) for s in ((2, 3, 4), (4, 5), shape))
    for kernel in ("auto", GEMMS[-1]):

        def gemm(a: Tensor, b: Tensor, c: Tensor, kernel: str = kernel) -> Tensor:
            return smem.gemm(a, b, c=c, beta=-1.5, kernel=kernel)

        check(gemm, a, b, c, fast=True)


def test_gradient_of_an_unused_c_is_zero(device: str) -> None:
    for kernel in ("auto", GEMMS[-1]):
        a, b, c = (double(*s, device=device) for s in ((3, 4), (4, 5), (3, 5)))
        result = smem.gemm(a, b, c=c, beta=0.0, kernel=kernel).sum()
        by_aten = kernel == "auto" and device == "cpu"  # does not see c at all
        (grad,) = torch.autograd.grad(result, c, materialize_grads=by_aten)
        assert torch.equal(grad, torch.zeros_like(c))


@every_activation
@pytest.mark.parametrize("shape", [(4,), (3, 4), (2, 3, 4)], ids=short)
def test_linear(activation: str | None, shape: tuple, device: str) -> None:
    code = ACTIVATION_CODES[activation]
    x, weight, bias = (double(*s, device=device) for s in (shape, (5, 4), (5,)))
    check(lambda *t: smem.linear(*t, activation=activation), x, weight, bias, fast=True)
    check(lambda *t: OPS.linear(*t, code), x, weight, bias, fast=True)
    check(lambda *t: smem.linear(*t, activation=activation), x, weight, fast=True)


@pytest.mark.parametrize("kernel", ["auto", *TRANSPOSES])
@pytest.mark.one_in(4)
def test_transpose(kernel: str, device: str) -> None:
    code = code_of("transpose", kernel)
    for dims in ((-2, -1), (0, 2), (1, 1)):
        x = double(2, 3, 4, device=device)
        check(lambda x, dims=dims: smem.transpose(x, *dims, kernel=kernel) ** 2, x)
        check(lambda x, dims=dims: OPS.transpose(x, *dims, code) ** 2, x)
    check(lambda x: smem.transpose(x, 0, 0, kernel=kernel) ** 2, double(device=device))


@pytest.mark.parametrize("kernel", ["auto", *SUMS])
@pytest.mark.parametrize("dim", [None, 1, (0, -1), (-1, 0), ()], ids=str)
def test_sum(kernel: str, dim: int | tuple | None, device: str) -> None:
    code = code_of("sum", kernel)
    dims = [dim] if isinstance(dim, int) else dim
    for keepdim in (False, True):
        x = double(2, 3, 2, device=device)
        check(lambda x, k=keepdim: smem.sum(x, dim, k, kernel=kernel) ** 2, x)
        check(lambda x, k=keepdim: OPS.sum(x, dims, k, None, code) ** 2, x)
    check(lambda x: smem.sum(x, kernel=kernel) ** 2, double(device=device))


def test_sum_of_complex(device: str) -> None:
    x = torch.randn(3, 4, dtype=torch.complex128, device=device, requires_grad=True)
    for kernel in ("auto", *SUMS):
        check(lambda x, kernel=kernel: smem.sum(x, 1, kernel=kernel) ** 2, x)


def test_sum_to_another_dtype(device: str) -> None:
    """The gradient comes back in the input's dtype."""
    for kernel in ("auto", *SUMS):
        x = torch.randn(3, 4, device=device, dtype=torch.bfloat16, requires_grad=True)
        result = smem.sum(x, 1, dtype=torch.float64, kernel=kernel)
        assert result.dtype == torch.float64
        result.sum().backward()
        assert x.grad.dtype == torch.bfloat16
        assert torch.equal(x.grad, torch.ones_like(x))


def test_sum_of_integers_has_no_gradient(device: str) -> None:
    for kernel in ("auto", *SUMS):
        x = torch.ones(3, 4, dtype=torch.int32, device=device)
        assert not smem.sum(x, 1, kernel=kernel).requires_grad
        assert not OPS.sum(x, [1], False, None, code_of("sum", kernel)).requires_grad
    for kernel in SUMS:  # torch.sum, and so auto on the CPU, raises here
        x = torch.ones(3, 4, device=device, requires_grad=True)
        assert not smem.sum(x, 1, dtype=torch.int64, kernel=kernel).requires_grad


# ------------------------------------------------------------------------------- against torch's


def gelu_tanh(z: Tensor) -> Tensor:
    """With a gradient near its last bit: torch's takes the difference 1 - tanh(u)^2."""
    u = math.sqrt(2 / math.pi) * (z + 0.044715 * z**3)
    return z * torch.exp(F.logsigmoid(2 * u))


@pytest.mark.parametrize("dtype", FLOATS_BUT_TWO_BY_SWEEP, ids=short)
@every_gemm
@every_activation
@pytest.mark.one_in(3)
def test_gradients_are_as_accurate_as_torchs(
    kernel: str, dtype: torch.dtype, activation: str | None, device: str
) -> None:
    def gradient(index: int, gemm: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def function(*inputs: Tensor) -> Tensor:
            leaves = [x.detach().requires_grad_() for x in inputs[:4]]
            result = gemm(*leaves)
            return torch.autograd.grad(result, leaves[index], inputs[4])[0]

        return function

    def ours(a: Tensor, b: Tensor, bias: Tensor, c: Tensor) -> Tensor:
        options = {"bias": bias, "c": c, "alpha": 0.5, "beta": 2.0, "activation": activation}
        return smem.gemm(a, b, **options, kernel=kernel)

    def torchs(a: Tensor, b: Tensor, bias: Tensor, c: Tensor) -> Tensor:
        by_aten = kernel == "auto" and device == "cpu"
        if activation == "gelu_tanh" and a.dtype == torch.float64 and not by_aten:
            return gelu_tanh(torch_gemm(a, b, bias, c, 0.5, 2.0))
        return torch_gemm(a, b, bias, c, 0.5, 2.0, activation)

    inputs = [
        torch.randn(shape, dtype=dtype, device=device)
        for shape in ((2, 33, 20), (20, 37), (37,), (33, 37), (2, 33, 37))
    ]
    for index in range(4):
        result = gradient(index, ours)(*inputs)
        assert_accurate(gradient(index, torchs), (result, inputs))


@every_gemm
def test_gradients_through_views_and_a_network(kernel: str, device: str) -> None:
    """A step of training with named kernels throughout gives torch's parameters."""
    torch.manual_seed(3)
    x = torch.randn(20, 6, 9, device=device)
    start = [torch.randn(s, device=device) / 4 for s in ((9, 16), (16,), (5, 16), (5,))]

    def loss(parameters: list[Tensor], ours: bool) -> Tensor:
        w1, b1, w2, b2 = parameters
        if ours:
            h = smem.gemm(x, w1, bias=b1, activation="gelu", kernel=kernel)
            y = smem.gemm(h, w2.mT, bias=b2, kernel=kernel)
            turned = smem.transpose(y, kernel="auto" if kernel == "auto" else TRANSPOSES[-1])
            return smem.sum(turned**2, kernel="auto" if kernel == "auto" else SUMS[-1])
        return (F.linear(F.gelu(x @ w1 + b1), w2, b2).mT ** 2).sum()

    ended = []
    for ours in (True, False):
        parameters = [p.clone().requires_grad_() for p in start]
        optimizer = torch.optim.SGD(parameters, lr=1e-4)
        for _ in range(3):
            optimizer.zero_grad()
            loss(parameters, ours).backward()
            optimizer.step()
        ended.append(parameters)
    for p, q in zip(*ended, strict=True):
        torch.testing.assert_close(p, q)


# -------------------------------------------------------------------------- what autograd is asked


@pytest.mark.parametrize("kernel", ["auto", GEMMS[2]])
@pytest.mark.parametrize(
    "needs", [n for n in itertools.product((True, False), repeat=4) if any(n)], ids=str
)
def test_only_the_gradients_asked_for(needs: tuple, kernel: str, device: str) -> None:
    code = code_of("gemm", kernel)
    shapes = ((2, 3, 4), (4, 5), (5,), (3, 5))
    for function in (
        lambda a, b, bias, c: smem.gemm(
            a, b, bias=bias, c=c, beta=2.0, activation="silu", kernel=kernel
        ),
        lambda a, b, bias, c: OPS.gemm(a, b, bias, c, 1.0, 2.0, 4, 0, code),
    ):
        inputs = [
            torch.randn(shape, device=device, requires_grad=need)
            for shape, need in zip(shapes, needs, strict=True)
        ]
        function(*inputs).sum().backward()
        expected = [x.detach().requires_grad_(x.requires_grad) for x in inputs]
        torch_gemm(*expected, 1.0, 2.0, "silu").sum().backward()
        for x, y in zip(inputs, expected, strict=True):
            assert (x.grad is None) == (y.grad is None)
            if x.grad is not None:
                torch.testing.assert_close(x.grad, y.grad)


@pytest.mark.parametrize("kernel", ["auto", GEMMS[-1]])
def test_no_grad_and_detached_inputs_record_nothing(kernel: str, device: str) -> None:
    a, b = (torch.randn(3, 3, device=device, requires_grad=need) for need in (True, False))
    assert smem.gemm(a, b, kernel=kernel).requires_grad
    assert not smem.gemm(a.detach(), b, kernel=kernel).requires_grad
    with torch.no_grad():
        assert not smem.gemm(a, b, kernel=kernel).requires_grad
    with torch.inference_mode():
        assert smem.gemm(a, b, kernel=kernel).is_inference()


def test_anomaly_names_the_op(device: str) -> None:
    a = torch.randn(2, 2, device=device, requires_grad=True)
    assert "SmemGemm" in type(smem.gemm(a, a, kernel=GEMMS[0]).grad_fn).__name__
    assert "SmemSum" in type(smem.sum(a, kernel=SUMS[0]).grad_fn).__name__


def test_saved_tensors_are_protected(device: str) -> None:
    """Changing in place what the gradient needs raises, as everywhere in torch."""
    for kernel in ("auto", *GEMMS):
        a = torch.randn(2, 2, device=device, requires_grad=True)
        b = torch.randn(2, 2, device=device)
        result = smem.gemm(a, b, kernel=kernel)
        b.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            result.sum().backward()


OUT_CALLS = {
    "gemm": lambda a, out: smem.gemm(a, a, out=out),
    "transpose": lambda a, out: smem.transpose(a, out=out),
    "sum": lambda a, out: smem.sum(a, 0, keepdim=True, out=out),
}


@pytest.mark.parametrize("op", OUT_CALLS)
def test_out_with_gradients_raises(op: str, device: str) -> None:
    a = torch.randn(1, 1, device=device, requires_grad=True)
    out = torch.empty(1, 1, device=device)
    message = (
        rf"smem\.{op}: out=\.\.\. does not support automatic differentiation, "
        "but one of the arguments requires grad"
    )
    with pytest.raises(RuntimeError, match=message):
        OUT_CALLS[op](a, out)
    with torch.no_grad():
        assert OUT_CALLS[op](a, out) is out
