"""Training with a fused activation: what the forward saves, which kernels run, what comes out."""

import itertools
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from functorch.compile import make_boxed_func
from helpers import (
    ACTIVATION_CODES,
    ACTIVATIONS,
    GEMMS,
    SMOOTH_ACTIVATIONS,
    assert_accurate,
    captured,
    every_activation,
    every_float,
    laid_out,
    normal,
    same_bits,
    short,
    torch_gemm,
)
from torch import Tensor
from torch._dynamo import compiled_autograd
from torch._dynamo.backends.common import aot_autograd
from torch.autograd import gradcheck, gradgradcheck
from torch.utils._python_dispatch import TorchDispatchMode

import torch_smem_gemm as smem

OPS = torch.ops.smem
close = torch.testing.assert_close


# ----------------------------------------------------------------------- the op with two results


@every_float
@every_activation
@pytest.mark.parametrize("kernel", range(len(GEMMS) + 1))
@pytest.mark.one_in(3)
def test_both_results(kernel: int, activation: str | None, dtype: torch.dtype, device: str) -> None:
    shapes = ((2, 33, 20), (20, 67), (67,), (33, 67))
    inputs = [normal(*s, dtype=dtype, device=device) for s in shapes]
    a, b, bias, _ = inputs
    options = (0.5, -2.0, ACTIVATION_CODES[activation], 0, kernel)
    y, z = OPS.gemm_with_preactivation(*inputs, *options)
    assert y.data_ptr() != z.data_ptr()
    if kernel or device == "cuda":
        assert same_bits(y, OPS.gemm(*inputs, *options))
        assert same_bits(z, OPS.gemm(*inputs, 0.5, -2.0, 0, 0, kernel))
    else:
        close(y, ACTIVATIONS[activation](z))
    assert_accurate(lambda a, b, bias, c: torch_gemm(a, b, bias, c, 0.5, -2.0), (z, inputs))
    both = OPS.linear_with_preactivation(a, b.mT, bias, ACTIVATION_CODES[activation])
    close(both[0], ACTIVATIONS[activation](both[1]), rtol=0.02, atol=0.02)
    close(both[1], a @ b + bias, rtol=0.02, atol=0.02)


@pytest.mark.parametrize("kernel", [0, 3])
@pytest.mark.parametrize("activation", ["silu", None])
def test_both_results_are_differentiable(activation: str | None, kernel: int, device: str) -> None:
    code = ACTIVATION_CODES[activation]
    shapes = ((3, 4), (4, 5), (5,))
    inputs = [
        torch.randn(s, dtype=torch.float64, device=device, requires_grad=True) for s in shapes
    ]

    def gemm(a: Tensor, b: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        return OPS.gemm_with_preactivation(a, b, bias, None, 0.5, 0.0, code, 0, kernel)

    def linear(a: Tensor, b: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        return OPS.linear_with_preactivation(a, b.mT, bias, code)

    for function in (gemm, linear):
        for part in (lambda y, z: (y, z), lambda y, z: y, lambda y, z: z):

            def results(*t: Tensor, f: Callable = function, part: Callable = part) -> Any:
                return part(*f(*t))

            assert gradcheck(
                results, inputs, fast_mode=True, check_forward_ad=True, check_batched_grad=True
            )
            assert gradgradcheck(results, inputs, fast_mode=True, check_fwd_over_rev=True)


@pytest.mark.parametrize("kernel", [0, 3])
def test_vmap_of_both_results(kernel: int, device: str) -> None:
    a, b, bias = (normal(*s, device=device) for s in ((7, 3, 4), (7, 4, 5), (7, 5)))

    def torch_both(a: Tensor, b: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        z = a @ b + bias
        return torch.nn.functional.silu(z), z

    for function in (
        lambda a, b, bias: OPS.gemm_with_preactivation(a, b, bias, None, 1.0, 0.0, 4, 0, kernel),
        lambda a, b, bias: OPS.linear_with_preactivation(a, b.mT, bias, 4),
    ):
        for in_dims in itertools.product((0, None), repeat=3):
            if in_dims == (None, None, None):
                continue
            inputs = [x if dim == 0 else x[0] for x, dim in zip((a, b, bias), in_dims, strict=True)]
            close(torch.vmap(function, in_dims)(*inputs), torch.vmap(torch_both, in_dims)(*inputs))


# ------------------------------------------------------------------------- what a gradient costs


class Ops(TorchDispatchMode):
    """The names of the smem ops called within it."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.namespace == "smem":
            self.names.append(func._opname)
        return func(*args, **(kwargs or {}))


def calls(device: str, activation: str | None) -> list[Callable[..., Tensor]]:
    """Each way to one layer by the kernels."""
    code = ACTIVATION_CODES[activation]

    def gemm(x: Tensor, w: Tensor, bias: Tensor) -> Tensor:
        return smem.gemm(x, w, bias=bias, activation=activation, kernel=GEMMS[-1])

    def direct(x: Tensor, w: Tensor, bias: Tensor) -> Tensor:
        return OPS.gemm(x, w, bias, None, 1.0, 0.0, code, 0, len(GEMMS))

    def linear(x: Tensor, w: Tensor, bias: Tensor) -> Tensor:
        return smem.linear(x, w.mT, bias, activation=activation)

    return [gemm, direct] if device == "cpu" else [gemm, direct, linear]


def layer(device: str, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    """x, weight and bias, with gradients."""
    shapes = ((3, 20, 36), (36, 40), (40,))
    return [normal(*s, dtype=dtype, device=device).requires_grad_() for s in shapes]


@every_activation
def test_a_step_makes_three_products_and_one_pass(activation: str | None, device: str) -> None:
    for function in calls(device, activation):
        inputs = layer(device)
        with Ops() as seen:
            function(*inputs).square().sum().backward()
        products = [name for name in seen.names if "gemm" in name or "linear" in name]
        assert len(products) == 3, seen.names
        assert products[0].endswith("_with_preactivation") == (activation in SMOOTH_ACTIVATIONS)
        if activation:
            assert seen.names.count("_activation_backward") == 1
            assert not any("sum" in name for name in seen.names)
        for x, reference in zip(inputs, gradients_by_torch(inputs, activation), strict=True):
            close(x.grad, reference, rtol=1e-4, atol=1e-4)


def gradients_by_torch(inputs: list[Tensor], activation: str | None) -> tuple[Tensor, ...]:
    leaves = [x.detach().requires_grad_() for x in inputs]
    result = torch_gemm(*leaves, activation=activation).square().sum()
    return torch.autograd.grad(result, leaves)


@every_activation
def test_what_is_saved(activation: str | None, device: str) -> None:
    """Beside the factors: nothing, relu's own result, or z; and not both."""
    for function in calls(device, activation):
        inputs = layer(device)
        saved: list[Tensor] = []

        def note(x: Tensor, saved: list[Tensor] = saved) -> Tensor:
            saved.append(x)
            return x

        with torch.autograd.graph.saved_tensors_hooks(note, lambda x: x):
            result = function(*inputs)
        shapes = [tuple(x.shape) for x in saved]
        assert shapes.count(tuple(result.shape)) == (activation is not None), shapes
        if activation == "relu":
            assert any(x.data_ptr() == result.data_ptr() for x in saved)


@every_float
@every_activation
def test_gradients_change_no_bit_of_the_result(
    activation: str | None, dtype: torch.dtype, device: str
) -> None:
    for function in calls(device, activation):
        inputs = layer(device, dtype)
        with torch.no_grad():
            expected = function(*inputs)
        assert same_bits(function(*inputs).detach(), expected)


@pytest.mark.parametrize("activation", ["relu", *SMOOTH_ACTIVATIONS])
def test_without_a_bias_no_sum_is_made(activation: str, device: str) -> None:
    x, w, bias = layer(device)
    for addend in (bias.detach(), None):
        with Ops() as seen:
            result = smem.gemm(x, w, bias=addend, activation=activation, kernel=GEMMS[-1])
            result.sum().backward()
        assert "_activation_backward" not in seen.names


@pytest.mark.parametrize("activation", ["relu", *SMOOTH_ACTIVATIONS])
def test_a_gradient_to_be_differentiated_takes_formulas(activation: str, device: str) -> None:
    """The kernel has no gradient of its own: what create_graph records is differentiable."""
    for function in calls(device, activation):
        inputs = [x.detach().double().requires_grad_() for x in layer(device)]
        with Ops() as seen:
            loss = function(*inputs).square().sum()
            grads = torch.autograd.grad(loss, inputs, create_graph=True)
        assert "_activation_backward" not in seen.names
        twice = torch.autograd.grad(sum(g.square().sum() for g in grads), inputs)
        leaves = [x.detach().requires_grad_() for x in inputs]
        loss = torch_gemm(*leaves, activation=activation).square().sum()
        expected = torch.autograd.grad(loss, leaves, create_graph=True)
        close(grads, expected)
        close(twice, torch.autograd.grad(sum(g.square().sum() for g in expected), leaves))


@pytest.mark.parametrize("activation", ["relu", *SMOOTH_ACTIVATIONS])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=short)
def test_gradients_of_any_strides(activation: str, dtype: torch.dtype, device: str) -> None:
    for function in calls(device, activation):
        inputs = layer(device, dtype)
        result = function(*inputs)
        seed = normal(*result.shape, dtype=dtype, device=device)
        for layout in ("contiguous", "transposed", "step2", "same_rows", "same_columns"):
            given = laid_out(seed, layout)
            grads = torch.autograd.grad(result, inputs, given, retain_graph=True)
            expected = torch.autograd.grad(result, inputs, given.contiguous(), retain_graph=True)
            for grad, wanted in zip(grads, expected, strict=True):
                assert same_bits(grad.contiguous(), wanted.contiguous())


@every_activation
def test_gradients_of_empty_tensors(activation: str | None, device: str) -> None:
    for m, k, n in ((0, 4, 5), (3, 0, 5), (3, 4, 0)):
        for function in calls(device, activation):
            inputs = [
                torch.randn(s, device=device, requires_grad=True) for s in ((m, k), (k, n), (n,))
            ]
            function(*inputs).sum().backward()
            expected = [x.detach().requires_grad_() for x in inputs]
            torch_gemm(*expected, activation=activation).sum().backward()
            for x, y in zip(inputs, expected, strict=True):
                close(x.grad, y.grad)


@every_activation
def test_compiled_training(activation: str | None, device: str) -> None:
    """The same kernels as in eager mode; without gradients the single result is all there is."""
    torch._dynamo.reset()
    names: list[list[str]] = []

    def note(graph: torch.fx.GraphModule, inputs: object) -> Callable:
        targets = [str(node.target) for node in graph.graph.nodes if "smem" in str(node.target)]
        names.append([target.split(".")[1] for target in targets])
        return make_boxed_func(graph.forward)

    for function in calls(device, activation):
        names.clear()
        compiled = torch.compile(function, fullgraph=True, backend=aot_autograd(fw_compiler=note))
        inputs = layer(device)
        compiled(*inputs).square().sum().backward()
        forward, backward = names
        assert len(forward) == 1
        assert forward[0].endswith("_with_preactivation") == (activation in SMOOTH_ACTIVATIONS)
        assert backward.count("_activation_backward") == (activation is not None)
        for x, reference in zip(inputs, gradients_by_torch(inputs, activation), strict=True):
            close(x.grad, reference, rtol=1e-4, atol=1e-4)
        with torch.no_grad():
            compiled(*inputs)
        assert len(names[-1]) == 1
        assert not names[-1][0].endswith("_with_preactivation")


@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_compiled_autograd(activation: str, device: str) -> None:
    for function in calls(device, activation):
        inputs = layer(device)
        with compiled_autograd._enable(torch.compile(backend="aot_eager")):
            function(*inputs).square().sum().backward()
        for x, reference in zip(inputs, gradients_by_torch(inputs, activation), strict=True):
            close(x.grad, reference, rtol=1e-4, atol=1e-4)


# --------------------------------------------------------------------------------------- the GPU


@pytest.mark.gpu
@pytest.mark.parametrize("activation", ["relu", *SMOOTH_ACTIVATIONS])
def test_graph_of_a_training_step(activation: str) -> None:
    x, w, bias = layer("cuda", torch.bfloat16)

    def step() -> Tensor:
        loss = smem.linear(x, w.mT, bias, activation=activation).float().square().sum()
        return torch.cat([g.flatten() for g in torch.autograd.grad(loss, (x, w, bias))])

    graph, result = captured(step)
    with torch.no_grad():
        x.normal_()
    result.fill_(math.nan)
    graph.replay()
    assert same_bits(result, step())


@pytest.mark.gpu
def test_lack_of_memory_is_an_out_of_memory_error() -> None:
    size = 2**21  # its square is more bytes than any GPU has
    z = torch.ones(1, device="cuda").expand(size, size)
    with pytest.raises(torch.OutOfMemoryError, match="out of memory"):
        smem.linear(z[:, :1].requires_grad_(), z[:, :1], activation="gelu")
