"""Train a small GPT on the documentation strings of Python's standard library, byte by byte.

    python examples/train_gpt.py                                        # one process
    torchrun --nproc-per-node=2 examples/train_gpt.py                   # the same losses by two
    torchrun --nproc-per-node=2 examples/train_gpt.py --device cuda     # on two GPUs

In a checkout that is not installed, with PYTHONPATH=. before it.

The model (torch_smem_gemm/examples/gpt.py) is made of torch's own modules; ``smem.convert`` gives
its Linear layers this package's kernels. The batch is split over the processes, and
DistributedDataParallel averages the gradients.
"""

import argparse
import os
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import torch_smem_gemm as smem
from torch_smem_gemm.examples.gpt import GPT, batches, docstrings, next_byte_loss


def train(options: argparse.Namespace, rank: int, world: int) -> None:
    """Train, print the mean loss over all processes now and then, and let the model write."""
    device = torch.device(options.device)
    if device.type == "cuda":
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
        torch.cuda.set_device(device)
    text = docstrings()
    torch.manual_seed(0)
    model = GPT(options.context, options.width, options.width // 32, options.layers).to(device)
    converted = smem.convert(model)
    trained = DistributedDataParallel(model) if world > 1 else model
    optimizer = torch.optim.AdamW(trained.parameters(), lr=options.lr)
    if rank == 0:
        size = sum(p.numel() for p in model.parameters())
        print(f"{len(text):,} bytes of text, {size:,} parameters, {len(converted)} Linear layers")

    start = time.perf_counter()
    parts = batches(text, options.batch, options.context, rank=rank, world=world)
    for step, rows in enumerate(parts, 1):
        loss = next_byte_loss(trained, rows.to(device))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % options.every == 0 or step in (1, options.steps):
            mean = loss.detach()
            if world > 1:
                dist.all_reduce(mean)
                mean /= world
            if rank == 0:
                print(
                    f"step {step:5}  loss {mean.item():.4f}  {time.perf_counter() - start:6.1f} s"
                )
        if step == options.steps:
            break
    if rank == 0 and options.write:
        print(model.write("Return the ", options.write))


def main() -> None:
    """Read the options and train, as one of torchrun's processes if it started this one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--every", type=int, default=20, help="steps between two lines")
    parser.add_argument("--batch", type=int, default=16, help="rows a step, over all processes")
    parser.add_argument("--context", type=int, default=64, help="bytes a row")
    parser.add_argument("--width", type=int, default=128, help="a multiple of 32")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--write", type=int, default=200, help="bytes to write at the end")
    options = parser.parse_args()
    rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    if options.batch % world:
        parser.error(f"--batch {options.batch} cannot be split over {world} processes")
    if world > 1:
        dist.init_process_group("nccl" if options.device == "cuda" else "gloo")
    try:
        train(options, rank, world)
    finally:
        if world > 1:
            dist.destroy_process_group()


if __name__ == "__main__":
    main()
