"""A small GPT of torch's own modules, and its training text: documentation strings as bytes."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

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


def docstrings() -> Tensor:
    """Return the docstrings of ``MODULES`` and their members, each once: bytes as int64."""
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
    return torch.tensor(list("\n\n".join(found).encode()))


class Block(nn.Module):
    """Attention, then an MLP, each with a residual connection.

    Args:
        width: the width of the input, a multiple of ``heads``.
        heads: the number of attention heads.
        causal: whether a position sees only itself and those before it.
    """

    def __init__(self, width: int, heads: int, causal: bool = True) -> None:
        super().__init__()
        self.heads = heads
        self.causal = causal
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def split_heads(self, qkv: Tensor) -> Tensor:
        """Return 3 x batch x heads x length x head from batch x length x (3 * width)."""
        return qkv.unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)

    def forward(self, x: Tensor) -> Tensor:
        """Apply the block to ``x``; input and result are batch x length x width."""
        q, k, v = self.split_heads(self.qkv(self.norm1(x)))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        x = x + self.out(mixed.transpose(1, 2).flatten(-2))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    """Predicts the next byte."""

    def __init__(self, context: int, width: int, heads: int, layers: int) -> None:
        super().__init__()
        self.context = context
        self.token, self.position = nn.Embedding(256, width), nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 256, bias=False)

    def forward(self, text: Tensor) -> Tensor:
        """Return the logits, batch x length x 256, of the bytes ``text``, batch x length."""
        x = self.token(text) + self.position.weight[: text.shape[1]]
        return self.head(self.norm(self.blocks(x)))

    @torch.no_grad()
    def write(self, text: str, count: int) -> str:
        """Extend ``text`` by ``count`` bytes."""
        device = self.head.weight.device
        written = torch.tensor([list(text.encode())], device=device)
        for _ in range(count):
            logits = self(written[:, -self.context :])[0, -1]
            written = torch.cat([written, torch.softmax(logits, -1).multinomial(1)[None]], 1)
        return bytes(written[0].tolist()).decode(errors="replace")


def next_byte_loss(model: nn.Module, rows: Tensor) -> Tensor:
    """Return the mean cross entropy of the bytes ``rows``, batch x (length + 1): a scalar."""
    logits = model(rows[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten())


def batches(
    text: Tensor, size: int, context: int, *, seed: int = 1, rank: int = 0, world: int = 1
) -> Iterator[Tensor]:
    """Yield random rows of ``text``, size x (context + 1), forever.

    All processes draw the same rows, and each uses its own share of them.
    """
    generator = torch.Generator().manual_seed(seed)
    while True:
        starts = torch.randint(len(text) - context, (size,), generator=generator)
        yield torch.stack([text[i : i + context + 1] for i in starts.tolist()[rank::world]])


def train_steps(
    model: GPT, text: Tensor, *, batch: int, rate: float, seed: int = 1
) -> Iterator[float]:
    """Train ``model`` on one process with AdamW; each loss that is consumed is one step.

    Args:
        model: trained in place, on its device.
        text: bytes, as :func:`docstrings` returns them.
        batch: rows per step.
        rate: the learning rate.
        seed: seed of the rows; equal seeds give equal rows.
    """
    device = model.head.weight.device
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, fused=True)
    for rows in batches(text, batch, model.context, seed=seed):
        loss = next_byte_loss(model, rows.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss.item()  # waits for the device
