"""Pictures of traces: the bank that each lane accesses, the pipeline, and the ceilings.

Needs matplotlib.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from torch_smem_gemm.analysis.banks import BANKS, LANES, WORD
from torch_smem_gemm.cli import _pipeline_plot
from torch_smem_gemm.cli._explain_kernel import Explained, largest_launch, passes, ways
from torch_smem_gemm.cli._strips import ORANGE
from torch_smem_gemm.cli._trace_text import expression
from torch_smem_gemm.trace_report import Line, Trace

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import SubFigure

MAP_COLUMNS = 4  # at most, side by side
INCHES = 3.1  # the side of a map


def picture(path: Path, explained: Sequence[Explained], maps_a_kernel: int, title: str) -> None:
    """Draw bank maps of the costliest shared accesses and the pipelines above the ceilings.

    Args:
        path: the file to write.
        explained: the kernels, all on the same problem.
        maps_a_kernel: how many accesses of each kernel to draw. Kernels of one source show the
            same ones.
        title: of the picture.
    """
    from matplotlib.figure import Figure

    maps = _chosen([one.trace for one in explained], maps_a_kernel)
    # Kernels side by side, or the accesses of the only one.
    users = len({kernel for kernel, _ in maps})
    columns = min(MAP_COLUMNS, users if users > 1 else len(maps))
    rows = -(-len(maps) // columns) if maps else 0
    pipelines = [
        (launch.kernel, launch.pipeline)
        for one in explained
        for launch in one.trace.launches
        if launch.pipeline
    ]
    heights = [
        *([rows * (INCHES + 0.7)] if maps else []),
        *(_pipeline_plot.inches(pipeline) for _, pipeline in pipelines),
        *([0.45 * len(explained) + 3.6] if explained[0].peak_tflops else []),
    ]
    width = max(8, columns * INCHES + 1)
    figure = Figure(figsize=(width, sum(heights)), layout="constrained")
    figure.suptitle(title)
    parts = figure.subfigures(len(heights), squeeze=False, height_ratios=heights)[:, 0]
    if maps:
        _draw_maps(parts[0], maps, rows, columns)
    for part, (kernel, pipeline) in zip(parts[bool(maps) :], pipelines, strict=False):
        _pipeline_plot.draw(part.subplots(), kernel, pipeline)
    if explained[0].peak_tflops:
        draw = _draw_roofline if explained[0].trace.op == "gemm" else _draw_least_times
        draw(parts[-1].subplots(), explained)
    figure.savefig(path, dpi=120)


# ------------------------------------------------------------------------------------- bank maps


def _chosen(traces: Sequence[Trace], count: int) -> list[tuple[str, Line]]:
    """Kernel and access for each map: the costliest of every kernel, then the next of every one.

    The cost of a line is that of the kernel in which it is worst, so that a kernel without its
    conflicts is shown at the same line.
    """

    def identity(line: Line) -> tuple:
        return line.file, line.line, line.array, line.action, line.bytes_a_lane

    shared = [(trace, _shared_lines(trace)) for trace in traces]
    cost: dict[tuple, tuple[int, int]] = {}
    for _, lines in shared:
        for line in lines:
            mine = (line.conflicts, line.wavefronts)
            cost[identity(line)] = max(mine, cost.get(identity(line), mine))
    chosen = [
        (
            trace.kernel,
            sorted(lines, key=lambda line: cost[identity(line)], reverse=True)[:count],
        )
        for trace, lines in shared
    ]
    most = max(len(lines) for _, lines in chosen)
    return [(kernel, lines[i]) for i in range(most) for kernel, lines in chosen if i < len(lines)]


def _shared_lines(trace: Trace) -> list[Line]:
    return [line for line in largest_launch(trace).lines if ways(line) is not None]


def _draw_maps(
    figure: SubFigure, maps: Sequence[tuple[str, Line]], rows: int, columns: int
) -> None:
    from matplotlib.colors import ListedColormap
    from matplotlib.ticker import MaxNLocator

    grid = figure.subplots(rows, columns, squeeze=False)
    most = max(max(filter(None, passes(line)), default=1) for _, line in maps)
    for axes in grid.flat[len(maps) :]:
        axes.set_visible(False)
    for axes, (kernel, line) in zip(grid.flat, maps, strict=False):
        image = axes.imshow(bank_map(line), vmin=1, vmax=max(most, 2), cmap="viridis")
        axes.imshow(shared_map(line), cmap=ListedColormap([ORANGE]))
        wide = f"{line.action}, {line.bytes_a_lane} B a lane"
        axes.set_title(f"{kernel}: {wide}\n{expression(line)}\n{verdict(line)}", fontsize=8)
        axes.set(xlabel="bank", ylabel="lane", xticks=range(0, 32, 8), yticks=range(0, 32, 8))
        axes.set_facecolor("0.93")
    whole = MaxNLocator(integer=True)
    figure.colorbar(image, ax=grid, label="pass in which it is served", shrink=0.8, ticks=whole)


def verdict(line: Line) -> str:
    """Return the map's title: a conflict, a broadcast, or neither."""
    if ways(line) != 1:
        return f"{ways(line)}-way conflict"
    lanes = lanes_by_word(line)
    shared = sum(len(wanting) > 1 for wanting in lanes.values())
    if not shared:
        return "no conflict"
    if len(lanes) == 1:
        return "no conflict: one word, broadcast (orange)"
    return f"no conflict: {shared} word{'s' * (shared > 1)} shared by lanes (orange)"


def shared_map(line: Line) -> list[list[float]]:
    """For each lane and bank of an access without conflicts, 1 where other lanes get the word too.

    NaN everywhere else. A column of such cells is one pass, and not as many as it has cells.
    """
    cells = [[float("nan")] * BANKS for _ in range(LANES)]
    for word, lanes in lanes_by_word(line).items() if ways(line) == 1 else ():
        for lane in lanes if len(lanes) > 1 else ():
            cells[lane][word % BANKS] = 1
    return cells


def lanes_by_word(line: Line) -> dict[int, list[int]]:
    """Return the lanes that access each word of shared memory."""
    lanes: dict[int, list[int]] = {}
    for lane, at in enumerate(line.example):
        if at is not None:
            for word in range(at // WORD, (at + line.bytes_a_lane - 1) // WORD + 1):
                lanes.setdefault(word, []).append(lane)
    return lanes


def bank_map(line: Line) -> list[list[float]]:
    """For each lane and bank, the pass in which the lane gets its word there; NaN for no word."""
    cells = [[float("nan")] * BANKS for _ in range(LANES)]
    for lane, (at, served) in enumerate(zip(line.example, passes(line), strict=True)):
        if at is None or served is None:
            continue
        for word in range(at // WORD, (at + line.bytes_a_lane - 1) // WORD + 1):
            cells[lane][word % BANKS] = served
    return cells


# -------------------------------------------------------------------------------------- ceilings


def _draw_roofline(axes: Axes, explained: Sequence[Explained]) -> None:
    """The roof, and each kernel below it at the intensity of its threads' traffic."""
    first = explained[0].rooflines["each tensor once"]
    found = [line.intensity for one in explained for line in one.rooflines.values()]
    ends = [min(found) / 2, max(*found, first.ridge) * 2]
    corners = [ends[0], first.ridge, ends[1]]
    roof = [min(first.peak_gflops, x * first.bandwidth_gbs) for x in corners]
    axes.loglog(corners, roof, color="black", label="roof: DRAM bandwidth, peak")
    axes.axvline(first.intensity, color="0.6", linestyle=":", label="each tensor once")
    for index, one in enumerate(explained):
        colour = f"C{index}"
        threads, sectors = one.rooflines["threads"], one.rooflines["sectors"]
        # Smaller and smaller, for those that fall on one another.
        axes.plot(
            *(threads.intensity, threads.gflops, "o"),
            color=colour,
            markersize=15 - 1.5 * index,
            label=one.trace.kernel,
        )
        axes.plot(sectors.intensity, sectors.gflops, "x", color=colour)
        if one.least_seconds["shared memory"]:
            most = one.trace.flop / one.least_seconds["shared memory"] / 1e9
            axes.plot(threads.intensity, most, "v", color=colour, fillstyle="none")
    # Legend entries for the markers.
    for mark, meaning in (
        ("o", "by what threads load and store"),
        ("x", "by sectors"),
        ("v", "at most, by the shared-memory port"),
    ):
        fill = "none" if mark == "v" else "full"
        axes.plot([], [], mark, color="0.4", fillstyle=fill, label=meaning)
    axes.set(
        title=f"Roofline of {explained[0].device.name}",
        xlabel="FLOP a byte",
        ylabel="GFLOP/s at most",
    )
    axes.grid(alpha=0.3, which="both")
    axes.legend(fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5))


def _draw_least_times(axes: Axes, explained: Sequence[Explained]) -> None:
    """Draw bars for a memory-bound op: the least busy time of each part of the GPU."""
    bandwidth = explained[0].device.bandwidth_gbs * 1e9
    bars = {
        "DRAM, each tensor once": [one.least_seconds["DRAM"] for one in explained],
        "DRAM, all sectors, if caches keep none": [
            one.traffic["sectors"] / bandwidth for one in explained
        ],
        "shared memory": [one.least_seconds["shared memory"] for one in explained],
    }
    height = 0.8 / len(bars)
    for index, (name, seconds) in enumerate(bars.items()):
        places = [row + index * height for row in range(len(explained))]
        drawn = axes.barh(places, [1e6 * s for s in seconds], height, label=name)
        axes.bar_label(drawn, fmt="%.3g", padding=3, fontsize=7)
    axes.set_yticks([row + height for row in range(len(explained))])
    axes.set_yticklabels([one.trace.kernel for one in explained])
    axes.invert_yaxis()
    axes.margins(x=0.12)
    axes.set(title=f"Least times on {explained[0].device.name}", xlabel="us")
    axes.legend(fontsize=7)
