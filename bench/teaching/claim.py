"""A statement of the texts, judged part by part."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

TRUE = "true"
CORRECTED = "true, with a correction"
WRONG = "wrong"
OPEN = "not settled by these figures"


@dataclass(frozen=True)
class Part:
    """One thing that a statement says."""

    says: str
    holds: bool  # what the figures say of it
    right: str = ""  # what is right, where it does not hold
    shown: bool = True  # whether the figures show that what ``right`` says is right


@dataclass(frozen=True)
class Claim:
    """A statement of the texts, its parts, and what was counted and measured (Markdown)."""

    title: str
    says: str
    parts: tuple[Part, ...]
    figures: str
    where: str = ""  # the verdict says more than the figures can, but for here

    @property
    def verdict(self) -> str:
        """What the parts come to."""
        if any(not part.holds and not (part.right and part.shown) for part in self.parts):
            return OPEN
        held = sum(part.holds for part in self.parts)
        if held == len(self.parts):
            return TRUE
        return CORRECTED if held else WRONG

    @property
    def judged(self) -> str:
        """The verdict, and where it is one."""
        return f"{self.verdict} {self.where}".strip()

    def markdown(self, number: int) -> str:
        """The claim's section of the document."""
        lines = [f"## {number}. {self.title}", "", f"> {self.says}", ""]
        lines += [f"Verdict: **{self.judged}**.", "", *map(_item, self.parts)]
        return "\n".join([*lines, "", self.figures])


def _item(part: Part) -> str:
    if part.holds:
        return f"- True: {part.says}."
    right = part.right if part.right and part.shown else "these figures do not show it"
    return f"- False: {part.says}. Correct: {right}."


def table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A Markdown table; columns of figures are aligned to the right."""
    columns = zip(*rows, strict=True)
    rule = ["---" if any(map(_is_text, cells)) else "---:" for cells in columns]
    return "\n".join(f"| {' | '.join(map(str, cells))} |" for cells in (heads, rule, *rows))


def _is_text(cell: object) -> bool:
    return re.search("[A-Za-z]", str(cell)) is not None


def listed(items: Sequence[object]) -> str:
    """Join by commas and "and"."""
    *most, last = map(str, items)
    return f"{', '.join(most)} and {last}" if most else last
