"""Models trained by several processes: checks for each of those of distributed_worker.py."""

import contextlib
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from unittest import mock

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.nn.functional as F
from helpers import assert_accurate, normal
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DeviceMesh, DTensor, init_device_mesh
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

import torch_smem_gemm as smem
from torch_smem_gemm.ops._autocast import autocast


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


def optimizer_of(model: nn.Module) -> torch.optim.Optimizer:
    """The one that all of these trainings use."""
    return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)


def train(
    model: nn.Module, optimizer: torch.optim.Optimizer, x: Tensor, y: Tensor, steps: int
) -> Tensor:
    """Train; returns the loss of each step."""
    losses = []
    for _ in range(steps):
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
    return torch.stack(losses)


def outcome(losses: Tensor, model: nn.Module) -> Tensor:
    """The losses, and the parameters after them."""
    parameters = [
        p.full_tensor() if isinstance(p, DTensor) else p
        for p in map(Tensor.detach, model.parameters())
    ]
    return torch.cat([losses, *(p.flatten() for p in parameters)])


def alone(x: Tensor, y: Tensor, *state: Tensor) -> Tensor:
    """What one process gets in five steps with torch's own layers."""
    model = Model().to(x)
    for parameter, value in zip(model.parameters(), state, strict=True):
        parameter.data = value.clone()
    return outcome(train(model, optimizer_of(model), x, y, 5), model)


@contextlib.contextmanager
def linear_by_op(mesh: DeviceMesh) -> Iterator[None]:
    """Let the layers call the op on CPU tensors too, where ATen would serve them."""

    def by_op(x: Tensor, weight: Tensor, bias: Tensor, **_: object) -> Tensor:
        return torch.ops.smem.linear(*autocast(x, weight, bias))

    on_cpu = mesh.device_type == "cpu"
    with mock.patch("torch_smem_gemm.nn.linear", by_op) if on_cpu else contextlib.nullcontext():
        yield


@dataclass(frozen=True)
class Layout:
    """How a model lies on the processes."""

    wrap: Callable[[Model], nn.Module]
    data: DeviceMesh | None = None  # its processes share the batch; None: each has all of it

    def train(
        self, model: nn.Module, optimizer: torch.optim.Optimizer, x: Tensor, y: Tensor, steps: int
    ) -> Tensor:
        """Train the wrapped ``model`` on this process's share; the losses of the whole batch."""
        if self.data is None:
            return train(model, optimizer, x, y, steps)
        rank, parts = self.data.get_local_rank(), self.data.size()
        losses = train(model, optimizer, x.chunk(parts)[rank], y.chunk(parts)[rank], steps)
        dist.all_reduce(losses)
        return losses / dist.get_world_size()


def assert_trains_alike(mesh: DeviceMesh, layout: Layout) -> None:
    """Assert that the wrapped model learns what one process learns."""
    device = mesh.device_type
    for recompute in (False, True):
        model = Model(recompute).to(device)
        assert len(smem.convert(model)) == 12
        state = [p.detach().clone() for p in model.parameters()]
        x, y = normal(8, 6, 16, device=device), normal(8, 6, 16, device=device)
        with linear_by_op(mesh):
            wrapped = layout.wrap(model)
            losses = layout.train(wrapped, optimizer_of(wrapped), x, y, 5)
        assert_accurate(alone, (outcome(losses, wrapped), (x, y, *state)))


def _sharded(mesh: DeviceMesh) -> Layout:
    """FSDP2 over all processes of ``mesh``."""

    def wrap(model: Model) -> nn.Module:
        for block in model.blocks:
            fully_shard(block, mesh=mesh)
        return fully_shard(model, mesh=mesh)

    return Layout(wrap, data=mesh)


def _parallel(model: Model, mesh: DeviceMesh) -> Model:
    """Cut every block by columns, then by rows."""
    plan = {
        **{name: ColwiseParallel() for name in ("q", "k", "v", "up")},
        **{name: RowwiseParallel() for name in ("o", "down")},
    }
    for block in model.blocks:
        parallelize_module(block, mesh, plan)
    return model


def _sharded_parallel(mesh: DeviceMesh, backend: str | None = None) -> Layout:
    """FSDP2 of tensor parallel; each block compiled by ``backend``."""

    def wrap(model: Model) -> nn.Module:
        _parallel(model, mesh["model"])
        for block in model.blocks:
            if backend:
                block.compile(backend=backend, fullgraph=True)
            fully_shard(block, mesh=mesh["data"])
        return fully_shard(model, mesh=mesh["data"])

    return Layout(wrap, data=mesh["data"])


def ddp(mesh: DeviceMesh) -> None:
    assert_trains_alike(mesh, Layout(DistributedDataParallel, data=mesh))


def fsdp2(mesh: DeviceMesh) -> None:
    assert_trains_alike(mesh, _sharded(mesh))


def tensor_parallel(mesh: DeviceMesh) -> None:
    assert_trains_alike(mesh, Layout(lambda model: _parallel(model, mesh)))


def tensor_parallel_compiled(mesh: DeviceMesh) -> None:
    model = Model(recompute=True).to(mesh.device_type)
    smem.convert(model)
    x = normal(2, 6, 16, device=mesh.device_type)
    expected = model(x)
    compiled = torch.compile(_parallel(model, mesh), backend="aot_eager", fullgraph=True)
    with linear_by_op(mesh):
        result = compiled(x)
        result.sum().backward()
    torch.testing.assert_close(result, expected)
    assert all(p.grad is not None for p in model.parameters())


def fsdp2_of_tensor_parallel(mesh: DeviceMesh) -> None:
    assert_trains_alike(mesh, _sharded_parallel(mesh))


def fsdp2_of_tensor_parallel_in_autocast(mesh: DeviceMesh) -> None:
    with torch.autocast(mesh.device_type, torch.bfloat16):
        assert_trains_alike(mesh, _sharded_parallel(mesh))


def fsdp2_of_tensor_parallel_compiled(mesh: DeviceMesh) -> None:
    backend = "inductor" if mesh.device_type == "cuda" else "aot_eager"
    assert_trains_alike(mesh, _sharded_parallel(mesh, backend))


def _shared_folder() -> str:
    """A new folder whose name all processes have."""
    name = [tempfile.mkdtemp() if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(name)
    assert name[0]
    return name[0]


def states_go_from_layout_to_layout(mesh: DeviceMesh) -> None:
    """Two steps in one layout, saved; three steps in another from what it loads: five alone."""
    device = mesh.device_type
    line = init_device_mesh(device, (dist.get_world_size(),))
    layouts = {
        "2-D": _sharded_parallel(mesh),
        "tensor parallel": Layout(lambda model: _parallel(model, line)),
        "FSDP2": _sharded(line),
        "DDP": Layout(DistributedDataParallel, data=line),
        "one process": Layout(lambda model: model),
    }
    torch.manual_seed(0)
    start = [p.detach() for p in Model().to(device).parameters()]
    x, y = normal(8, 6, 16, device=device), normal(8, 6, 16, device=device)
    names = list(layouts)
    for source, target in zip(names, (*names[1:], names[0]), strict=True):
        folder = _shared_folder()
        losses = []
        for name, steps in ((source, 2), (target, 3)):
            model = Model().to(device)
            smem.convert(model)
            for parameter, value in zip(model.parameters(), start, strict=True):
                parameter.data = value.clone() if name is source else torch.zeros_like(value)
            wrapped = layouts[name].wrap(model)
            optimizer = optimizer_of(wrapped)
            if name is target:
                weights, moments = get_state_dict(wrapped, optimizer)
                state = {"weights": weights, "moments": moments}
                dcp.load(state, checkpoint_id=folder)
                set_state_dict(
                    wrapped,
                    optimizer,
                    model_state_dict=state["weights"],
                    optim_state_dict=state["moments"],
                )
            with linear_by_op(mesh):
                losses.append(layouts[name].train(wrapped, optimizer, x, y, steps))
            if name is source:
                weights, moments = get_state_dict(wrapped, optimizer)
                dcp.save({"weights": weights, "moments": moments}, checkpoint_id=folder)
        dist.barrier()
        if dist.get_rank() == 0:
            shutil.rmtree(folder)
        assert_accurate(alone, (outcome(torch.cat(losses), wrapped), (x, y, *start)))


CHECKS = (
    ddp,
    fsdp2,
    tensor_parallel,
    tensor_parallel_compiled,
)
GRID_CHECKS = (
    fsdp2_of_tensor_parallel,
    fsdp2_of_tensor_parallel_in_autocast,
    fsdp2_of_tensor_parallel_compiled,
    states_go_from_layout_to_layout,
)
