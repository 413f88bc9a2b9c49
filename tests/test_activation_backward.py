"""The gradient through a fused activation: what is saved, which kernel runs, what it gives."""

import itertools
import json
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from functorch.compile import make_boxed_func
from helpers import (
    ACTIVATIONS,
    FLOATS,
    GEMMS,
    assert_accurate,
    laid_out,
    normal,
    same_bits,
    short,
    torch_gemm,
)
from torch import Tensor
from torch._dynamo.backends.common import aot_autograd
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import gradcheck, gradgradcheck
from torch.library import opcheck
from torch.utils._python_dispatch import TorchDispatchMode

import torch_smem_gemm as smem
from torch_smem_gemm import _C

OPS = torch.ops.smem
CODES = {name: code for code, name in enumerate(ACTIVATIONS)}
SMOOTH = ("gelu", "gelu_tanh", "silu")  # whose derivative takes what they are applied to
every_dtype = pytest.mark.parametrize("dtype", FLOATS, ids=short)
every_activation = pytest.mark.parametrize("activation", ACTIVATIONS)
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


@every_dtype
@every_activation
def test_both_gradients(activation: str | None, dtype: torch.dtype, device: str) -> None:
    for shape in SHAPES:
        grad, z = (normal(*shape, dtype=dtype, device=device) for _ in range(2))
        dz, bias_gradient = OPS._activation_backward(grad, z, CODES[activation])
        assert dz.is_contiguous()
        assert_accurate(torchs(activation), (dz, (grad, z)))
        # The very sum that smem.sum finds, in its order.
        expected = smem.sum(rows_of(dz), 0, kernel="columns")
        assert same_bits(bias_gradient, expected), shape


@every_dtype
@every_activation
def test_extreme_numbers(activation: str | None, dtype: torch.dtype, device: str) -> None:
    """Zeros, tiny, huge and non-finite ones, as by torch."""
    numbers = [0.0, -0.0, 1e-7, -1e-7, 5.5, -5.5, 11.0, -11.0, 100.0, -100.0, 6e4, -6e4]
    z = [*numbers, math.inf, -math.inf, math.nan, 1.0, -1.0, 1.0]
    grad = [1.0, -2.5, *[0.5] * 13, math.inf, -math.inf, math.nan]
    z, grad = (torch.tensor(x, dtype=dtype, device=device)[None] for x in (z, grad))
    dz, _ = OPS._activation_backward(grad, z, CODES[activation])
    expected = torchs(activation)(grad.double(), z.double()).to(dtype)
    close(dz, expected, equal_nan=True)


@every_dtype
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


@every_dtype
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


@every_dtype
@pytest.mark.parametrize("shape", [(300, 128), (70, 36), (33, 7)], ids=short)
def test_under_the_tracer(shape: tuple, dtype: torch.dtype) -> None:
    """No fault; and whole rows are moved by whole sectors, each tensor once."""
    grad, z = (normal(*shape, dtype=dtype) for _ in range(2))
    _C.begin_trace()
    try:
        OPS._activation_backward(grad, z, 2)
    finally:
        trace = json.loads(_C.end_trace())
    for launch in trace["launches"]:
        assert not launch["faults"]
    if shape == (300, 128):
        first = trace["launches"][0]
        for name in ("grad", "z", "dz"):
            sectors = sum(row["sectors"] for row in first["rows"] if row["memory"] == name)
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
    def error() -> str:
        with pytest.raises(RuntimeError) as caught:
            OPS._activation_backward(*call(lambda *s, **k: torch.zeros(s, device=device, **k)))
        return str(caught.value)

    with FakeTensorMode():
        of_fake = error()
    assert error() == of_fake
    assert of_fake.startswith("smem._activation_backward: ")


def test_opcheck(device: str) -> None:
    grad, z = (normal(6, 8, device=device) for _ in range(2))
    opcheck(OPS._activation_backward.default, (grad, z, 2))


# ----------------------------------------------------------------------- the op with two results


@every_dtype
@every_activation
@pytest.mark.parametrize("kernel", range(len(GEMMS) + 1))
def test_both_results(kernel: int, activation: str | None, dtype: torch.dtype, device: str) -> None:
    shapes = ((2, 33, 20), (20, 67), (67,), (33, 67))
    inputs = [normal(*s, dtype=dtype, device=device) for s in shapes]
    a, b, bias, _ = inputs
    options = (0.5, -2.0, CODES[activation], 0, kernel)
    y, z = OPS.gemm_with_preactivation(*inputs, *options)
    assert y.data_ptr() != z.data_ptr()
    if kernel or device == "cuda":
        assert same_bits(y, OPS.gemm(*inputs, *options))
        assert same_bits(z, OPS.gemm(*inputs, 0.5, -2.0, 0, 0, kernel))
    else:
        close(y, ACTIVATIONS[activation](z))
    assert_accurate(lambda a, b, bias, c: torch_gemm(a, b, bias, c, 0.5, -2.0), (z, inputs))
    both = OPS.linear_with_preactivation(a, b.mT, bias, CODES[activation])
    close(both[0], ACTIVATIONS[activation](both[1]), rtol=0.02, atol=0.02)
    close(both[1], a @ b + bias, rtol=0.02, atol=0.02)


@pytest.mark.parametrize("kernel", [0, 3])
@pytest.mark.parametrize("activation", ["silu", None])
def test_both_results_are_differentiable(activation: str | None, kernel: int, device: str) -> None:
    code = CODES[activation]
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
    code = CODES[activation]

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
        assert products[0].endswith("_with_preactivation") == (activation in SMOOTH)
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


@every_dtype
@every_activation
def test_gradients_change_no_bit_of_the_result(
    activation: str | None, dtype: torch.dtype, device: str
) -> None:
    for function in calls(device, activation):
        inputs = layer(device, dtype)
        with torch.no_grad():
            expected = function(*inputs)
        assert same_bits(function(*inputs).detach(), expected)


@pytest.mark.parametrize("activation", ["relu", *SMOOTH])
def test_without_a_bias_no_sum_is_made(activation: str, device: str) -> None:
    x, w, bias = layer(device)
    for addend in (bias.detach(), None):
        with Ops() as seen:
            result = smem.gemm(x, w, bias=addend, activation=activation, kernel=GEMMS[-1])
            result.sum().backward()
        assert "_activation_backward" not in seen.names


@pytest.mark.parametrize("activation", ["relu", *SMOOTH])
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


@pytest.mark.parametrize("activation", ["relu", *SMOOTH])
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
        assert forward[0].endswith("_with_preactivation") == (activation in SMOOTH)
        assert backward.count("_activation_backward") == (activation is not None)
        for x, reference in zip(inputs, gradients_by_torch(inputs, activation), strict=True):
            close(x.grad, reference, rtol=1e-4, atol=1e-4)
        with torch.no_grad():
            compiled(*inputs)
        assert len(names[-1]) == 1
        assert not names[-1][0].endswith("_with_preactivation")


# --------------------------------------------------------------------------------------- the GPU


@pytest.mark.gpu
@pytest.mark.parametrize("activation", ["relu", *SMOOTH])
def test_graph_of_a_training_step(activation: str) -> None:
    x, w, bias = layer("cuda", torch.bfloat16)

    def step() -> Tensor:
        loss = smem.linear(x, w.mT, bias, activation=activation).float().square().sum()
        return torch.cat([g.flatten() for g in torch.autograd.grad(loss, (x, w, bias))])

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = step()
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


@pytest.mark.gpu
@every_dtype
def test_large_on_the_gpu(dtype: torch.dtype) -> None:
    """Several chunks and blocks of every kind, beside torch."""
    for shape in ((8192, 4096), (65536, 40), (33, 20_000), (100_000, 3)):
        grad, z = (normal(*shape, dtype=dtype, device="cuda") for _ in range(2))
        dz, bias_gradient = OPS._activation_backward(grad, z, 3)
        assert_accurate(torchs("gelu_tanh"), (dz, (grad, z)))
        assert same_bits(bias_gradient, smem.sum(dz, 0))
