"""The layout of pictures: strips of axes, one below the other. Needs matplotlib."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from torch_smem_gemm.bench.rows import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SUFFIXES = (".png", ".svg", ".pdf")
WIDTH = 17.0  # inches
COLUMNS = 3  # axes side by side, at most

# The palette of Okabe and Ito, which suits all colour vision. Blue is ours.
BLUE, ORANGE = "#0072B2", "#E69F00"
COLOURS = (ORANGE, "#009E73", "#CC79A7", "#56B4E9", "#D55E00")
MARKERS = "sD^vP*X"


class Cell(NamedTuple):
    """One axes of a picture."""

    height: float  # inches, with titles and labels
    draw: Callable[[Axes], None]


@dataclass(frozen=True)
class Strip:
    """Axes side by side."""

    title: str  # above them; "" is none
    cells: Sequence[Cell]
    columns: int  # as many as cells, or more: the rest stays empty

    @property
    def height(self) -> float:
        """Inches."""
        return max(cell.height for cell in self.cells) + (0.4 if self.title else 0)


def strips(title: str, groups: Iterable[Sequence[Cell]], columns: int = COLUMNS) -> list[Strip]:
    """Strips of ``columns`` cells at most; a group is broken only where it is longer than that."""
    lines: list[list[Cell]] = []
    for group in groups:
        for first in range(0, len(group), columns):
            part = group[first : first + columns]
            if lines and len(lines[-1]) + len(part) <= columns:
                lines[-1] += part
            else:
                lines.append([*part])
    # One cell is not drawn wider than half the picture, but where no strip has two.
    least = min(2, max(map(len, lines), default=0))
    return [
        Strip("" if index else title, line, max(least, len(line)))
        for index, line in enumerate(lines)
    ]


def write(path: Path, drawn: Sequence[Strip], title: str, width: float = WIDTH) -> None:
    """Draw strips of one number or more into the file ``path``, ``width`` inches wide."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    heights = [strip.height for strip in drawn]
    layout = ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.06)
    figure = Figure(figsize=(width, sum(heights) + 0.5), layout=layout)
    figure.suptitle(title)
    parts = figure.subfigures(len(drawn), squeeze=False, height_ratios=heights)[:, 0]
    for part, strip in zip(parts, drawn, strict=True):
        if strip.title:
            part.suptitle(strip.title, x=0.01, horizontalalignment="left", fontweight="bold")
        grid = part.subplots(1, strip.columns, squeeze=False)[0]
        for axes in grid[len(strip.cells) :]:
            axes.set_visible(False)
        for axes, cell in zip(grid, strip.cells, strict=False):
            cell.draw(axes)
            axes.title.set_fontsize(10)
            axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=100)


def check_suffix(path: Path) -> None:
    """Raise ValueError where no picture can be written to a file of that name."""
    if path.suffix.lower() not in SUFFIXES:
        raise ValueError(f"expected a picture's name that ends in {', '.join(SUFFIXES)}: {path}")


def group_title(row: Row) -> str:
    """Op and set; of a set that is a file, the file's name without its folders."""
    return row.op if row.set == row.op else f"{row.op} {Path(row.set).name}"
