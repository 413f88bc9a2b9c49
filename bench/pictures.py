"""Draw README's and docs/'s pictures: speed over size, the ladder, banks, a pipeline.

    PYTHONPATH=. python bench/pictures.py            # rewrite docs/pictures/*.svg
    PYTHONPATH=. python bench/pictures.py --check    # exit with 1 if that would change anything

Needs the built extension, no GPU: times are read from bench/results, and the kernels are traced
on the CPU. The same results give the same files, byte for byte.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from svg import BLUE, GREY, ORANGE, Drawing, ticks

import torch_smem_gemm as smem
from torch_smem_gemm.bench import results
from torch_smem_gemm.bench.report import write_or_check
from torch_smem_gemm.bench.rows import OURS, Row
from torch_smem_gemm.bench.suite import LADDER
from torch_smem_gemm.cli._trace_plots import bank_map
from torch_smem_gemm.cli._trace_text import pipeline_text
from torch_smem_gemm.pipeline_trace import STATES, Pipeline

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "pictures"
RESULTS = ROOT / "bench" / "results" / "h200.json"

# Contenders of the speed picture that the results may hold: name, label, colour.
LINES = (
    ("torch", "torch (cuBLAS)", GREY),
    ("batch_invariant_ops", "batch_invariant_ops", ORANGE),
    (OURS, "torch_smem_gemm", BLUE),
)
PANELS = (("float32", "float32, TF32 off"), ("bfloat16", "bfloat16"))
LADDERS = (
    "gemm 4096 x 4096 x 4096 float32",
    "gemm 4096 x 4096 x 4096 bfloat16",
    "transpose 8192 x 8192 float32",
    "sum 16384 x 16384 over dim 1 float32",
)
STATE_COLOURS = dict(zip(STATES, ("#E4E4E4", ORANGE, BLUE, "#009E73"), strict=True))
PASSES = ("#0072B2", "#E69F00")  # the first pass and the last, of an access


def main(argv: Sequence[str] | None = None) -> int:
    """Rewrite or check the pictures; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only say if they are up to date")
    parser.add_argument("--folder", type=Path, default=FOLDER)
    args = parser.parse_args(argv)

    found = results.load(RESULTS)
    drawn = {
        "speed.svg": speed(found),
        "ladder.svg": ladder(found),
        "banks.svg": banks(),
        "pipeline.svg": pipelines(),
    }
    statuses = [
        write_or_check(args.folder / name, text, "the results", check=args.check)
        for name, text in drawn.items()
    ]
    return max(statuses)


def machine(found: Mapping[str, Any]) -> str:
    """What the results were measured on."""
    return f"{found['device']}, torch {found['versions']['torch']}, {found['date'][:10]}"


# ----------------------------------------------------------------------------- speed over size


def speed(found: Mapping[str, Any]) -> str:
    """TFLOP/s of square products by size: a panel for each dtype, a line for each contender."""
    drawing = Drawing(860, 330, "Speed of square matrix products by size")
    for index, (dtype, title) in enumerate(PANELS):
        rows = [row for row in found["rows"] if row.set == "squares" and row.dtype == dtype]
        _speed_panel(drawing, 60 + 425 * index, title, rows)
    drawing.text(430, 320, f"C = A B, n × n. {machine(found)}.", size=11, anchor="middle")
    return drawing.svg()


def _speed_panel(drawing: Drawing, left: float, title: str, rows: Sequence[Row]) -> None:
    top, width, height = 40, 350, 230
    series = {
        name: [(int(row.shape.split()[0]), row.rate / 1000) for row in rows if row.name == name]
        for name, *_ in LINES
        if all(row.rate for row in rows if row.name == name)
    }
    sizes = [size for points in series.values() for size, _ in points]
    low, high = math.log2(min(sizes)), math.log2(max(sizes))
    marks = ticks(max(rate for points in series.values() for _, rate in points))

    def x(size: float) -> float:
        return left + width * (math.log2(size) - low) / (high - low)

    def y(rate: float) -> float:
        return top + height * (1 - rate / marks[-1])

    drawing.text(left + width / 2, 22, title, size=14, anchor="middle", bold=True)
    for rate in marks:
        drawing.line((left, y(rate)), (left + width, y(rate)), "#DDDDDD")
        drawing.text(left - 6, y(rate) + 4, f"{rate:g}", size=11, anchor="end")
    for power in range(math.ceil(low), math.floor(high) + 1):
        drawing.text(x(2**power), top + height + 16, str(2**power), size=11, anchor="middle")
    drawing.text(left + width / 2, top + height + 33, "n", size=12, anchor="middle")
    drawing.text(left - 34, top - 10, "TFLOP/s", size=11)
    legend = top + 16
    for name, label, colour in LINES:
        if not series.get(name):
            continue
        drawing.polyline([(x(size), y(rate)) for size, rate in series[name]], colour)
        drawing.line((left + 12, legend - 4), (left + 36, legend - 4), colour, width=2.5)
        drawing.text(left + 42, legend, label, size=12)
        legend += 18


# ---------------------------------------------------------------------------------- the ladder


def ladder(found: Mapping[str, Any]) -> str:
    """The rate of every kernel on one problem of each op, as bars."""
    problems = [
        (problem, [r for r in found["rows"] if r.set == LADDER and r.problem == problem and r.rate])
        for problem in LADDERS
    ]
    heights = [34 + 20 * len(rows) for _, rows in problems]
    drawing = Drawing(860, sum(heights) + 30, "Rates of the ladders' kernels")
    top = 0
    for (problem, rows), height in zip(problems, heights, strict=True):
        title = f"{problem.replace(' x ', ' × ')}, {rows[0].unit}"
        drawing.text(130, top + 22, title, size=13, bold=True)
        most = max(row.rate for row in rows)
        for index, row in enumerate(rows):
            y, length = top + 32 + 20 * index, 560 * row.rate / most
            drawing.text(122, y + 12, row.name, size=12, anchor="end")
            drawing.rect(130, y, length, 15, BLUE if row.kind == "kernel" else GREY)
            drawing.text(136 + length, y + 12, f"{row.rate:,.0f}", size=11)
        top += height
    text = f"{machine(found)}. Blue: kernels of this package; grey: torch's."
    drawing.text(430, top + 20, text, size=11, anchor="middle")
    return drawing.svg()


# ----------------------------------------------------------------------------------- the banks


def banks() -> str:
    """Which bank each lane reads, down a column of the transpose's tile: pitch 32 and pitch 33."""
    drawing = Drawing(860, 440, "Bank of each lane's word in two transposes")
    for index, (kernel, pitch) in enumerate((("tiled", 32), ("padded", 33))):
        report = smem.trace("transpose", torch.zeros(64, 64), kernel=kernel)
        reads = [line for line in report.launches[0].lines if line.memory == "shared"]
        line = next(line for line in reads if line.action == "load")
        passes = line.wavefronts // line.requests
        title = f"{kernel}: pitch {pitch}, {passes} pass{'es' if passes > 1 else ''} per read"
        _bank_panel(drawing, 70 + 425 * index, title, bank_map(line), passes)
    drawing.text(
        430,
        430,
        "One warp reads a column of its tile. Each square is a lane's word; the colour is the pass "
        "that serves it, from blue (first) to orange (last).",
        size=11,
        anchor="middle",
    )
    return drawing.svg()


def _bank_panel(
    drawing: Drawing, left: float, title: str, lanes: Sequence[Sequence[float]], passes: int
) -> None:
    top, side = 44, 10.5
    whole = 32 * side
    drawing.text(left + whole / 2, 26, title, size=14, anchor="middle", bold=True)
    drawing.rect(left, top, whole, whole, "#F2F2F2")
    for lane, row in enumerate(lanes):
        for bank, served in enumerate(row):
            if not math.isnan(served):
                part = (served - 1) / max(passes - 1, 1)
                colour = mixed(*PASSES, part)
                drawing.rect(left + bank * side, top + lane * side, side - 1, side - 1, colour)
    for mark in (0, 8, 16, 24, 31):
        middle = (mark + 0.5) * side
        drawing.text(left + middle, top + whole + 14, str(mark), size=11, anchor="middle")
        drawing.text(left - 6, top + middle + 4, str(mark), size=11, anchor="end")
    drawing.text(left + whole / 2, top + whole + 30, "bank", size=12, anchor="middle")
    drawing.text(left - 28, top - 8, "lane", size=12, anchor="middle")


# ---------------------------------------------------------------------------------- the pipeline


def pipelines() -> str:
    """The stages of two tiles of wgmma over the steps of the kernel: few stages, and many."""
    os.environ["SMEM_ASYNC_TIMING"] = "0"
    a, b = torch.ones(128, 1024, dtype=torch.bfloat16), torch.ones(1024, 64, dtype=torch.bfloat16)
    traced = []
    for tile in ("64x64_3cta", "128x64"):
        (launch,) = smem.trace("gemm", a, b, kernel=f"wgmma:{tile}").launches
        assert launch.pipeline
        traced.append((f"wgmma:{tile}", launch.pipeline))
    heights = [22 * pipeline.stages + 66 for _, pipeline in traced]
    drawing = Drawing(860, sum(heights) + 34, "The pipeline of wgmma with 3 and with 8 stages")
    top = 0
    for (kernel, pipeline), height in zip(traced, heights, strict=True):
        _pipeline_panel(drawing, top, kernel, pipeline)
        top += height
    left = 230.0
    for state, colour in STATE_COLOURS.items():
        drawing.rect(left, top + 8, 14, 14, colour)
        drawing.text(left + 20, top + 20, state, size=12)
        left += 110
    return drawing.svg()


def _pipeline_panel(drawing: Drawing, top: float, kernel: str, pipeline: Pipeline) -> None:
    left, steps = 80, len(pipeline.changes)
    step = 760 / steps
    drawing.text(left, top + 24, f"{kernel}: {pipeline_text(pipeline)}", size=13, bold=True)
    for stage in range(pipeline.stages):
        y = top + 34 + 22 * stage
        drawing.text(left - 8, y + 14, f"stage {stage}", size=11, anchor="end")
        for begin, end, state in pipeline.spans(stage):
            colour = STATE_COLOURS[state]
            drawing.rect(left + step * begin, y, step * (end - begin), 18, colour)
    bottom = top + 34 + 22 * pipeline.stages
    for mark in range(0, steps + 1, 10):
        drawing.text(left + step * mark, bottom + 13, str(mark), size=11, anchor="middle")
    drawing.text(left - 8, bottom + 13, "step", size=11, anchor="end")


def mixed(first: str, last: str, part: float) -> str:
    """A colour between two, as #RRGGBB."""
    pairs = [(int(first[i : i + 2], 16), int(last[i : i + 2], 16)) for i in (1, 3, 5)]
    return "#" + "".join(f"{round(a + (b - a) * part):02X}" for a, b in pairs)


if __name__ == "__main__":
    sys.exit(main())
