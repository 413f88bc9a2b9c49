"""Train a small GPT on the documentation strings of Python's standard library, byte by byte.

    python examples/train_gpt.py                                        # one process
    torchrun --nproc-per-node=2 examples/train_gpt.py                   # the same losses by two
    torchrun --nproc-per-node=2 examples/train_gpt.py --device cuda     # on two GPUs

In a checkout that is not installed, with PYTHONPATH=. before it.

The model is made of torch's own modules; ``smem.convert`` gives its Linear layers this package's
kernels. The batch is split over the processes, and DistributedDataParallel averages the gradients.
"""

import argparse
import importlib
import inspect
import os
import time
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

import torch_smem_gemm as smem

MODULES = """
    argparse ast asyncio base64 bisect calendar cmath collections configparser contextlib copy
    csv dataclasses datetime decimal difflib email.message enum fractions functools glob gzip
    hashlib heapq html http.client http.cookies importlib inspect io ipaddress itertools json
    locale logging math mimetypes multiprocessing numbers operator os pathlib pickle pprint
    queue random re sched secrets select shelve shlex shutil signal smtplib socket socketserver
    sqlite3 ssl statistics string struct subprocess tarfile tempfile textwrap threading time
    timeit tokenize traceback types unicodedata unittest urllib.parse urllib.request uuid
    warnings weakref xml.etree.ElementTree zipfile zlib
"""


def docstrings() -> str:
    """The documentation strings of ``MODULES`` and of what they define, each once."""
    found: dict[str, None] = {}

    def collect(thing: Any, module: str, depth: int = 0) -> None:
        if text := inspect.getdoc(thing):
            found.setdefault(text)
        if depth < 2 and not inspect.isroutine(thing):
            for name, inner in sorted(vars(thing).items()):
                public = inspect.isclass(inner) or (inspect.isroutine(inner) and name[0] != "_")
                if public and getattr(inner, "__module__", module) == module:
                    collect(inner, module, depth + 1)

    for name in MODULES.split():
        collect(importlib.import_module(name), name)
    return "\n\n".join(found)


class Block(nn.Module):
    """Causal attention, then an MLP, each added to what comes in."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """``x`` of batch x length x width, and so the result."""
        q, k, v = self.qkv(self.norm1(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).flatten(-2))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    """Predicts each next byte."""

    def __init__(self, context: int, width: int, heads: int, layers: int) -> None:
        super().__init__()
        self.context = context
        self.token, self.position = nn.Embedding(256, width), nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 256, bias=False)

    def forward(self, text: Tensor) -> Tensor:
        """Logits, batch x length x 256, of ``text``: bytes, batch x length."""
        x = self.token(text) + self.position.weight[: text.shape[1]]
        return self.head(self.norm(self.blocks(x)))

    @torch.no_grad()
    def write(self, text: str, count: int) -> str:
        """Go on with ``text`` for ``count`` bytes."""
        device = self.head.weight.device
        written = torch.tensor([list(text.encode())], device=device)
        for _ in range(count):
            logits = self(written[:, -self.context :])[0, -1]
            written = torch.cat([written, torch.softmax(logits, -1).multinomial(1)[None]], 1)
        return bytes(written[0].tolist()).decode(errors="replace")


def batches(text: Tensor, size: int, context: int, rank: int, world: int) -> Iterator[Tensor]:
    """This process's rows of random batches: all processes draw the same, and take their part."""
    generator = torch.Generator().manual_seed(1)
    while True:
        starts = torch.randint(len(text) - context, (size,), generator=generator)
        yield torch.stack([text[i : i + context + 1] for i in starts.tolist()[rank::world]])


def train(options: argparse.Namespace, rank: int, world: int) -> None:
    """Train, print the mean loss over all processes now and then, and let the model write."""
    device = torch.device(options.device)
    if device.type == "cuda":
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
        torch.cuda.set_device(device)
    text = torch.tensor(list(docstrings().encode()))
    torch.manual_seed(0)
    model = GPT(options.context, options.width, options.width // 32, options.layers).to(device)
    converted = smem.convert(model)
    trained = DistributedDataParallel(model) if world > 1 else model
    optimizer = torch.optim.AdamW(trained.parameters(), lr=options.lr)
    if rank == 0:
        size = sum(p.numel() for p in model.parameters())
        print(f"{len(text):,} bytes of text, {size:,} parameters, {len(converted)} Linear layers")

    start = time.perf_counter()
    for step, batch in enumerate(batches(text, options.batch, options.context, rank, world), 1):
        batch = batch.to(device)
        logits = trained(batch[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
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
