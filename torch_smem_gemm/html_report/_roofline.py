"""The roofline of a trace as coordinates of a picture."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch_smem_gemm.cli._explain_kernel import Explained

WIDTH, HEIGHT = 420, 220
MARKS = {"threads": "○", "sectors": "✕", "each tensor once": "□"}  # by the traffic assumed


@dataclass(frozen=True)
class Mark:
    """A kernel below the roof: position in the picture, and the name of the traffic it assumes."""

    x: float
    y: float
    name: str


@dataclass(frozen=True)
class RooflinePicture:
    """A roofline with two logarithmic axes, in units of the picture; y grows downwards.

    ``roof`` has three points, ``x_ticks`` and ``y_ticks`` position and label.
    """

    roof: tuple[tuple[float, float], ...]
    marks: tuple[Mark, ...]
    x_ticks: tuple[tuple[float, str], ...]
    y_ticks: tuple[tuple[float, str], ...]


def roofline_picture(explained: Explained) -> RooflinePicture | None:
    """Return the roofline of a kernel; None if it moves no bytes."""
    found = {name: r for name, r in explained.rooflines.items() if 0 < r.intensity < math.inf}
    if not found:
        return None
    any_line = next(iter(found.values()))
    ridge, peak = any_line.ridge, any_line.peak_gflops
    intensities = [r.intensity for r in found.values()]
    left = math.floor(math.log10(min(*intensities, ridge)))
    right = math.ceil(math.log10(2 * max(*intensities, ridge)))
    bottom = math.floor(math.log10(min(peak, 10.0**left * any_line.bandwidth_gbs)))
    top = math.ceil(math.log10(peak))

    def x(intensity: float) -> float:
        return round(WIDTH * (math.log10(intensity) - left) / (right - left), 1)

    def y(gflops: float) -> float:
        return round(HEIGHT * (top - math.log10(gflops)) / (top - bottom), 1)

    ends = (10.0**left, ridge, 10.0**right)
    return RooflinePicture(
        roof=tuple((x(at), y(min(peak, at * any_line.bandwidth_gbs))) for at in ends),
        marks=tuple(Mark(x(r.intensity), y(r.gflops), name) for name, r in found.items()),
        x_ticks=tuple((x(10.0**power), f"{10.0**power:g}") for power in range(left, right + 1)),
        y_ticks=tuple((y(10.0**power), f"{10**power:,}") for power in range(bottom, top + 1)),
    )
