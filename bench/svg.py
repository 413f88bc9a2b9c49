"""A drawing as the text of an SVG file: lines, bars and labels, without a library."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

# Of Okabe and Ito's palette, which every kind of colour vision can tell apart.
BLUE, ORANGE, GREY = "#0072B2", "#E69F00", "#8C8C8C"
FONT = "system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif"

Point = tuple[float, float]


class Drawing:
    """An SVG picture on a white background, which dark pages need."""

    def __init__(self, width: int, height: int, title: str) -> None:
        self._parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'width="{width}" height="{height}" role="img" font-family="{FONT}">',
            f"<title>{escape(title)}</title>",
        ]
        self.rect(0, 0, width, height, "#FFFFFF")

    def rect(self, x: float, y: float, width: float, height: float, colour: str) -> None:
        """A filled rectangle."""
        self._parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" '
            f'fill="{colour}"/>'
        )

    def line(self, first: Point, last: Point, colour: str, width: float = 1) -> None:
        """A straight line."""
        (x1, y1), (x2, y2) = first, last
        self._parts.append(
            f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" '
            f'stroke="{colour}" stroke-width="{width:g}"/>'
        )

    def polyline(self, points: Sequence[Point], colour: str) -> None:
        """A line through points, with a dot on each."""
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self._parts.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2.5"/>'
        )
        self._parts += [
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in points
        ]

    def text(
        self, x: float, y: float, text: str, *, size: int, anchor: str = "start", bold: bool = False
    ) -> None:
        """A label; ``anchor`` is start, middle or end."""
        weight = ' font-weight="600"' if bold else ""
        self._parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}"{weight} '
            f'fill="#222222">{escape(text)}</text>'
        )

    def svg(self) -> str:
        """The file's text."""
        return "\n".join([*self._parts, "</svg>", ""])


def ticks(most: float) -> list[float]:
    """Round numbers from 0 to at least ``most``, four to seven of them."""
    power = 10 ** math.floor(math.log10(most))
    step = next(s for s in (power / 5, power / 2, power, 2 * power) if most / s <= 6)
    return [step * i for i in range(math.ceil(most / step) + 1)]
