"""Models trained by two processes: checks for each of those of distributed_worker.py."""

import contextlib
from collections.abc import Callable, Iterator
from unittest import mock

import torch
import torch.distributed as dist
import torch.nn.functional as F
from helpers import assert_accurate, normal
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DeviceMesh, DTensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

import torch_smem_gemm as smem


class Block(nn.Module):
    """Attention and an MLP, of Linear layers that tensor parallel can cut by heads and columns."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.head = width // heads
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (
            layer(x).unflatten(-1, (-1, self.head)).transpose(1, 2)
            for layer in (self.q, self.k, self.v)
        )
        mixed = torch.softmax(q @ k.mT / self.head**0.5, -1) @ v
        x = x + self.o(mixed.transpose(1, 2).flatten(-2))
        return x + self.down(F.gelu(self.up(x)))


class Model(nn.Module):
    """Two blocks, each of which computes its activations again in the backward if asked to."""

    def __init__(self, recompute: bool = False) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(16, 4) for _ in range(2))
        self.recompute = recompute

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.recompute else block(x)
        return x


def train(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """Five steps; the losses, and the parameters after them."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    losses = []
    for _ in range(5):
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
    parameters = [
        p.full_tensor() if isinstance(p, DTensor) else p
        for p in map(Tensor.detach, model.parameters())
    ]
    return torch.cat([torch.stack(losses), *(p.flatten() for p in parameters)])


def alone(x: Tensor, y: Tensor, *state: Tensor) -> Tensor:
    """What one process gets with torch's own layers."""
    model = Model().to(x)
    for parameter, value in zip(model.parameters(), state, strict=True):
        parameter.data = value.clone()
    return train(model, x, y)


@contextlib.contextmanager
def linear_by_op() -> Iterator[None]:
    """Let the layers call the op itself on CPU tensors too, where ATen would serve them."""
    by_op = lambda x, weight, bias, **_: torch.ops.smem.linear(x, weight, bias)  # noqa: E731
    with mock.patch("torch_smem_gemm.nn.linear", by_op):
        yield


def assert_trains_alike(mesh: DeviceMesh, wrap: Callable[[Model], nn.Module], split: bool) -> None:
    """Assert that ``wrap(model)`` learns what one process learns.

    Each process sees its half of the batch if ``split``, else all of it. On a grid those along its
    dimension "data" have a half each.
    """
    device = mesh.device_type
    data = mesh if mesh.ndim == 1 else mesh["data"]
    for recompute in (False, True):
        model = Model(recompute).to(device)
        assert len(smem.convert(model)) == 12
        state = [p.detach().clone() for p in model.parameters()]
        x, y = normal(8, 6, 16, device=device), normal(8, 6, 16, device=device)
        mine = (t.chunk(data.size())[data.get_local_rank()] if split else t for t in (x, y))
        with linear_by_op():
            result = train(wrap(model), *mine)
        if split:
            dist.all_reduce(result[:5])
            result[:5] /= dist.get_world_size()
        assert_accurate(alone, (result, (x, y, *state)))


def ddp(mesh: DeviceMesh) -> None:
    assert_trains_alike(mesh, DistributedDataParallel, split=True)


def fsdp2(mesh: DeviceMesh) -> None:
    def wrap(model: Model) -> nn.Module:
        for block in model.blocks:
            fully_shard(block, mesh=mesh)
        return fully_shard(model, mesh=mesh)

    assert_trains_alike(mesh, wrap, split=True)


def _parallel(model: Model, mesh: DeviceMesh) -> Model:
    """Cut every block by columns, then by rows."""
    plan = {
        **{name: ColwiseParallel() for name in ("q", "k", "v", "up")},
        **{name: RowwiseParallel() for name in ("o", "down")},
    }
    for block in model.blocks:
        parallelize_module(block, mesh, plan)
    return model


def tensor_parallel(mesh: DeviceMesh) -> None:
    assert_trains_alike(mesh, lambda model: _parallel(model, mesh), split=False)


def tensor_parallel_compiled(mesh: DeviceMesh) -> None:
    model = Model(recompute=True).to(mesh.device_type)
    smem.convert(model)
    x = normal(2, 6, 16, device=mesh.device_type)
    expected = model(x)
    compiled = torch.compile(_parallel(model, mesh), backend="aot_eager", fullgraph=True)
    with linear_by_op():
        result = compiled(x)
        result.sum().backward()
    torch.testing.assert_close(result, expected)
    assert all(p.grad is not None for p in model.parameters())


def fsdp2_of_tensor_parallel(mesh: DeviceMesh) -> None:
    def wrap(model: Model) -> nn.Module:
        _parallel(model, mesh["model"])
        for block in model.blocks:
            fully_shard(block, mesh=mesh["data"])
        return fully_shard(model, mesh=mesh["data"])

    assert_trains_alike(mesh, wrap, split=True)


CHECKS = (
    ddp,
    fsdp2,
    tensor_parallel,
    tensor_parallel_compiled,
)
GRID_CHECKS = (fsdp2_of_tensor_parallel,)
