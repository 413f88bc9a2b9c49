"""The demo's second task: a float32 GPT on documentation strings, wider on a GPU."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

import torch_smem_gemm as smem
from torch_smem_gemm.cli._side_by_side import Comparison
from torch_smem_gemm.examples.gpt import GPT, batches, docstrings, train_steps

# On an H200 the two trainings' losses of 100 steps, about 3 each, differ by 2.7e-5, because their
# sums are rounded in different orders. This is ten times that; a wrong gradient changes the losses
# by far more.
TOLERANCE = 3e-4


class Size(NamedTuple):
    """A model and its training."""

    width: int
    heads: int
    layers: int
    context: int
    batch: int
    steps: int
    rate: float


# On a GPU 2.5 TFLOP per step: torch takes 5 s for all where SGEMM reaches 50 TFLOP/s.
# On a CPU, where both run ATen's products, just enough to see that it learns.
SIZES = {
    "cuda": Size(width=2048, heads=16, layers=2, context=256, batch=16, steps=100, rate=3e-4),
    "cpu": Size(width=64, heads=2, layers=2, context=64, batch=8, steps=40, rate=1e-3),
}


class Bits(NamedTuple):
    """The comparison of sequences computed alone and in a batch."""

    sequences: int
    changed: int  # those whose logits have other bits alone than in the batch
    difference: float  # of two logits, the largest

    def __str__(self) -> str:
        if not self.changed:
            return "the same bits"
        return f"{self.changed} of {self.sequences} differ, by up to {self.difference:.1e}"


@torch.no_grad()
def alone_and_in_batch(model: nn.Module, sequences: Tensor) -> Bits:
    """Compare the logits of each of ``sequences``, batch x length, with those in the batch."""
    together = model(sequences)
    alone = torch.cat([model(sequence) for sequence in sequences.split(1)])
    changed = (alone.view(torch.int32) != together.view(torch.int32)).flatten(1).any(1)
    difference = (alone - together).abs().max().item()
    return Bits(len(sequences), int(changed.sum()), difference)


@dataclass(frozen=True)
class Result:
    """The result of :func:`compare`.

    Attributes:
        comparison: of the trainings.
        theirs: whether a sequence keeps its bits in torch's model.
        ours: the same in the converted model.
        is_on_gpu: on a CPU ATen computes the products, which promises no bits.
    """

    comparison: Comparison
    theirs: Bits
    ours: Bits
    is_on_gpu: bool

    @property
    def question(self) -> str:
        """The title for ``theirs`` and ``ours``."""
        return f"Logits of a sequence alone and in a batch of {self.ours.sequences}"

    def failures(self) -> list[str]:
        """Return the failed checks."""
        failures = self.comparison.failures()
        if self.is_on_gpu and self.ours.changed:
            failures.append(f"GPT: logits alone and in a batch: {self.ours}")
        return failures


def compare(device: torch.device, size: Size, seed: int) -> Result:
    """Train torch's model and the converted one from the same start on the same rows."""
    text = docstrings()
    torch.manual_seed(seed)
    theirs = GPT(size.context, size.width, size.heads, size.layers).to(device)
    ours = copy.deepcopy(theirs)
    comparison = Comparison(
        name="GPT",
        model=f"{size.layers} layers, width {size.width}",
        converted=len(smem.convert(ours)),
        turn="step",
        item="tokens",
        items=size.batch * size.context,
        tolerance=TOLERANCE,
    )

    def training(model: GPT) -> Iterator[float]:
        return train_steps(model, text, batch=size.batch, rate=size.rate, seed=seed)

    comparison.train(training(theirs), training(ours), size.steps)
    rows = next(batches(text, size.batch, size.context, seed=seed + 1)).to(device)
    sequences = rows[:, :-1]
    return Result(
        comparison,
        theirs=alone_and_in_batch(theirs, sequences),
        ours=alone_and_in_batch(ours, sequences),
        is_on_gpu=device.type == "cuda",
    )
