"""Plots of rates over intensity and over size, with the ceilings. Needs matplotlib."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from torch_smem_gemm.bench.measure import Ceilings
from torch_smem_gemm.bench.results import grouped
from torch_smem_gemm.bench.rows import OURS, Row
from torch_smem_gemm.cli._strips import (
    BLUE,
    COLOURS,
    MARKERS,
    Cell,
    Strip,
    group_title,
    strips,
)
from torch_smem_gemm.cli._text import rate_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SQUARES = "squares"  # the set

Draw = Callable[[Sequence[Row], Ceilings, "Axes"], None]


def rooflines(timed: Sequence[Row], ceilings: Ceilings) -> list[Strip]:
    """Return rooflines of the products, with axes for each dtype."""
    products = [row for row in timed if row.op in ("gemm", "linear")]
    rows = [row for row in products if row.name == OURS or row.kind == "peer"]
    cells = [
        Cell(5.5, partial(_draw_roofline, part, ceilings))
        for part in grouped(rows, lambda row: row.dtype)
    ]
    return strips("Rooflines: what memory and arithmetic allow, and what was reached", [cells])


def squares(timed: Sequence[Row], ceilings: Ceilings) -> list[Strip]:
    """Return TFLOP/s over size, with axes for each op and dtype."""
    rows = [row for row in timed if row.set == SQUARES and row.operations]
    title = "Squares: rate over size, bands from p20 to p80"
    return strips(title, _cells(rows, ceilings, _draw_squares))


def bandwidths(timed: Sequence[Row], ceilings: Ceilings) -> list[Strip]:
    """Return GB/s over bytes, with axes for each op and dtype."""
    rows = [row for row in timed if row.op in ("transpose", "sum")]
    return strips("Bandwidth over size", _cells(rows, ceilings, _draw_bandwidths))


def _cells(rows: Sequence[Row], ceilings: Ceilings, draw: Draw) -> list[list[Cell]]:
    return [
        [
            Cell(4.2, partial(draw, part, ceilings))
            for part in grouped(members, lambda row: row.dtype)
        ]
        for members in grouped(rows, lambda row: row.op)
    ]


def _draw_roofline(rows: Sequence[Row], ceilings: Ceilings, axes: Axes) -> None:
    axes.set(xscale="log", yscale="log")
    peers = [row for row in rows if row.name != OURS]
    axes.plot(_intensities(peers), _tflops(peers), ".", color="0.6", markersize=4, label="peers")
    ours = grouped((row for row in rows if row.name == OURS), lambda row: (row.op, row.set))
    for index, members in enumerate(ours):
        axes.plot(
            _intensities(members),
            _tflops(members),
            linestyle="none",
            marker=("o" + MARKERS)[index % (1 + len(MARKERS))],
            color=(BLUE, *COLOURS)[index % (1 + len(COLOURS))],
            markersize=5,
            alpha=0.85,
            label=group_title(members[0]),
        )
    _draw_roof(axes, rows, ceilings)
    xlabel = "operations a byte, every number moved once"
    axes.set(title=rows[0].dtype, xlabel=xlabel, ylabel="TFLOP/s")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8, loc="best")


def _draw_roof(axes: Axes, rows: Sequence[Row], ceilings: Ceilings) -> None:
    """Draw the roofline: the slope of the bandwidth up to the arithmetic ceiling."""
    intensities = _intensities(rows)
    slope = ceilings.read_gbs / 1e3
    name, peak = _peak(rows[0].dtype, ceilings)
    right = 2 * max(intensities)
    ridge = right if peak is None else peak / slope
    left = min(*intensities, ridge) / 2
    label = f"reads, {ceilings.read_gbs:,.0f} GB/s"
    axes.plot([left, ridge], [left * slope, ridge * slope], color="black", label=label)
    if peak is not None:
        ends = [ridge, max(right, 2 * ridge)]
        label = f"{name}, {rate_text(peak)} TFLOP/s"
        axes.plot(ends, [peak, peak], color="black", linestyle="--", label=label)


def _draw_squares(rows: Sequence[Row], ceilings: Ceilings, axes: Axes) -> None:
    from matplotlib.ticker import LogLocator, NullLocator

    axes.set_xscale("log")
    for contender, style in _contenders(rows):
        members = sorted(contender, key=lambda row: row.operations)
        sizes = [(row.operations / 2) ** (1 / 3) for row in members]
        low = [row.operations / row.ms_p80 / 1e9 for row in members if row.ms_p80]
        high = [row.operations / row.ms_p20 / 1e9 for row in members if row.ms_p20]
        axes.fill_between(sizes, low, high, color=style["color"], alpha=0.25, linewidth=0)
        axes.plot(
            sizes, _tflops(members), linestyle="-" if style["label"] == OURS else "--", **style
        )
    name, peak = _peak(rows[0].dtype, ceilings)
    if peak is not None:
        _draw_ceiling(axes, peak, f"{name}, {rate_text(peak)} TFLOP/s")
    axes.xaxis.set_major_locator(LogLocator(2))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter("{x:.0f}")
    _finish(axes, rows[0], "M = N = K", "TFLOP/s")


def _draw_bandwidths(rows: Sequence[Row], ceilings: Ceilings, axes: Axes) -> None:
    from matplotlib.ticker import EngFormatter

    axes.set_xscale("log")
    for members, style in _contenders(rows):
        rates = [row.rate or 0 for row in members]
        # No lines: several problems of different shapes have the same number of bytes.
        axes.plot([row.bytes for row in members], rates, linestyle="none", **style)
    name = "copy" if rows[0].op == "transpose" else "read"
    rate = ceilings.copy_gbs if name == "copy" else ceilings.read_gbs
    _draw_ceiling(axes, rate, f"{name} ceiling, {rate_text(rate)} GB/s")
    axes.xaxis.set_major_formatter(EngFormatter("B"))
    _finish(axes, rows[0], "bytes moved, every number once", "GB/s")


def _contenders(rows: Sequence[Row]) -> list[tuple[list[Row], dict[str, Any]]]:
    """The rows of each contender and how to draw them: ours last, above the others.

    Torch has the same colour everywhere.
    """
    found: list[tuple[list[Row], dict[str, Any]]] = []
    order = sorted(grouped(rows, lambda row: row.name), key=lambda part: _rank(part[0].name))
    for index, members in enumerate(order):
        name = members[0].name
        style: dict[str, Any] = {"label": name, "markersize": 4.5}
        if name == OURS:
            style |= {"color": BLUE, "marker": "o"}
        else:
            style |= {
                "color": COLOURS[index % len(COLOURS)],
                "marker": MARKERS[index % len(MARKERS)],
                "fillstyle": "none",
            }
        if members[0].kind == "bound":
            style["label"] = f"{name} (bound)"
        found.append((members, style))
    return found


def _rank(name: str) -> tuple[bool, bool, str]:
    return name == OURS, name != "torch", name


def _draw_ceiling(axes: Axes, height: float, label: str) -> None:
    axes.axhline(height, color="black", linestyle=":", linewidth=1.2, label=label)


def _finish(axes: Axes, first: Row, xlabel: str, ylabel: str) -> None:
    axes.set(title=f"{first.op} {first.dtype}", xlabel=xlabel, ylabel=ylabel)
    # The legend is above the ceiling, where there are no points.
    _, top = axes.get_ylim()
    axes.set_ylim(0, 1.25 * top)
    axes.yaxis.set_major_formatter("{x:,g}")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8, loc="upper left", ncols=3)


def _peak(dtype: str, ceilings: Ceilings) -> tuple[str, float | None]:
    """Return the arithmetic ceiling of a dtype, and its TFLOP/s if known."""
    name, rate = ceilings.of_products(dtype)
    if name == "tensor cores":
        name += " (cuBLAS)"
    return name, None if rate is None else rate / 1e3


def _intensities(rows: Sequence[Row]) -> list[float]:
    return [row.operations / row.bytes for row in rows]


def _tflops(rows: Sequence[Row]) -> list[float]:
    return [(row.rate or 0) / 1e3 for row in rows]
