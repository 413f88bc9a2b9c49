"""What the ops do with DTensors: checks for each of the processes of distributed_worker.py."""

import functools
import sys
from collections.abc import Callable

import torch
import torch.distributed as dist
from helpers import normal, small_integers
from torch import Tensor
from torch.distributed.tensor import (
    DeviceMesh,
    DTensor,
    Partial,
    Placement,
    Replicate,
    Shard,
    distribute_tensor,
)
from torch.distributed.tensor.debug import CommDebugMode

import torch_smem_gemm as smem

R, S0, S1, S2 = Replicate(), Shard(0), Shard(1), Shard(2)
ops = torch.ops.smem


def assert_same(
    mesh: DeviceMesh,
    function: Callable[..., Tensor],
    *placed: tuple[Tensor, Placement],
    to: Placement,
    gathers: bool = False,
    exact: bool = True,
) -> None:
    """Assert that DTensors so placed give one process's result and gradients, and where they lie.

    Forward and backward exchange nothing unless they have to: the forward then ``gathers``. Numbers
    that make ``exact`` sums leave no tolerance.
    """
    plain = [x.to(mesh.device_type, copy=True).requires_grad_() for x, _ in placed]
    sharded = [
        distribute_tensor(x.detach(), mesh, [placement]).requires_grad_()
        for x, (_, placement) in zip(plain, placed, strict=True)
    ]
    expected = function(*plain)
    with CommDebugMode() as exchanged:
        result = function(*sharded)
    assert isinstance(result, DTensor)
    assert result.placements == (to,), result.placements
    assert (exchanged.get_total_counts() > 0) == gathers, exchanged.get_comm_counts()

    grad = small_integers(*expected.shape, device=mesh.device_type)
    grad_everywhere = distribute_tensor(grad, mesh, [R])
    with CommDebugMode() as exchanged:
        grads = torch.autograd.grad(result, sharded, grad_everywhere)
    assert gathers or not exchanged.get_total_counts(), exchanged.get_comm_counts()
    tolerance = {"rtol": 0, "atol": 0} if exact else {}
    for got, want in zip(
        (result, *grads), (expected, *torch.autograd.grad(expected, plain, grad)), strict=True
    ):
        torch.testing.assert_close(got.full_tensor(), want, **tolerance)


def rules_come_with_the_first_dtensor(mesh: DeviceMesh) -> None:
    x = distribute_tensor(normal(4, 4, device=mesh.device_type), mesh, [S0])
    assert "torch_smem_gemm.distributed" not in sys.modules
    ops.transpose(x)
    assert "torch_smem_gemm.distributed" in sys.modules


def _by_name(kernel: str, *tensors: Tensor, activation: str | None = None) -> Tensor:
    a, b, bias, c = (*tensors, None, None)[:4]
    beta = 0.0 if c is None else 2.0
    return smem.gemm(a, b, bias=bias, c=c, beta=beta, activation=activation, kernel=kernel)


def _by_op(*tensors: Tensor, activation: str | None = None) -> Tensor:
    a, b, bias, c = (*tensors, None, None)[:4]
    return ops.gemm(a, b, bias, c, 1.0, 0.0 if c is None else 2.0, 2 if activation else 0)


_GEMMS: dict[str, Callable[..., Tensor]] = {
    "auto": functools.partial(_by_name, "auto"),
    "tiled32": functools.partial(_by_name, "tiled32"),
    "op": _by_op,
}


def gemm(mesh: DeviceMesh) -> None:
    a, b = small_integers(5, 7), small_integers(7, 3)
    bias, c, column = small_integers(3), small_integers(5, 3), small_integers(5, 1)
    for name, function in _GEMMS.items():
        assert_same(mesh, function, (a, R), (b, R), (bias, R), to=R)
        assert_same(mesh, function, (a, S0), (b, R), to=S0)
        assert_same(mesh, function, (a, R), (b, S1), to=S1)
        assert_same(mesh, function, (a, S1), (b, S0), to=Partial())
        if name == "auto":
            continue  # ATen decides how it adds bias and c
        assert_same(mesh, function, (a, S0), (b, R), (bias, R), (c, S0), to=S0)
        assert_same(mesh, function, (a, S0), (b, R), (bias, R), (column, S0), to=S0)
        assert_same(mesh, function, (a, R), (b, S1), (bias, S0), (c, S1), to=S1)
        assert_same(mesh, function, (a, R), (b, S1), (bias, S0), (column, R), to=S1)
        assert_same(mesh, function, (a, S1), (b, S0), (bias, R), (c, R), to=Partial())


def gemm_in_batches(mesh: DeviceMesh) -> None:
    a, b = small_integers(4, 5, 6), small_integers(4, 6, 3)
    function = _GEMMS["tiled32"]
    assert_same(mesh, function, (a, S0), (b, S0), to=S0)
    assert_same(mesh, function, (a, S0), (b[0], R), to=S0)
    assert_same(mesh, function, (a, S1), (b[0], R), to=S1)
    assert_same(mesh, function, (a[0], R), (b, S0), to=S0)
    assert_same(mesh, function, (a[:1], R), (b, S0), to=S0)
    assert_same(mesh, function, (a, S2), (b, S1), to=Partial())
    assert_same(mesh, function, (a, S2), (b[0], S0), to=Partial())


def no_activation_of_a_part(mesh: DeviceMesh) -> None:
    a, b, bias = normal(6, 8), normal(8, 4), normal(4)
    x, weight = normal(2, 3, 8), normal(4, 8)
    for name in ("tiled32", "op"):
        function = functools.partial(_GEMMS[name], activation="gelu")
        same = functools.partial(assert_same, mesh, function, exact=False)
        same((a, S0), (b, R), (bias, R), to=S0)
        same((a, R), (b, S1), (bias, S0), to=S1)
        same((a, S1), (b, S0), (bias, R), to=R, gathers=True)

    def linear(*tensors: Tensor) -> Tensor:
        return ops.linear(*tensors, 2)

    same = functools.partial(assert_same, mesh, linear, exact=False)
    same((x, R), (weight, S0), (bias, S0), to=S2)
    same((x, S2), (weight, S1), (bias, R), to=R, gathers=True)


def linear(mesh: DeviceMesh) -> None:
    x, weight, bias = small_integers(4, 5, 7), small_integers(3, 7), small_integers(3)
    for function in (ops.linear, smem.linear):
        assert_same(mesh, function, (x, R), (weight, R), (bias, R), to=R)
        assert_same(mesh, function, (x, S0), (weight, R), (bias, R), to=S0)
        assert_same(mesh, function, (x, R), (weight, S0), (bias, S0), to=S2)
        assert_same(mesh, function, (x, S2), (weight, S1), (bias, R), to=Partial())
    # Not smem.linear, which is ATen's on the CPU: torch.nn.functional.linear gathers for the first
    # two, and gives a result of two dimensions for the last.
    assert_same(mesh, ops.linear, (x, S1), (weight, R), (bias, R), to=S1)
    assert_same(mesh, ops.linear, (x[:, :4], S1), (weight, R), (bias, R), to=S1)
    assert_same(mesh, ops.linear, (x[0, 0], S0), (weight, S1), to=Partial())


def sums_not_rounded(mesh: DeviceMesh) -> None:
    a, b, c = small_integers(4, 6), small_integers(6, 2), small_integers(4, 2)

    def gemm(a: Tensor, b: Tensor, *c: Tensor) -> Tensor:
        addend = (*c, None)[0]
        return ops.gemm(
            a.bfloat16(), b.bfloat16(), None, addend, 1.0, float(len(c)), 0, 0, 0, torch.float32
        )

    def linear(a: Tensor, b: Tensor) -> Tensor:
        return ops.linear(a.bfloat16(), b.mT.bfloat16(), None, 0, 0, torch.float32)

    for function in (gemm, linear):
        assert_same(mesh, function, (a, S0), (b, R), to=S0)
        assert_same(mesh, function, (a, R), (b, S1), to=S1)
        assert_same(mesh, function, (a, S1), (b, S0), to=Partial())
    assert_same(mesh, gemm, (a, S0), (b, R), (c, S0), to=S0)


def gradients_of_activations(mesh: DeviceMesh) -> None:
    """Of the op with two results: each of them, and both."""
    x, weight, bias = normal(4, 3, 8), normal(4, 8), normal(4)
    for part in (lambda y, z: y, lambda y, z: z, lambda y, z: y * z):

        def linear(*tensors: Tensor, part: Callable[..., Tensor] = part) -> Tensor:
            return part(*ops.linear_with_preactivation(*tensors, 3))

        same = functools.partial(assert_same, mesh, linear, exact=False)
        same((x, S0), (weight, R), (bias, R), to=S0)
        same((x, R), (weight, S0), (bias, S0), to=S2)
    a, b = normal(4, 8), normal(8, 6)
    same = functools.partial(assert_same, mesh, exact=False)
    for activation in ("relu", "gelu_tanh"):
        function = functools.partial(_by_name, "tiled32", activation=activation)
        same(function, (a, S0), (b, R), (normal(6), R), to=S0)
        same(function, (a, R), (b, S1), (normal(6), S0), to=S1)


def transpose(mesh: DeviceMesh) -> None:
    x = small_integers(4, 5, 6)
    for kernel in ("auto", "padded"):
        function = functools.partial(smem.transpose, dim0=0, dim1=-1, kernel=kernel)
        for source, target in ((R, R), (S0, S2), (S1, S1), (S2, S0)):
            assert_same(mesh, function, (x, source), to=target)
    for part in (Partial(), Partial("max")):
        mine = normal(4, 5, device=mesh.device_type)
        parts = DTensor.from_local(mine * (dist.get_rank() + 1), mesh, [part])
        result = ops.transpose(parts)
        assert result.placements == (part,)
        torch.testing.assert_close(result.full_tensor(), parts.full_tensor().mT)


def sums(mesh: DeviceMesh) -> None:
    x = small_integers(4, 5, 6)
    for kernel in ("auto", "tree"):
        # In turn with one layout: DTensor must not take one's answer for another's.
        for dim, keepdim, target in (
            (0, False, Partial()),
            (1, False, S0),
            (1, True, S0),
            ((0, 2), False, Partial()),
            (None, False, Partial()),
        ):
            function = functools.partial(smem.sum, dim=dim, keepdim=keepdim, kernel=kernel)
            assert_same(mesh, function, (x, S0), to=target)
            assert_same(mesh, function, (x, R), to=R)
    assert_same(mesh, lambda x: ops.sum(x, [0]), (x, S2), to=S1)
    assert_same(mesh, lambda x: ops.sum(x, [0], True), (x, S2), to=S2)

    parts = DTensor.from_local(normal(4, device=mesh.device_type), mesh, [Partial()])
    assert ops.sum(parts).placements == (Partial(),)
    # What is rounded first must be whole before.
    large = torch.full((4,), 0.6, device=mesh.device_type)
    parts = DTensor.from_local(large, mesh, [Partial()])
    assert ops.sum(parts, None, False, torch.int64).full_tensor() == 4


def means(mesh: DeviceMesh) -> None:
    x = small_integers(4, 5, 6)
    same = functools.partial(assert_same, mesh, exact=False)
    same(lambda x: ops.mean(x, [0]), (x, S0), to=Partial("avg"))
    same(lambda x: ops.mean(x, [0]), (x, S1), to=S0)
    same(lambda x: ops.mean(x), (x, S2), to=Partial("avg"))
    # Shards of 3 and 2: the mean of their means would be another number.
    same(lambda x: ops.mean(x, [1]), (x, S1), to=R, gathers=True)


def extrema(mesh: DeviceMesh) -> None:
    x = normal(4, 5, 6)
    for op in (ops.amax, ops.amin):
        assert_same(mesh, functools.partial(op, dim=[1]), (x, S0), to=S0, exact=False)
        assert_same(mesh, functools.partial(op, dim=[1]), (x, S1), to=R, gathers=True, exact=False)
        for place in (0, -1):  # with either process: torch.amax loses one of them
            with_nan = x.clone().to(mesh.device_type)
            with_nan[place] = torch.nan
            result = op(distribute_tensor(with_nan, mesh, [S0]), [0])
            assert result.full_tensor().isnan().all()


def products_on_a_grid(mesh: DeviceMesh) -> None:
    """Each dimension of the mesh is sharded, or adds, for itself."""
    a, b = (small_integers(*s).to(mesh.device_type) for s in ((6, 8), (8, 10)))
    for a_placed, b_placed, to in (
        ((S0, R), (R, S1), (S0, S1)),
        ((R, S0), (S1, R), (S1, S0)),
        ((S0, S1), (R, S0), (S0, Partial())),
        ((S1, R), (S0, S1), (Partial(), S1)),
        ((S1, S1), (S0, S0), (Partial(), Partial())),
    ):
        left, right = distribute_tensor(a, mesh, a_placed), distribute_tensor(b, mesh, b_placed)
        for name, function in _GEMMS.items():
            result = function(left, right)
            assert isinstance(result, DTensor)
            assert result.placements == to, (name, result.placements)
            assert torch.equal(result.full_tensor(), a @ b), name


CHECKS = (
    rules_come_with_the_first_dtensor,
    gemm,
    gemm_in_batches,
    no_activation_of_a_part,
    linear,
    sums_not_rounded,
    gradients_of_activations,
    transpose,
    sums,
    means,
    extrema,
)
GRID_CHECKS = (products_on_a_grid,)
