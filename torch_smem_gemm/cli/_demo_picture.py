"""The demo's picture: loss curves, rates and results. Needs matplotlib."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from torch_smem_gemm.cli import _digits, _gpt
from torch_smem_gemm.cli._side_by_side import Comparison
from torch_smem_gemm.cli._strips import BLUE, ORANGE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

THEIRS, OURS = "torch", "torch_smem_gemm"


def draw(path: Path, digits: _digits.Result, gpt: _gpt.Result, machine: str) -> None:
    """Draw both comparisons into the file ``path``, a PNG, under the name of the ``machine``."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 7), layout="constrained")
    title = "Training by torch.nn.Linear and by torch_smem_gemm.Linear, float32"
    figure.suptitle(f"{title}\n{machine}")
    grid = figure.subplots(2, 2)
    _draw_losses(digits.comparison, grid[0, 0])
    grid[0, 0].set_yscale("log")
    _draw_losses(gpt.comparison, grid[0, 1])
    _draw_rates(gpt.comparison if gpt.is_on_gpu else digits.comparison, grid[1, 0])
    _write_results(digits, gpt, grid[1, 1])
    figure.savefig(path, dpi=150)


def _draw_losses(comparison: Comparison, axes: Axes) -> None:
    """Draw our loss curve as a thin line on the wide line of theirs, because they coincide."""
    for name, curve, colour, width in (
        (THEIRS, comparison.theirs, ORANGE, 6.0),
        (OURS, comparison.ours, BLUE, 1.5),
    ):
        turns = range(1, len(curve.losses) + 1)
        axes.plot(turns, curve.losses, label=name, color=colour, linewidth=width)
    title = f"{comparison.name}: losses apart by at most {max(comparison.differences):.1e}"
    axes.set(title=title, xlabel=comparison.turn, ylabel="training loss")
    axes.grid(alpha=0.3)
    axes.legend()


def _draw_rates(comparison: Comparison, axes: Axes) -> None:
    rates = [comparison.rate(comparison.theirs), comparison.rate(comparison.ours)]
    bars = axes.bar([THEIRS, OURS], rates, color=[ORANGE, BLUE], width=0.6)
    axes.bar_label(bars, [f"{rates[0]:,.0f}", f"{rates[1]:,.0f}\n{comparison.speed_up:.2f} ×"])
    axes.margins(y=0.25)
    axes.yaxis.set_major_formatter("{x:,g}")
    title = f"{comparison.name}, {comparison.model}: training"
    axes.set(title=title, ylabel=f"{comparison.item} per second")


def _write_results(digits: _digits.Result, gpt: _gpt.Result, axes: Axes) -> None:
    both = (digits.comparison, gpt.comparison)
    lines = [
        f"{gpt.question}:",
        f"    {THEIRS}: {gpt.theirs}",
        f"    {OURS}: {gpt.ours}",
        "" if gpt.is_on_gpu else "    (a CPU runs ATen's products in both, which promise no bits)",
        "Times as fast as torch:",
        *(f"    {one.name}, {one.model}: {one.speed_up:.2f}" for one in both),
        "",
        "Test accuracy, digits:",
        f"    {THEIRS} {digits.theirs:.1%}, {OURS} {digits.ours:.1%}",
    ]
    axes.text(0.02, 0.95, "\n".join(lines), verticalalignment="top", linespacing=1.5)
    axes.axis("off")
