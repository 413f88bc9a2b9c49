"""``draw``: the picture of a results file, and its ladders and speed-ups. Needs matplotlib."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch_smem_gemm.bench.measure import Ceilings, Spread
from torch_smem_gemm.bench.results import best_ratio, geometric_mean, grouped, problems
from torch_smem_gemm.bench.rows import OURS, Row
from torch_smem_gemm.bench.suite import LADDER
from torch_smem_gemm.cli._bench_curves import bandwidths, rooflines, squares
from torch_smem_gemm.cli._strips import (
    BLUE,
    ORANGE,
    WIDTH,
    Cell,
    Strip,
    check_suffix,
    group_title,
    strips,
    write,
)
from torch_smem_gemm.cli._text import rate_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LABELLED = 20  # problems, at most, whose sizes are written under their bars
BARS = {"kernel": BLUE, "peer": "0.55", "bound": "0.8"}
RED = "#C00000"  # for crosses only, which their shape distinguishes


def draw(path: Path, found: Mapping[str, Any]) -> None:
    """Draw everything in a results file.

    Args:
        path: the file to write, a PNG, SVG or PDF by its suffix.
        found: what ``bench.results.load`` returns.

    Raises:
        ValueError: the file's suffix is another, there are no rows, or the results say nothing of
            the machine.
    """
    check_suffix(path)
    rows: Sequence[Row] = found["rows"]
    if not rows:
        raise ValueError("the results have no rows: there is nothing to draw")
    try:
        ceilings = Ceilings(**found["ceilings"])
        title = f"{found['device']}, torch {found['versions']['torch']}, {found['date'][:10]}"
    except (KeyError, TypeError) as error:
        raise ValueError(f"the results do not say what they were measured on: {error}") from None
    sets = [row for row in rows if row.set != LADDER]
    timed = [row for row in sets if row.status == "ok"]
    ladder = problems([row for row in rows if row.set == LADDER])
    drawn = [
        *strips("Ladders", [[_ladder_cell(one)] for one in ladder], columns=2),
        *_speed_ups(sets),
        *rooflines(timed, ceilings),
        *squares(timed, ceilings),
        *bandwidths(timed, ceilings),
    ]
    write(path, drawn, title)


def ladders(path: Path, rows: Sequence[Row], title: str) -> None:
    """Draw the rates of each problem's rows as bars into the file ``path``."""
    check_suffix(path)
    cells = [[_ladder_cell(ladder)] for ladder in problems(rows)]
    write(path, strips("", cells, columns=1), title, WIDTH / 2)


# --------------------------------------------------------------------------------------- ladders


def _ladder_cell(ladder: Sequence[Row]) -> Cell:
    return Cell(0.3 * (len(ladder) + 2), partial(_draw_ladder, ladder))


def _draw_ladder(ladder: Sequence[Row], axes: Axes) -> None:
    names = [row.name for row in ladder]
    colours = [BARS[row.kind] for row in ladder]
    bars = axes.barh(names, [row.rate or 0 for row in ladder], color=colours)
    axes.bar_label(bars, [_rate_and_share(row) for row in ladder], padding=3)
    axes.invert_yaxis()
    axes.margins(x=0.3)
    axes.set_xlim(left=0)
    axes.xaxis.set_major_formatter("{x:,g}")
    axes.set(title=ladder[0].problem, xlabel=ladder[0].unit)


def _rate_and_share(row: Row) -> str:
    """The rate, and the largest part of a ceiling that it is."""
    if row.rate is None:
        return row.status
    if not row.shares:
        return rate_text(row.rate)
    name, share = max(row.shares.items(), key=lambda item: item[1])
    return f"{rate_text(row.rate)}  ({share:.1%} of {name})"


# ------------------------------------------------------------------------------------- speed-ups


def _speed_ups(rows: Sequence[Row]) -> list[Strip]:
    """Return axes for each op, set and dtype; the dtypes of a set are side by side."""
    groups = [
        [_speed_up_cell(problems(part)) for part in grouped(members, lambda row: row.dtype)]
        for members in grouped(rows, lambda row: (row.op, row.set))
    ]
    title = (
        "Times as fast as the best peer: bars are medians, whiskers p20 to p80; "
        "a red cross is a wrong result, a gap no comparison"
    )
    return strips(title, groups)


def _speed_up_cell(found: Sequence[Sequence[Row]]) -> Cell:
    return Cell(2.4 if len(found) > LABELLED else 3.2, partial(_draw_speed_ups, found))


def _draw_speed_ups(found: Sequence[Sequence[Row]], axes: Axes) -> None:
    ratios: dict[int, Spread] = {}
    wrong: list[int] = []
    for place, rows in enumerate(found):
        for row in rows:
            if row.name != OURS:
                continue
            if row.status == "wrong":
                wrong.append(place)
            elif ratio := best_ratio(row, rows):
                ratios[place] = ratio
    medians = [ratio.median for ratio in ratios.values()]
    lows = [ratio.p20 for ratio in ratios.values()]
    highs = [ratio.p80 for ratio in ratios.values()]
    places = list(ratios)
    axes.set_yscale("log")
    colours = [BLUE if median >= 1 else ORANGE for median in medians]
    axes.bar(places, [median - 1 for median in medians], bottom=1, color=colours)
    axes.vlines(places, lows, highs, color="0.2", linewidth=1)
    axes.axhline(1, color="black", linewidth=0.8)
    axes.plot(wrong, [1] * len(wrong), "x", color=RED, markersize=7, markeredgewidth=2)
    _scale_ratios(axes, min([0.9, *lows]), max([1.1, *highs]))
    _label_problems(axes, found)
    first = found[0][0]
    count = f"{len(ratios)} of {len(found)}" if len(ratios) < len(found) else f"all {len(found)}"
    mean = f"geometric mean {geometric_mean(medians):.2f} ({count})" if medians else "no comparison"
    axes.set(title=f"{group_title(first)} {first.dtype}: {mean}", ylabel="times as fast")
    axes.grid(axis="y", alpha=0.3)
    axes.set_axisbelow(True)


def _scale_ratios(axes: Axes, low: float, high: float) -> None:
    """Limits around ``low`` and ``high``, and ticks that suit them, 1 among them."""
    from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

    axes.set_ylim(low / 1.05, high * 1.05)
    # Round numbers where all are close to 1, else powers.
    if high / low < 6:
        axes.yaxis.set_major_locator(MaxNLocator(8, steps=[1, 2, 5, 10]))
    else:
        axes.yaxis.set_major_locator(LogLocator(2 if high / low < 100 else 10))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter("{x:.3g}")


def _label_problems(axes: Axes, found: Sequence[Sequence[Row]]) -> None:
    axes.set_xlim(-0.7, len(found) - 0.3)
    if len(found) > LABELLED:
        axes.set_xticks([])
        axes.set_xlabel(f"{len(found)} problems, in the order of the results")
        return
    shapes = [rows[0].shape.replace("layout=", "").replace("activation=", "") for rows in found]
    axes.set_xticks(range(len(found)), shapes, fontsize=7)
    axes.tick_params(axis="x", length=2, pad=1)
    for label in axes.get_xticklabels():
        label.set(rotation=40, horizontalalignment="right", rotation_mode="anchor")
