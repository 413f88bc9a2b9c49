"""Pictures. Needs matplotlib."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from torch_smem_gemm.cli._ladder import Row
from torch_smem_gemm.cli._text import rate_text


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


def ladders(path: Path, rows: Sequence[Row], title: str) -> None:
    """Draw the rates of each problem's rows as bars into the file ``path``."""
    from matplotlib.figure import Figure

    problems: dict[str, list[Row]] = {}
    for row in rows:
        problems.setdefault(row.problem, []).append(row)
    heights = [len(ladder) + 2 for ladder in problems.values()]
    figure = Figure(figsize=(9, 0.3 * sum(heights) + 0.6), layout="constrained")
    figure.suptitle(title)
    grid = figure.subplots(len(problems), squeeze=False, height_ratios=heights)
    for axes, (problem, ladder) in zip(grid[:, 0], problems.items(), strict=True):
        names = [row.name for row in ladder]
        colours = ["tab:blue" if row.kind == "kernel" else "tab:gray" for row in ladder]
        bars = axes.barh(names, [row.rate or 0 for row in ladder], color=colours)
        axes.bar_label(bars, [_label(row) for row in ladder], padding=3)
        axes.invert_yaxis()
        axes.margins(x=0.2)
        axes.set(title=problem, xlabel=ladder[0].unit)
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)


def _label(row: Row) -> str:
    """The rate, and the largest part of a ceiling that it is."""
    if row.rate is None:
        return row.status
    name, share = max(row.shares.items(), key=lambda item: item[1])
    return f"{rate_text(row.rate)}  ({share:.1%} of {name})"
