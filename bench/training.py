"""Time a GPT block's step in float32, compare loss curves, and write docs/accuracy.md's tables.

python bench/training.py --out bench/results/training-h200.json    # on a GPU
PYTHONPATH=. python bench/training.py                              # rewrite the tables
PYTHONPATH=. python bench/training.py --check                      # exit with 1 if they are stale
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import torch
from measured_document import command
from origin import measured_on, origin
from torch import Tensor, nn

import torch_smem_gemm as smem
from torch_smem_gemm.bench.measure import float32_products, interleaved
from torch_smem_gemm.bench.report import between
from torch_smem_gemm.examples.gpt import GPT, Block, docstrings, train_steps

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs" / "accuracy.md"
RESULTS = ROOT / "bench" / "results" / "training-h200.json"

Precision = Literal["ieee", "tf32"]
HEAD = 128  # width of an attention head
BLOCKS = [(4096, 1, 2048), (4096, 4, 2048), (4096, 1, 512), (2048, 4, 2048), (1024, 4, 2048)]
CURVE = {"context": 128, "width": 512, "heads": 8, "layers": 4}
STEPS, EVERY, BATCH, RATE = 300, 50, 32, 5e-4


def step_of(block: nn.Module, x: Tensor, precision: Precision = "ieee") -> Callable[[], None]:
    """Forward and backward of a block: gradients of all its parameters and of ``x``."""
    leaves = [x, *block.parameters()]

    def step() -> None:
        with float32_products(precision):
            torch.autograd.grad(block(x).square().sum(), leaves)

    return step


def time_block(width: int, batch: int, length: int) -> dict[str, Any]:
    """Milliseconds of a training step by torch, by torch with TF32, and converted."""
    torch.manual_seed(0)
    torchs = Block(width, width // HEAD).cuda()
    ours = copy.deepcopy(torchs)
    smem.convert(ours)
    x = torch.randn(batch, length, width, device="cuda", requires_grad=True)
    calls = {
        "torch": step_of(torchs, x),
        "smem": step_of(ours, x),
        "torch, TF32": step_of(torchs, x, "tf32"),
    }
    timed = interleaved(calls, x.device)
    ratio = timed["smem"].ratio(timed["torch"])
    return {
        "width": width,
        "batch": batch,
        "length": length,
        "ms": {name: samples.median * 1e3 for name, samples in timed.items()},
        "ratio": ratio.median if ratio else None,
    }


def losses_of(convert: bool, precision: Precision = "ieee") -> list[float]:
    """The losses of a small GPT's training steps, all from the same start on the same batches."""
    torch.manual_seed(0)
    model = GPT(**CURVE).cuda()
    if convert:
        smem.convert(model)
    with float32_products(precision):
        return list(islice(train_steps(model, docstrings(), batch=BATCH, rate=RATE), STEPS))


def measure() -> dict[str, Any]:
    """Everything that the results file holds."""
    return {
        **origin(),
        "blocks": [time_block(*sizes) for sizes in BLOCKS],
        "losses": {
            "torch": losses_of(convert=False),
            "smem": losses_of(convert=True),
            "torch, TF32": losses_of(convert=False, precision="tf32"),
        },
    }


def tables(found: Mapping[str, Any]) -> str:
    """Times of the blocks, then losses every ``EVERY`` steps and how far they are from torch's."""
    names = list(found["losses"])
    lines = [
        f"{measured_on(found)}.",
        "",
        f"| width | rows | {', ms | '.join(names)}, ms | torch's time over smem's |",
        "| --: | --: |" + " --: |" * (len(names) + 1),
    ]
    for row in found["blocks"]:
        times = " | ".join(f"{row['ms'][name]:.2f}" for name in names)
        rows = f"{row['batch']} × {row['length']}"
        lines.append(f"| {row['width']} | {rows} | {times} | {row['ratio']:.2f} |")
    lines += [
        "",
        f"| step | {' | '.join(names)} |",
        "| --: |" + " --: |" * len(names),
    ]
    losses = found["losses"]
    for step in [1, *range(EVERY, STEPS + 1, EVERY)]:
        lines.append(f"| {step} | {' | '.join(f'{losses[n][step - 1]:.4f}' for n in names)} |")
    away = [
        max(abs(one - other) for one, other in zip(losses[name], losses["torch"], strict=True))
        for name in names
    ]
    lines.append(f"| furthest from torch | {' | '.join(f'{far:.4f}' for far in away)} |")
    return "\n".join(lines)


def document(text: str, found: Mapping[str, Any]) -> str:
    """docs/accuracy.md's ``text`` with the tables of ``found``."""
    return between(text, "training", tables(found))


if __name__ == "__main__":
    sys.exit(command(__doc__, document=DOCUMENT, results=RESULTS, measure=measure, shown=document))
