"""The demo's task: real handwritten digits, read row by row by a small transformer."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

SIDE = 8  # of an image, in pixels
CLASSES = 10
TEST_IMAGES = 360
BATCH = 64
LEARNING_RATE = 3e-3  # the highest


@dataclass(frozen=True)
class Digits:
    """Images ``(count, 8, 8)``, float32 in [0, 1], and their labels, int64."""

    train_images: Tensor
    train_labels: Tensor
    test_images: Tensor
    test_labels: Tensor


def load_digits(device: torch.device, seed: int) -> Digits:
    """The 1797 digits that scikit-learn ships, split at random into training and test images."""
    from sklearn import datasets

    bunch = datasets.load_digits()
    images = torch.from_numpy(bunch.images).float() / 16
    labels = torch.from_numpy(bunch.target).long()
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(seed))
    test, train = order[:TEST_IMAGES], order[TEST_IMAGES:]
    parts = (images[train], labels[train], images[test], labels[test])
    return Digits(*(part.to(device) for part in parts))


class Block(nn.Module):
    """Self-attention and a two-layer perceptron, each on a normalised residual stream."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.attention_norm = nn.LayerNorm(width)
        self.query_key_value = nn.Linear(width, 3 * width)
        self.project = nn.Linear(width, width)
        self.mlp_norm = nn.LayerNorm(width)
        self.expand = nn.Linear(width, 4 * width)
        self.contract = nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Map ``(batch, tokens, width)`` to the same shape."""
        x = x + self.project(self.attend(self.query_key_value(self.attention_norm(x))))
        return x + self.contract(F.gelu(self.expand(self.mlp_norm(x))))

    def attend(self, qkv: Tensor) -> Tensor:
        """Map ``(batch, tokens, 3 * width)`` to ``(batch, tokens, width)``."""
        batch, tokens, triple = qkv.shape
        q, k, v = qkv.view(batch, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        weights = torch.softmax(q @ k.transpose(-2, -1) / q.size(-1) ** 0.5, dim=-1)
        return (weights @ v).transpose(1, 2).reshape(batch, tokens, triple // 3)


class RowTransformer(nn.Module):
    """Classifies an image whose rows are the tokens."""

    def __init__(self, width: int = 64, heads: int = 4, depth: int = 2) -> None:
        super().__init__()
        self.embed = nn.Linear(SIDE, width)
        self.position = nn.Parameter(0.02 * torch.randn(SIDE, width))
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(depth)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, CLASSES)

    def forward(self, images: Tensor) -> Tensor:
        """Map ``(batch, 8, 8)`` to logits ``(batch, 10)``."""
        return self.head(self.features(images))

    def features(self, images: Tensor) -> Tensor:
        """What the last layer sees: ``(batch, width)``."""
        return self.norm(self.blocks(self.embed(images) + self.position).mean(dim=1))


class Training:
    """The training of one model; equal seeds give equal batches in equal order.

    Args:
        model: maps images ``(batch, 8, 8)`` to logits ``(batch, 10)``, on the device of ``digits``;
            trained in place.
        digits: the data.
        epochs: how often :meth:`epoch` will be called.
        seed: of the order of the images.
    """

    def __init__(self, model: nn.Module, digits: Digits, epochs: int, seed: int) -> None:
        self.model = model
        self.digits = digits
        self.count = len(digits.train_images)
        self.shuffled = torch.Generator().manual_seed(seed)
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE)
        self.schedule = torch.optim.lr_scheduler.OneCycleLR(
            self.optimizer,
            LEARNING_RATE,
            epochs=epochs,
            steps_per_epoch=math.ceil(self.count / BATCH),
        )
        self.losses: list[float] = []  # mean over each epoch
        self.seconds: list[float] = []  # of each epoch

    def epoch(self) -> None:
        """Go through the training images once."""
        images, labels = self.digits.train_images, self.digits.train_labels
        start = time.perf_counter()
        total = torch.zeros((), device=images.device)
        self.model.train()
        for batch in torch.randperm(self.count, generator=self.shuffled).split(BATCH):
            index = batch.to(images.device)
            loss = F.cross_entropy(self.model(images[index]), labels[index])
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.schedule.step()
            total += loss.detach() * len(batch)
        self.losses.append(total.item() / self.count)  # waits for the device
        self.seconds.append(time.perf_counter() - start)

    def images_per_second(self) -> float:
        """Of the fastest epoch."""
        return self.count / min(self.seconds)

    @torch.no_grad()
    def accuracy(self) -> float:
        """On the test images."""
        self.model.eval()
        right = self.model(self.digits.test_images).argmax(dim=1) == self.digits.test_labels
        return right.float().mean().item()
