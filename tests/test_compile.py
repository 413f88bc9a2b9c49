"""torch.compile, torch.export and opcheck."""

import itertools
from collections.abc import Callable

import pytest
import torch
import torch._dynamo.testing
import torch.nn.functional as F
from helpers import CHOICES, GEMMS, linked_by_inductor, torch_gemm
from torch import Tensor
from torch.library import opcheck

import torch_smem_gemm as smem

OPS = torch.ops.smem
close = torch.testing.assert_close
every_choice = pytest.mark.parametrize("choice", CHOICES)
# Inductor takes many seconds. A kernel's name and dynamic sizes pass through it independently.
BY_SWEEP = [("auto", False, "inductor"), ("named", True, "inductor")]


def network(kernels: dict[str, str]) -> Callable[..., Tensor]:
    """All four ops in one function."""

    def function(a: Tensor, b: Tensor, bias: Tensor, c: Tensor) -> Tensor:
        y = smem.gemm(
            a, b, bias=bias, activation="gelu", c=c, beta=0.5, alpha=2.0, kernel=kernels["gemm"]
        )
        z = smem.linear(y, b, bias, activation="silu")
        return smem.sum(smem.transpose(z, kernel=kernels["transpose"]), 0, kernel=kernels["sum"])

    return function


def torch_network(a: Tensor, b: Tensor, bias: Tensor, c: Tensor) -> Tensor:
    y = torch_gemm(a, b, bias, c, 2.0, 0.5, "gelu")
    return F.silu(F.linear(y, b, bias)).mT.sum(0)


def inputs_of(rows: int, device: str, grad: bool = True) -> list[Tensor]:
    # float64: four ops and their gradients in a row round differently on every CPU in float32.
    shapes = ((rows, 8), (8, 8), (8,), (rows, 1))
    return [
        torch.randn(shape, dtype=torch.float64, device=device, requires_grad=grad)
        for shape in shapes
    ]


@pytest.mark.parametrize(
    ("choice", "dynamic", "backend"),
    [
        pytest.param(
            *case,
            marks=[linked_by_inductor] * ("inductor" in case)
            + [pytest.mark.sweep] * (case in BY_SWEEP),
        )
        for case in itertools.product(CHOICES, (False, True), ("inductor", "aot_eager"))
    ],
)
def test_compile(choice: str, dynamic: bool, backend: str, device: str) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(
        network(CHOICES[choice]), fullgraph=True, dynamic=dynamic, backend=backend
    )
    for rows in (3, 5, 6) if dynamic else (3,):
        inputs = inputs_of(rows, device)
        result, expected = compiled(*inputs), torch_network(*inputs)
        close(result, expected)
        seed = torch.randn_like(expected)
        for grad, expected_grad in zip(
            torch.autograd.grad(result, inputs, seed),
            torch.autograd.grad(expected, inputs, seed),
            strict=True,
        ):
            close(grad, expected_grad)
        with torch.no_grad():
            close(compiled(*inputs), expected)


def test_compile_makes_one_graph_for_all_sizes(device: str) -> None:
    torch._dynamo.reset()
    counter = torch._dynamo.testing.CompileCounter()
    compiled = torch.compile(
        network(CHOICES["named"]), fullgraph=True, dynamic=True, backend=counter
    )
    for rows in (3, 5, 17, 64):
        compiled(*inputs_of(rows, device, grad=False))
    assert counter.frame_count == 1


def test_compile_of_direct_calls(device: str) -> None:
    torch._dynamo.reset()

    def function(a: Tensor, b: Tensor) -> Tensor:
        return OPS.sum(OPS.transpose(OPS.linear(OPS.gemm(a, b), b)), [0])

    a, b = torch.randn(4, 8, device=device), torch.randn(8, 8, device=device)
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    close(compiled(a, b), (a @ b @ b.mT).mT.sum(0))


def test_compile_with_out(device: str) -> None:
    torch._dynamo.reset()

    def function(a: Tensor, b: Tensor, out: Tensor) -> Tensor:
        smem.gemm(a, b, kernel=GEMMS[2], out=out)
        return out + 1

    a, b = torch.randn(4, 8, device=device), torch.randn(8, 5, device=device)
    out = torch.full((4, 5), torch.nan, device=device)
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    close(compiled(a, b, out), a @ b + 1)
    close(out, a @ b)


def test_export(device: str) -> None:
    class Module(torch.nn.Module):
        def forward(self, a: Tensor, b: Tensor, bias: Tensor, c: Tensor) -> Tensor:
            return network(CHOICES["named"])(a, b, bias, c)

    inputs = inputs_of(3, device, grad=False)
    exported = torch.export.export(Module(), tuple(inputs))
    close(exported.module()(*inputs), torch_network(*inputs))


# -------------------------------------------------------------------------------------- opcheck

# op, shapes of its tensors, the arguments after them, the shape of out where it takes one
CHECKS = [
    ("gemm", ((3, 4), (4, 5)), (), (3, 5)),
    ("gemm", ((2, 1, 3, 4), (2, 4, 5), (5,), (3, 1)), (0.5, 2.0, 2, 0, 0), (2, 2, 3, 5)),
    ("gemm", ((3, 4), (4, 5), (5,), (3, 5)), (0.5, 2.0, 4, 1, 3), (3, 5)),
    ("linear", ((3, 4), (5, 4)), (), (3, 5)),
    ("linear", ((4,), (5, 4), (5,)), (1,), (5,)),
    ("gemm_with_preactivation", ((3, 4), (4, 5), (5,), (3, 5)), (0.5, 2.0, 2, 0, 0), None),
    ("gemm_with_preactivation", ((2, 3, 4), (4, 5), (5,), (3, 5)), (0.5, 2.0, 4, 1, 3), None),
    ("linear_with_preactivation", ((3, 4), (5, 4), (5,)), (3,), None),
    ("transpose", ((3, 4),), (), (4, 3)),
    ("transpose", ((3, 4, 2),), (0, 2, 3), (2, 4, 3)),
    ("sum", ((3, 4),), (), ()),
    ("sum", ((3, 4),), ([1], True, None, 2), (3, 1)),
    ("mean", ((3, 4),), (), ()),
    ("mean", ((3, 4),), ([1], True, None, 3), (3, 1)),
    *[(name, ((3, 4),), (), ()) for name in ("amax", "amin")],
    *[(name, ((3, 4),), ([0], False, 4), (4,)) for name in ("amax", "amin")],
]


@pytest.mark.parametrize("prefix", ["", "_"])
@pytest.mark.parametrize(("op", "shapes", "rest", "out_shape"), CHECKS)
@pytest.mark.one_in(2)
def test_opcheck(
    op: str, prefix: str, shapes: tuple, rest: tuple, out_shape: tuple | None, device: str
) -> None:
    packet = getattr(OPS, prefix + op)
    tensors = [torch.randn(s, dtype=torch.float64, device=device) for s in shapes]
    if out_shape is not None:
        out = torch.empty(out_shape, dtype=torch.float64, device=device)
        opcheck(packet.out, (*tensors, *rest), {"out": out})
    if prefix == "":  # the bare ops have no gradients: callers see to them
        tensors = [x.requires_grad_() for x in tensors]
    opcheck(packet.default, (*tensors, *rest))


def test_every_op_and_overload_is_checked() -> None:
    assert {f"smem::{op}" for op, *_ in CHECKS} == {
        name
        for name in torch._C._dispatch_get_all_op_names()
        if name.startswith("smem::")
        and not name.startswith("smem::_")
        and not name.endswith(".out")
    }
