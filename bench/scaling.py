"""Time a GPT's training step on one, two and four GPUs, and write docs/integration.md's table.

python bench/scaling.py --out bench/results/scaling-h100.json    # on four GPUs of one host
PYTHONPATH=. python bench/scaling.py                             # rewrite the table
PYTHONPATH=. python bench/scaling.py --check                     # exit with 1 if it is stale
"""

from __future__ import annotations

import copy
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from measured_document import command
from origin import measured_on, origin
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

import torch_smem_gemm as smem
from torch_smem_gemm.bench.report import between
from torch_smem_gemm.examples.gpt import Block

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs" / "integration.md"
RESULTS = ROOT / "bench" / "results" / "scaling-h100.json"

WORLDS = (1, 2, 4)  # numbers of GPUs
HEAD = 128  # width of an attention head
SIZES = {"width": 4096, "layers": 2, "batch": 2, "length": 2048}  # batch: rows a GPU
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
WARMUP, ROUNDS, STEPS = 3, 5, 4  # steps before; rounds of so many steps


class BlockByHeads(Block):
    """A block with q, k and v of a head in adjacent columns, so that tensor parallel cuts heads."""

    def split_heads(self, qkv: Tensor) -> Tensor:
        """Of the columns that this process has: their heads may be fewer than the model's."""
        head = self.norm1.normalized_shape[0] // self.heads
        return qkv.unflatten(-1, (-1, 3, head)).permute(3, 0, 2, 1, 4)


Wrap = Callable[[nn.Sequential], nn.Module]


def layouts(device: str, world: int) -> dict[str, tuple[int, Wrap]]:
    """By name: the processes that share the batch, and what lays the model on all ``world``."""
    if world == 1:
        return {"one GPU": (1, lambda model: model)}
    line = init_device_mesh(device, (world,))

    def sharded(model: nn.Sequential, mesh: Any = line) -> nn.Module:
        for block in model:
            fully_shard(block, mesh=mesh)
        return fully_shard(model, mesh=mesh)

    def parallel(model: nn.Sequential, mesh: Any = line) -> nn.Sequential:
        plan = {
            **{name: ColwiseParallel() for name in ("qkv", "up")},
            **{name: RowwiseParallel() for name in ("out", "down")},
        }
        for block in model:
            parallelize_module(block, mesh, plan)
        return model

    found: dict[str, tuple[int, Wrap]] = {
        "DDP": (world, DistributedDataParallel),
        "FSDP2": (world, sharded),
        "tensor parallel": (1, parallel),
    }
    if world % 2 == 0 and world > 2:
        grid = init_device_mesh(device, (world // 2, 2), mesh_dim_names=("data", "model"))
        found["FSDP2 of tensor parallel"] = (
            world // 2,
            lambda model: sharded(parallel(model, grid["model"]), grid["data"]),
        )
    return found


def seconds_of(wrap: Wrap, x: Tensor, sizes: Mapping[str, int]) -> tuple[dict[str, float], float]:
    """The time of a step by torch and converted, and how far their last losses are apart.

    A step is forward, backward and AdamW on this process's rows ``x``. The times are medians of
    interleaved rounds, each by the slowest process.
    """
    torch.manual_seed(0)
    width = sizes["width"]
    torchs = nn.Sequential(
        *(BlockByHeads(width, max(width // HEAD, 4)) for _ in range(sizes["layers"]))
    ).to(x)
    ours = copy.deepcopy(torchs)
    smem.convert(ours)

    def stepper(model: nn.Sequential) -> Callable[[], Tensor]:
        wrapped = wrap(model)
        # torch's fused AdamW takes no group that mixes DTensors with the norms' plain tensors.
        groups: dict[bool, list[nn.Parameter]] = {}
        for parameter in wrapped.parameters():
            groups.setdefault(isinstance(parameter, DTensor), []).append(parameter)
        optimizer = torch.optim.AdamW(
            [{"params": group} for group in groups.values()], lr=1e-4, fused=True
        )

        def step() -> Tensor:
            loss = wrapped(x).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            return loss.detach()

        return step

    steppers = {"torch": stepper(torchs), "smem": stepper(ours)}
    wait = torch.cuda.synchronize if x.is_cuda else lambda: None
    losses = {name: [step() for _ in range(WARMUP)][-1].item() for name, step in steppers.items()}
    times: dict[str, list[float]] = {name: [] for name in steppers}
    for _ in range(ROUNDS):
        for name, step in steppers.items():
            wait()
            dist.barrier()
            start = time.perf_counter()
            for _ in range(STEPS):
                losses[name] = step()
            wait()
            slowest = torch.tensor((time.perf_counter() - start) / STEPS, device=x.device)
            dist.all_reduce(slowest, dist.ReduceOp.MAX)
            times[name].append(slowest.item())
    apart = abs(float(losses["smem"]) / float(losses["torch"]) - 1)
    return {name: statistics.median(found) for name, found in times.items()}, apart


def process(rank: int, world: int, device: str, sizes: Mapping[str, int], folder: str) -> None:
    """Time all layouts of ``world`` processes, as one of them; the first one writes the rows."""
    if device == "cuda":
        torch.cuda.set_device(rank)
    backend = "nccl" if device == "cuda" else "gloo"
    store = f"file://{folder}/store"
    dist.init_process_group(backend, init_method=store, rank=rank, world_size=world)
    rows = []
    for layout, (sharing, wrap) in layouts(device, world).items():
        for name, dtype in DTYPES.items():
            torch.manual_seed(1)
            rows_here = sizes["batch"] * world // sharing
            shape = (rows_here, sizes["length"], sizes["width"])
            x = torch.randn(shape, device=device, dtype=dtype)
            seconds, apart = seconds_of(wrap, x, sizes)
            tokens = sizes["batch"] * world * sizes["length"]
            rows.append(
                {
                    "gpus": world,
                    "layout": layout,
                    "dtype": name,
                    "tokens": tokens,
                    "tokens_per_second": {by: tokens / taken for by, taken in seconds.items()},
                    "losses_apart": apart,
                }
            )
            torch.cuda.empty_cache()
    if rank == 0:
        Path(folder, "rows.json").write_text(json.dumps(rows))
    dist.barrier()
    dist.destroy_process_group()
    # DTensor's caches keep the group and so gloo's threads, which may call std::terminate when the
    # interpreter exits.
    sys.stdout.flush()
    os._exit(0)


def rows_of(worlds: tuple[int, ...], device: str, sizes: Mapping[str, int]) -> list[dict[str, Any]]:
    """The rows of the results file, by processes of their own for each number of GPUs."""
    rows = []
    for world in worlds:
        with tempfile.TemporaryDirectory() as folder:
            arguments = (world, device, dict(sizes), folder)
            torch.multiprocessing.spawn(process, arguments, nprocs=world)
            rows += json.loads(Path(folder, "rows.json").read_text())
    return rows


def measure() -> dict[str, Any]:
    """Everything that the results file holds."""
    gpus = torch.cuda.device_count()
    if gpus < max(WORLDS):
        raise SystemExit(f"bench/scaling.py: expected {max(WORLDS)} GPUs, found {gpus}")
    os.environ.setdefault("OMP_NUM_THREADS", "4")
    return {**origin(), "sizes": SIZES, "rows": rows_of(WORLDS, "cuda", SIZES)}


def table(found: Mapping[str, Any]) -> str:
    """Tokens a second of every layout, and how they grow with the number of GPUs."""
    sizes = found["sizes"]
    lines = [
        f"{measured_on(found)}.",
        f"{sizes['layers']} blocks of width {sizes['width']}, {sizes['batch']} × {sizes['length']}"
        " tokens a GPU; forward, backward and AdamW.",
        "",
        "| dtype | GPUs | layout | torch, tokens/s | smem, tokens/s | smem over torch"
        " | smem over one GPU |",
        "| --- | --: | --- | --: | --: | --: | --: |",
    ]
    for dtype in DTYPES:
        rows = [row for row in found["rows"] if row["dtype"] == dtype]
        one = next(row for row in rows if row["gpus"] == 1)["tokens_per_second"]["smem"]
        for row in rows:
            speed = row["tokens_per_second"]
            lines.append(
                f"| {dtype} | {row['gpus']} | {row['layout']} | {speed['torch']:,.0f}"
                f" | {speed['smem']:,.0f} | {speed['smem'] / speed['torch']:.2f}"
                f" | {speed['smem'] / one:.2f} |"
            )
    return "\n".join(lines)


def document(text: str, found: Mapping[str, Any]) -> str:
    """docs/integration.md's ``text`` with the table of ``found``."""
    return between(text, "scaling", table(found))


if __name__ == "__main__":
    sys.exit(command(__doc__, document=DOCUMENT, results=RESULTS, measure=measure, shown=document))
