"""Alternating training of two equal models: torch's, and its conversion."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from torch_smem_gemm.cli._text import progress


@dataclass
class Curve:
    """One model's training: the loss and the seconds of each turn."""

    losses: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Comparison:
    """Both trainings.

    Attributes:
        name: of the task.
        model: what it is, in two words or three.
        converted: how many Linear layers ``smem.convert`` replaced.
        turn: what a loss belongs to: an epoch, a step.
        item: what the rate counts: images, tokens.
        items: in a turn.
        tolerance: of the difference between the losses.
        theirs: the training of torch's model.
        ours: the training of the converted model.
    """

    name: str
    model: str
    converted: int
    turn: str
    item: str
    items: int
    tolerance: float
    theirs: Curve = field(default_factory=Curve)
    ours: Curve = field(default_factory=Curve)

    def train(self, theirs: Iterator[float], ours: Iterator[float], turns: int) -> None:
        """Take ``turns`` losses from each training, and note them and how long they took.

        They alternate, so that other load on the machine affects both equally.

        Args:
            theirs: trains torch's model by a turn for each loss, and waits for the device.
            ours: the same of the converted model.
            turns: of each.
        """
        with progress(2 * turns) as advance:
            for _ in range(turns):
                for losses, curve in ((theirs, self.theirs), (ours, self.ours)):
                    start = time.perf_counter()
                    curve.losses.append(next(losses))
                    curve.seconds.append(time.perf_counter() - start)
                    advance(1, self.name)

    @property
    def differences(self) -> list[float]:
        """How far the losses are apart, turn by turn."""
        return [abs(x - y) for x, y in zip(self.theirs.losses, self.ours.losses, strict=True)]

    def rate(self, curve: Curve) -> float:
        """Items per second of the median turn: the first ones load kernels."""
        return self.items / statistics.median(curve.seconds)

    @property
    def speed_up(self) -> float:
        """Our rate over theirs."""
        return self.rate(self.ours) / self.rate(self.theirs)

    def failures(self) -> list[str]:
        """A text if the losses differ by more than the tolerance."""
        far = [x for x in self.differences if not x <= self.tolerance]  # NaN among them
        return [f"{self.name}: the losses differ by {max(far):.1e}"] if far else []
