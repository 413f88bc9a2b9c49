"""The demo's task: real handwritten digits, read row by row by a small transformer."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import torch_smem_gemm as smem
from torch_smem_gemm.cli._side_by_side import Comparison
from torch_smem_gemm.examples.gpt import Block

SIDE = 8  # of an image, in pixels
WHITE_TO_BLACK = 16  # the largest value of a pixel
CLASSES = 10
TEST_IMAGES = 360
BATCH = 64
LEARNING_RATE = 3e-3  # the highest
LEAST_ACCURACY = 0.95
EPOCHS = 15  # with fewer epochs the training does not reach that accuracy
# Both trainings compute the same sums, rounded in different orders. Perturbing all Linear outputs
# and gradients by a relative 5e-7, a few units in the last place of a float32, changed the losses
# by at most 5e-5 (9 seeds). The limit is twenty times that; a wrong gradient changes them by far
# more.
TOLERANCE = 1e-3


@dataclass(frozen=True)
class Digits:
    """Images ``(count, 8, 8)``, float32 in [0, 1], and their labels, int64."""

    train_images: Tensor
    train_labels: Tensor
    test_images: Tensor
    test_labels: Tensor


def load_digits(device: torch.device, seed: int) -> Digits:
    """The digits of ``digits.txt``, split at random into training and test images."""
    lines = (resources.files("torch_smem_gemm.cli") / "digits.txt").read_text().splitlines()
    digits = [line.split() for line in lines if not line.startswith("#")]
    pixels = [[int(pixel, 1 + WHITE_TO_BLACK) for pixel in pixels] for _, pixels in digits]
    images = torch.tensor(pixels).view(-1, SIDE, SIDE) / WHITE_TO_BLACK
    labels = torch.tensor([int(label) for label, _ in digits])
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(seed))
    test, train = order[:TEST_IMAGES], order[TEST_IMAGES:]
    parts = (images[train], labels[train], images[test], labels[test])
    return Digits(*(part.to(device) for part in parts))


class RowTransformer(nn.Module):
    """Classifies an image whose rows are the tokens."""

    def __init__(self, width: int = 64, heads: int = 4, depth: int = 2) -> None:
        super().__init__()
        self.embed = nn.Linear(SIDE, width)
        self.position = nn.Parameter(0.02 * torch.randn(SIDE, width))
        self.blocks = nn.Sequential(*(Block(width, heads, causal=False) for _ in range(depth)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, CLASSES)

    def forward(self, images: Tensor) -> Tensor:
        """Map ``(batch, 8, 8)`` to logits ``(batch, 10)``."""
        return self.head(self.features(images))

    def features(self, images: Tensor) -> Tensor:
        """Return the input of the last layer: ``(batch, width)``."""
        return self.norm(self.blocks(self.embed(images) + self.position).mean(dim=1))


def train_epochs(model: nn.Module, digits: Digits, epochs: int, seed: int) -> Iterator[float]:
    """Train ``model``; each mean loss that is consumed is one epoch.

    Args:
        model: maps images ``(batch, 8, 8)`` to logits ``(batch, 10)``, on the device of ``digits``;
            trained in place.
        digits: the data.
        epochs: how many there are; the learning rate follows from it.
        seed: of the order of the images; equal seeds give equal batches in equal order.
    """
    images, labels = digits.train_images, digits.train_labels
    count = len(images)
    shuffled = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, fused=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, LEARNING_RATE, epochs=epochs, steps_per_epoch=math.ceil(count / BATCH)
    )
    for _ in range(epochs):
        total = torch.zeros((), device=images.device)
        for batch in torch.randperm(count, generator=shuffled).split(BATCH):
            index = batch.to(images.device)
            loss = F.cross_entropy(model(images[index]), labels[index])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.detach() * len(batch)
        yield total.item() / count  # waits for the device


@torch.no_grad()
def accuracy(model: nn.Module, digits: Digits) -> float:
    """Return the fraction of test images that ``model`` classifies correctly."""
    right = model(digits.test_images).argmax(dim=1) == digits.test_labels
    return right.float().mean().item()


@dataclass(frozen=True)
class Result:
    """The result of :func:`compare`.

    Attributes:
        comparison: of the trainings.
        data: what the models were trained on.
        model: the converted one, trained.
        theirs: the accuracy of torch's model on the test images.
        ours: the converted model's.
    """

    comparison: Comparison
    data: Digits
    model: RowTransformer
    theirs: float
    ours: float

    @property
    def is_judged(self) -> bool:
        """Whether the models were trained long enough to check the accuracy."""
        return len(self.comparison.ours.losses) >= EPOCHS

    def failures(self) -> list[str]:
        """Return the failed checks."""
        accuracies = {"torch": self.theirs, "torch_smem_gemm": self.ours}
        return self.comparison.failures() + [
            f"digits, {name}: test accuracy {found:.1%}, expected {LEAST_ACCURACY:.0%} or more"
            for name, found in accuracies.items()
            if self.is_judged and found < LEAST_ACCURACY
        ]


def compare(device: torch.device, epochs: int, seed: int) -> Result:
    """Train torch's model and the converted one from the same start on the same batches."""
    data = load_digits(device, seed)
    torch.manual_seed(seed)
    theirs = RowTransformer().to(device)
    ours = copy.deepcopy(theirs)
    comparison = Comparison(
        name="digits",
        model=f"transformer, width {ours.head.in_features}",
        converted=len(smem.convert(ours)),
        turn="epoch",
        item="images",
        items=len(data.train_images),
        tolerance=TOLERANCE,
    )

    def training(model: RowTransformer) -> Iterator[float]:
        return train_epochs(model, data, epochs, seed)

    comparison.train(training(theirs), training(ours), epochs)
    return Result(comparison, data, ours, accuracy(theirs, data), accuracy(ours, data))
