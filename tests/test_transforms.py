"""torch.func, fake and meta tensors, autocast."""

import re
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from helpers import ACTIVATIONS, CHOICES, FLOATS, GEMMS, SUMS, short, torch_gemm
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

import torch_smem_gemm as smem

OPS = torch.ops.smem
close = torch.testing.assert_close
every_choice = pytest.mark.parametrize("choice", CHOICES)


# ----------------------------------------------------------------------------------- torch.func


def both(choice: str, activation: str | None = "silu") -> tuple[Callable, Callable]:
    """A scalar loss by smem and by torch."""
    kernel = CHOICES[choice]["gemm"]

    def ours(a: Tensor, b: Tensor, bias: Tensor) -> Tensor:
        return smem.gemm(a, b, bias=bias, activation=activation, kernel=kernel).square().sum()

    def torchs(a: Tensor, b: Tensor, bias: Tensor) -> Tensor:
        return torch_gemm(a, b, bias, activation=activation).square().sum()

    return ours, torchs


@every_choice
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_func_grad(choice: str, activation: str | None, device: str) -> None:
    ours, torchs = both(choice, activation)
    a, b, bias = (torch.randn(s, device=device) for s in ((3, 4), (4, 5), (5,)))
    every = (0, 1, 2)
    close(torch.func.grad(ours, every)(a, b, bias), torch.func.grad(torchs, every)(a, b, bias))
    value = torch.func.grad_and_value(ours)(a, b, bias)
    close(value, torch.func.grad_and_value(torchs)(a, b, bias))


@every_choice
def test_func_higher_orders(choice: str, device: str) -> None:
    ours, torchs = both(choice)
    a, b, bias = (torch.randn(s, device=device) for s in ((2, 3), (3, 2), (2,)))
    grad, jacrev = torch.func.grad, torch.func.jacrev
    close(jacrev(ours)(a, b, bias), jacrev(torchs)(a, b, bias))
    twice = [jacrev(grad(f))(a, b, bias) for f in (ours, torchs)]
    close(*twice)
    nested = [grad(lambda a, f=f: grad(f)(a, b, bias).square().sum())(a) for f in (ours, torchs)]
    close(*nested)
    thrice = [
        grad(lambda a, f=f: grad(lambda a: grad(f)(a, b, bias).square().sum())(a).sum())(a)
        for f in (ours, torchs)
    ]
    close(*thrice)
    _, pull = torch.func.vjp(ours, a, b, bias)
    _, torch_pull = torch.func.vjp(torchs, a, b, bias)
    seed = torch.tensor(2.0, device=device)
    close(pull(seed), torch_pull(seed))


@every_choice
def test_compile_of_func(choice: str, device: str) -> None:
    torch._dynamo.reset()
    ours, torchs = both(choice)
    a, b, bias = (torch.randn(s, device=device) for s in ((3, 4), (4, 5), (5,)))
    compiled = torch.compile(torch.func.grad(ours, (0, 1)), fullgraph=True, backend="aot_eager")
    close(compiled(a, b, bias), torch.func.grad(torchs, (0, 1))(a, b, bias))
    mapped = torch.compile(
        torch.vmap(torch.func.grad(ours), (0, None, None)), fullgraph=True, backend="aot_eager"
    )
    batch = torch.randn(7, 3, 4, device=device)
    expected = torch.vmap(torch.func.grad(torchs), (0, None, None))(batch, b, bias)
    close(mapped(batch, b, bias), expected)


@every_choice
def test_vmap_of_grad(choice: str, device: str) -> None:
    """Gradients of each sample."""
    ours, torchs = both(choice)
    a, b, bias = (torch.randn(s, device=device) for s in ((7, 3, 4), (4, 5), (5,)))
    per_sample = [
        torch.vmap(torch.func.grad(f, (0, 1, 2)), (0, None, None))(a, b, bias)
        for f in (ours, torchs)
    ]
    close(*per_sample)


# Shapes of a, b, bias, c without the mapped dimension, and where that dimension is.
VMAPS = [
    (((3, 4), (4, 5), None, None), (0, None, None, None)),
    (((3, 4), (4, 5), None, None), (None, 1, None, None)),
    (((3, 4), (4, 5), None, None), (2, 0, None, None)),
    (((3, 4), (4, 5), None, None), (-1, -2, None, None)),
    (((3, 4), (4, 5), (5,), None), (None, None, 0, None)),
    (((3, 4), (4, 5), (5,), None), (0, None, 1, None)),
    (((3, 4), (4, 5), (5,), (3, 5)), (1, 2, 1, 0)),
    (((3, 4), (4, 5), (5,), (3, 5)), (None, None, None, 1)),
    (((3, 4), (4, 5), (5,), ()), (None, None, None, 0)),
    (((3, 4), (4, 5), (5,), (5,)), (0, None, None, 1)),
    (((3, 4), (4, 5), (5,), (3, 1)), (None, 0, None, None)),
    (((2, 3, 4), (4, 5), (5,), (3, 5)), (None, 0, 0, 2)),
    (((3, 4), (2, 4, 5), (5,), (2, 1, 5)), (0, 3, None, 0)),
]


@every_choice
@pytest.mark.parametrize(("shapes", "in_dims"), VMAPS)
def test_vmap_of_gemm(choice: str, shapes: tuple, in_dims: tuple, device: str) -> None:
    kernel = CHOICES[choice]["gemm"]
    inputs = []
    for shape, dim in zip(shapes, in_dims, strict=True):
        if shape is not None:
            x = torch.randn(shape, device=device)
            if dim is not None:
                x = torch.randn(7, *shape, device=device).movedim(0, dim)
            inputs.append(x)
    in_dims = in_dims[: len(inputs)]

    def ours(a: Tensor, b: Tensor, bias: Tensor | None = None, c: Tensor | None = None) -> Tensor:
        beta = 0.0 if c is None else 2.0
        options = {"bias": bias, "c": c, "alpha": 0.5, "beta": beta, "activation": "gelu"}
        return smem.gemm(a, b, **options, kernel=kernel)

    def torchs(a: Tensor, b: Tensor, bias: Tensor | None = None, c: Tensor | None = None) -> Tensor:
        return torch_gemm(a, b, bias, c, 0.5, 0.0 if c is None else 2.0, "gelu")

    close(torch.vmap(ours, in_dims)(*inputs), torch.vmap(torchs, in_dims)(*inputs))
    out_dims = [torch.vmap(f, in_dims, out_dims=-1)(*inputs) for f in (ours, torchs)]
    close(*out_dims)


LINEAR_VMAPS = [  # x, weight, bias; where each is mapped
    ((4,), (0, None, None)),
    ((4,), (None, 0, None)),
    ((4,), (1, 2, 0)),
    ((4,), (None, None, 1)),
    ((3, 4), (0, None, None)),
    ((3, 4), (None, 1, None)),
    ((3, 4), (2, 0, 1)),
    ((2, 3, 4), (0, 0, 0)),
    ((2, 3, 4), (None, -1, None)),
    ((2, 3, 4), (3, None, 0)),
]


@pytest.mark.parametrize("activation", [None, "relu"])
@pytest.mark.parametrize(("shape", "in_dims"), LINEAR_VMAPS)
def test_vmap_of_linear(activation: str | None, shape: tuple, in_dims: tuple, device: str) -> None:
    code = list(ACTIVATIONS).index(activation)
    inputs = [
        torch.randn(s, device=device)
        if dim is None
        else torch.randn(7, *s, device=device).movedim(0, dim)
        for s, dim in zip((shape, (5, 4), (5,)), in_dims, strict=True)
    ]
    expected = torch.vmap(lambda *t: ACTIVATIONS[activation](F.linear(*t)), in_dims)(*inputs)
    for function in (
        lambda x, weight, bias: smem.linear(x, weight, bias, activation=activation),
        lambda x, weight, bias: OPS.linear(x, weight, bias, code),
    ):
        close(torch.vmap(function, in_dims)(*inputs), expected)


@every_choice
@pytest.mark.parametrize("in_dim", [0, 1, 2, -1])
def test_vmap_of_transpose_and_sum(choice: str, in_dim: int, device: str) -> None:
    x = torch.randn(3, 4, 5, device=device)
    turn, add = CHOICES[choice]["transpose"], CHOICES[choice]["sum"]
    for dims in ((0, 1), (-1, -2), (1, 1)):
        ours = torch.vmap(lambda x, d=dims: smem.transpose(x, *d, kernel=turn), in_dim)(x)
        assert torch.equal(ours, torch.vmap(lambda x, d=dims: x.transpose(*d), in_dim)(x))
    for dim in (None, 0, -1, (0, 1), ()):
        for keepdim in (False, True):

            def ours(x: Tensor, d: object = dim, k: bool = keepdim) -> Tensor:
                return smem.sum(x, d, k, kernel=add)

            def torchs(x: Tensor, d: object = dim, k: bool = keepdim) -> Tensor:
                return torch.sum(x, d, k)

            close(torch.vmap(ours, in_dim)(x), torch.vmap(torchs, in_dim)(x))
    scalars = torch.randn(6, device=device)
    assert torch.equal(torch.vmap(lambda x: smem.sum(x, kernel=add))(scalars), scalars)
    assert torch.equal(torch.vmap(lambda x: smem.transpose(x, 0, 0, kernel=turn))(scalars), scalars)


WEIGHT = torch.ones(4, 5)
# What takes one entry of each of the tensors, of these shapes with the mapped dimension.
WRONG_ENTRIES: list[tuple[Callable[..., Tensor], list[tuple[int, ...]]]] = [
    (lambda a: smem.gemm(a, WEIGHT, kernel="tiled32"), [(2, 4)]),
    (lambda a, b: smem.gemm(a, b, kernel="naive"), [(4, 4), (4, 5)]),
    (lambda b: smem.gemm(torch.ones(3, 4), WEIGHT, bias=b, kernel="simt"), [(5,)]),
    (lambda b: smem.gemm(torch.ones(3, 4), WEIGHT, bias=b, kernel="naive"), [(2, 1, 5)]),
    (
        lambda a, c: smem.gemm(a, WEIGHT, c=c, kernel="naive"),
        [(2, 3, 4), (2, 1, 3, 5)],
    ),
    (lambda w: OPS.linear(torch.ones(3, 4), w), [(2, 4)]),
    (lambda x: OPS.transpose(x, 0, 2), [(2, 4)]),
    (lambda x: OPS.sum(x, [1]), [(2, 4)]),
]


@pytest.mark.parametrize(("call", "shapes"), WRONG_ENTRIES)
def test_errors_of_a_vmap_are_those_of_an_entry(
    call: Callable[..., Tensor], shapes: list[tuple[int, ...]]
) -> None:
    mapped = [torch.ones(shape) for shape in shapes]
    with pytest.raises((RuntimeError, IndexError)) as alone:
        call(*(x[0] for x in mapped))
    with pytest.raises(type(alone.value), match=re.escape(str(alone.value))):
        torch.vmap(call)(*mapped)


@every_choice
@pytest.mark.parametrize("out_dtype", [None, torch.float32])
def test_a_mapped_bias_beside_c_is_rounded_once(
    choice: str, out_dtype: torch.dtype | None, device: str
) -> None:
    """2 c alone is more than float16 holds."""
    a, b = torch.full((2, 4), -100.0, device=device), torch.full((4, 3), 100.0, device=device)
    c, biases = torch.full((2, 3), 40_000.0, device=device), torch.randn(5, 3, device=device)
    a, b, c, biases = (x.half() for x in (a, b, c, biases))

    def call(bias: Tensor) -> Tensor:
        kernel = CHOICES[choice]["gemm"]
        return smem.gemm(a, b, c=c, beta=2.0, bias=bias, out_dtype=out_dtype, kernel=kernel)

    close(torch.vmap(call)(biases), torch.stack([call(bias) for bias in biases]))


@every_choice
def test_nested_vmap(choice: str, device: str) -> None:
    kernel = CHOICES[choice]["gemm"]
    a, b, bias = (torch.randn(s, device=device) for s in ((6, 3, 4), (7, 4, 5), (7, 5)))

    def every_pair(f: Callable) -> Tensor:
        return torch.vmap(torch.vmap(f, (0, None, None)), (None, 0, 0))(a, b, bias)

    ours = every_pair(lambda a, b, bias: smem.gemm(a, b, bias=bias, kernel=kernel))
    close(ours, every_pair(lambda a, b, bias: a @ b + bias))


def test_a_tensor_that_escaped_from_a_transform(device: str) -> None:
    escaped = []

    def leak(x: Tensor) -> Tensor:
        escaped.append(x)
        return x.sum()

    x = torch.randn(3, 4, device=device, dtype=torch.double)
    weight = torch.randn(5, 4, device=device, dtype=torch.double, requires_grad=True)
    torch.func.grad(leak)(x)
    y = smem.linear(escaped[0], weight)
    close(y, F.linear(x, weight))
    close(torch.autograd.grad(y.sum(), weight)[0], x.sum(0).expand(5, 4))


# ------------------------------------------------------------------------- fake and meta tensors


@pytest.mark.parametrize("where", ["fake", "meta"])
def test_fake_and_meta_tensors(where: str) -> None:
    mode = FakeTensorMode() if where == "fake" else torch.device("meta")
    with mode:
        for dtype in FLOATS:
            a, b, x = (torch.empty(s, dtype=dtype) for s in ((2, 1, 33, 7), (5, 7, 9), (4, 9, 7)))
            bias, c = torch.empty(9, dtype=dtype), torch.empty(33, 1, dtype=dtype)
            for choice in CHOICES.values():
                gemm = smem.gemm(
                    a, b, bias=bias, c=c, beta=1.0, activation="gelu", kernel=choice["gemm"]
                )
                results = [
                    (gemm, (2, 5, 33, 9)),
                    (smem.linear(x, x[0], bias), (4, 9, 9)),
                    (smem.transpose(x, 0, 2, kernel=choice["transpose"]), (7, 9, 4)),
                    (smem.sum(x, (0, 2), kernel=choice["sum"]), (9,)),
                    (smem.sum(x, 1, True, kernel=choice["sum"]), (4, 1, 7)),
                ]
                for result, shape in results:
                    assert result.shape == shape
                    assert result.dtype == dtype
                    assert result.device == x.device
                    assert result.is_contiguous()
                out = torch.empty(2, 5, 33, 9, dtype=dtype)
                assert smem.gemm(a, b, kernel=choice["gemm"], out=out) is out
        counts = torch.empty(3, 4, dtype=torch.bool)
        assert smem.sum(counts).dtype == torch.int64
        assert smem.sum(counts, dtype=torch.float16, kernel=SUMS[0]).dtype == torch.float16


# ------------------------------------------------------------------------------------- autocast


@every_choice
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=short)
def test_autocast(choice: str, dtype: torch.dtype, device: str) -> None:
    kernel = CHOICES[choice]["gemm"]
    a, b, bias = (torch.randn(s, device=device, requires_grad=True) for s in ((3, 4), (4, 5), (5,)))
    with torch.autocast(device, dtype=dtype):
        results = [
            (smem.gemm(a, b, kernel=kernel), a @ b),
            (smem.gemm(a, b.to(dtype), kernel=kernel), a @ b),
            (
                smem.gemm(a, b, bias=bias, activation="relu", kernel=kernel),
                torch.relu(a @ b + bias.to(dtype)),
            ),
            (smem.linear(a, b.mT, bias), F.linear(a, b.mT, bias)),
        ]
    for result, expected in results:
        assert result.dtype == expected.dtype == dtype
        close(result, expected, rtol=1e-2, atol=1e-2)
    grads, expected_grads = (
        torch.autograd.grad(sum(pair[i].float().sum() for pair in results), (a, b, bias))
        for i in range(2)
    )
    for grad, expected in zip(grads, expected_grads, strict=True):
        assert grad.dtype == torch.float32
        close(grad, expected, rtol=2e-2, atol=2e-2)


def test_autocast_leaves_float64_as_torch_does(device: str) -> None:
    a = torch.randn(3, 3, dtype=torch.float64, device=device)
    with torch.autocast(device, dtype=torch.bfloat16):
        for kernel in ("auto", GEMMS[2]):
            assert smem.gemm(a, a, kernel=kernel).dtype == (a @ a).dtype
        assert smem.linear(a, a).dtype == (a @ a).dtype
    with torch.autocast(device, enabled=False):
        assert smem.gemm(a.float(), a.float()).dtype == torch.float32
