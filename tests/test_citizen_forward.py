"""Forward-mode differentiation, by torch.func at every nesting level and by dual tensors."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from helpers import ACTIVATIONS, CHOICES, SUMS, torch_gemm
from torch import Tensor
from torch.autograd import forward_ad

import torch_smem_gemm as smem

OPS = torch.ops.smem
func = torch.func
close = torch.testing.assert_close
every_choice = pytest.mark.parametrize("choice", CHOICES)

Function = Callable[..., Tensor]


def gemm_with(choice: str, activation: str | None) -> tuple[Function, Function]:
    """Every argument of gemm at once, by smem and by torch."""
    kernel = CHOICES[choice]["gemm"]

    def ours(a: Tensor, b: Tensor, bias: Tensor, c: Tensor) -> Tensor:
        options = {"bias": bias, "c": c, "alpha": 0.5, "beta": 2.0, "activation": activation}
        return smem.gemm(a, b, **options, kernel=kernel)

    def torchs(a: Tensor, b: Tensor, bias: Tensor, c: Tensor) -> Tensor:
        return torch_gemm(a, b, bias, c, 0.5, 2.0, activation)

    return ours, torchs


def reduction(op: str) -> tuple[Callable[..., Tensor], Callable[..., Tensor]]:
    return (
        lambda x, k: getattr(smem, op)(x, 1, kernel=k["sum"]),
        lambda x: getattr(torch, op)(x, 1),
    )


# Of one matrix, the second argument being the choice of kernels; and torch's.
UNARY: dict[str, tuple[Callable[..., Tensor], Callable[..., Tensor]]] = {
    "gemm": (lambda x, k: smem.gemm(x, x.sin(), kernel=k["gemm"]), lambda x: x @ x.sin()),
    "gemm silu": (
        lambda x, k: smem.gemm(x, x, activation="silu", kernel=k["gemm"]),
        lambda x: F.silu(x @ x),
    ),
    "gemm direct": (
        lambda x, k: OPS.gemm(x, x, x[0], x, 1.0, 2.0, 2, 0, 3 * (k["gemm"] != "auto")),
        lambda x: F.gelu(x @ x + 2 * x + x[0]),
    ),
    "linear": (
        lambda x, k: smem.linear(x, x.sin(), x[0], activation="gelu"),
        lambda x: F.gelu(F.linear(x, x.sin(), x[0])),
    ),
    "linear direct": (
        lambda x, k: OPS.linear(x, x.sin(), x[0], 4),
        lambda x: F.silu(F.linear(x, x.sin(), x[0])),
    ),
    "transpose": (lambda x, k: smem.transpose(x, kernel=k["transpose"]) * x, lambda x: x.mT * x),
    "sum": reduction("sum"),
    "mean": reduction("mean"),
    "amax": reduction("amax"),
    "amin": reduction("amin"),
}


def loss(f: Function) -> Function:
    """A scalar that is not linear in what ``f`` returns."""
    return lambda *args: f(*args).sin().square().sum()


def dual(f: Function, x: Tensor, tangent: Tensor) -> Tensor:
    with forward_ad.dual_level():
        result = forward_ad.unpack_dual(f(forward_ad.make_dual(x, tangent)))
    assert result.tangent is not None, "the tangent was dropped"
    return result.tangent


def forward_over_reverse(f: Function, x: Tensor, tangent: Tensor) -> Tensor:
    """The Hessian times a vector, by dual tensors that require grad."""
    x = x.clone().requires_grad_()
    with forward_ad.dual_level():
        value = loss(f)(forward_ad.make_dual(x, tangent))
        (grad,) = torch.autograd.grad(value, x, create_graph=True)
        return forward_ad.unpack_dual(grad).tangent


def reverse_over_forward(f: Function, x: Tensor, tangent: Tensor) -> Tensor:
    x = x.clone().requires_grad_()
    (grad,) = torch.autograd.grad(dual(loss(f), x, tangent), x)
    return grad


WAYS: dict[str, Callable[[Function, Tensor, Tensor], object]] = {
    "jvp": lambda f, x, t: func.jvp(f, (x,), (t,)),
    "linearize": lambda f, x, t: func.linearize(f, x)[1](t),
    "dual": dual,
    "forward over reverse": forward_over_reverse,
    "reverse over forward": reverse_over_forward,
    "jacfwd": lambda f, x, t: func.jacfwd(f)(x),
    "hessian": lambda f, x, t: func.hessian(loss(f))(x),
    "jacrev(jacfwd)": lambda f, x, t: func.jacrev(func.jacfwd(loss(f)))(x),
    "jacfwd(jacfwd)": lambda f, x, t: func.jacfwd(func.jacfwd(loss(f)))(x),
    "jvp(jvp(jvp))": lambda f, x, t: func.jvp(
        lambda x: func.jvp(lambda x: func.jvp(f, (x,), (t * x,))[1], (x,), (x.sin(),))[1],
        (x,),
        (t,),
    ),
    "grad(jvp(grad))": lambda f, x, t: func.grad(
        lambda x: func.jvp(func.grad(loss(f)), (x,), (x * t,))[1].sum()
    )(x),
    "vmap(jvp)": lambda f, x, t: func.vmap(lambda t: func.jvp(f, (x,), (t,)))(
        torch.stack([t, 2 * t])
    ),
    "jvp(vmap)": lambda f, x, t: func.jvp(
        func.vmap(f), (torch.stack([x, t]),), (torch.stack([t, x]),)
    ),
}


@every_choice
@pytest.mark.parametrize("op", UNARY)
@pytest.mark.parametrize("way", WAYS)
def test_every_way_and_op(choice: str, op: str, way: str, device: str) -> None:
    ours, torchs = UNARY[op]
    x, tangent = (torch.randn(3, 3, dtype=torch.float64, device=device) for _ in range(2))
    expected = WAYS[way](torchs, x, tangent)
    close(WAYS[way](lambda x: ours(x, CHOICES[choice]), x, tangent), expected)


@every_choice
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_gemm_in_each_argument(choice: str, activation: str | None, device: str) -> None:
    """Tangents of one argument alone, and of all; batched and broadcast."""
    ours, torchs = gemm_with(choice, activation)
    shapes = ((2, 1, 3, 4), (3, 4, 5), (5,), (3, 1))
    inputs = tuple(torch.randn(s, dtype=torch.float64, device=device) for s in shapes)
    for argnums in (0, 1, 2, 3, (0, 1, 2, 3)):
        close(func.jacfwd(ours, argnums)(*inputs), func.jacfwd(torchs, argnums)(*inputs))


def test_gemm_with_an_unused_c(device: str) -> None:
    a, c = (torch.randn(3, 3, dtype=torch.float64, device=device) for _ in range(2))
    named = CHOICES["named"]["gemm"]
    _, tangent = func.jvp(lambda c: smem.gemm(a, a, c=c, beta=0.0, kernel=named), (c,), (c,))
    assert torch.equal(tangent, torch.zeros_like(a))


@pytest.mark.parametrize("op", ["amax", "amin"])
def test_tied_extrema_share_the_tangent(op: str, device: str) -> None:
    x = torch.tensor([[1.0, 1.0, 0.0], [0.0, 1.0, 1.0]], dtype=torch.float64, device=device)
    tangent = torch.randn_like(x)
    for dim in (None, 0, 1, (0, 1)):
        for keepdim in (False, True):
            ours, torchs = (
                func.jvp(f, (x,), (tangent,))[1]
                for f in (
                    lambda x: getattr(smem, op)(x, dim, keepdim, kernel=SUMS[-1]),  # noqa: B023
                    lambda x: getattr(torch, op)(x, dim or (() if dim is None else dim), keepdim),  # noqa: B023
                )
            )
            close(ours, torchs)


def test_sum_to_other_dtypes(device: str) -> None:
    x = torch.randn(3, 4, device=device)
    for kernel in smem.kernels("sum"):
        value, tangent = func.jvp(
            lambda x, k=kernel.name: smem.sum(x, 1, dtype=torch.float64, kernel=k), (x,), (x,)
        )
        assert tangent.dtype == torch.float64
        assert torch.equal(tangent, value)
        with forward_ad.dual_level():
            counted = smem.sum(forward_ad.make_dual(x, x), dtype=torch.int64, kernel=kernel.name)
            assert forward_ad.unpack_dual(counted).tangent is None


def test_module(device: str) -> None:
    """Per-sample Jacobians and a Hessian-vector product of a network of smem.Linear."""
    torch.manual_seed(5)
    ours = torch.nn.Sequential(smem.Linear(4, 6, activation="gelu"), smem.Linear(6, 2))
    ours = ours.to(device, torch.float64)
    torchs = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.GELU(), torch.nn.Linear(6, 2))
    torchs = torchs.to(device, torch.float64)
    with torch.no_grad():
        for p, q in zip(torchs.parameters(), ours.parameters(), strict=True):
            p.copy_(q)
    x = torch.randn(5, 4, dtype=torch.float64, device=device)

    def hessian_times_parameters(model: torch.nn.Module) -> dict[str, Tensor]:
        state = {name: p.detach() for name, p in model.named_parameters()}

        def value(state: dict[str, Tensor]) -> Tensor:
            return func.functional_call(model, state, (x,)).square().sum()

        return func.jvp(func.grad(value), (state,), (state,))[1]

    close(func.vmap(func.jacfwd(ours))(x), func.vmap(func.jacfwd(torchs))(x))
    ours_by_name, torchs_by_name = map(hessian_times_parameters, (ours, torchs))
    close(list(ours_by_name.values()), list(torchs_by_name.values()))


@every_choice
def test_compiled(choice: str, device: str) -> None:
    torch._dynamo.reset()
    ours, torchs = gemm_with(choice, "silu")
    inputs = tuple(
        torch.randn(s, dtype=torch.float64, device=device) for s in ((3, 4), (4, 5), (5,), (3, 5))
    )

    def jvp(f: Function) -> Callable[..., object]:
        return lambda *inputs: func.jvp(f, inputs, tuple(x.sin() for x in inputs))

    compiled = torch.compile(jvp(ours), fullgraph=True, backend="aot_eager")
    close(compiled(*inputs), jvp(torchs)(*inputs))
