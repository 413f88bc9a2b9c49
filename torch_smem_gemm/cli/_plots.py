"""Pictures. Needs matplotlib."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path


def loss_curves(path: Path, curves: Mapping[str, Sequence[float]], title: str) -> None:
    """Draw one loss curve a model, a value an epoch, into the file ``path``."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.add_subplot()
    # The curves lie on one another: the first is wide and pale, so that the others show on it.
    for index, (name, losses) in enumerate(curves.items()):
        width, alpha = (1.5, 1.0) if index else (6.0, 0.35)
        epochs = range(1, len(losses) + 1)
        axes.plot(epochs, losses, label=name, linewidth=width, alpha=alpha)
    axes.set(title=title, xlabel="epoch", ylabel="mean training loss", yscale="log")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=150)
