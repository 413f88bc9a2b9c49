"""Comparison of two results files of ``bench``: changes beyond the noise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch_smem_gemm.bench.rows import Row

LEAST_CHANGE = 0.02  # of the median; smaller changes count as noise

Key = tuple[str, str, str]  # set, problem, name


@dataclass(frozen=True)
class Change:
    """One row that both files have."""

    verdict: str  # "slower", "faster", "same", "broken", "repaired", or "no time" in both files
    before: Row
    after: Row

    @property
    def ratio(self) -> float | None:
        """Time after over time before; None where one of them has no time."""
        if self.before.ms is None or self.after.ms is None:
            return None
        return self.after.ms / self.before.ms


@dataclass(frozen=True)
class Comparison:
    """Two results files, row by row."""

    changes: tuple[Change, ...]  # in the order of the first file
    only_before: tuple[Key, ...]
    only_after: tuple[Key, ...]
    differences: tuple[str, ...]  # in what they were measured on, in words

    def of(self, *verdicts: str) -> tuple[Change, ...]:
        """The rows of these verdicts."""
        return tuple(change for change in self.changes if change.verdict in verdicts)

    @property
    def worse(self) -> tuple[Change, ...]:
        """The rows that got slower, and those that had a time and have none now."""
        return self.of("slower", "broken")


def compare(before: Mapping[str, Any], after: Mapping[str, Any]) -> Comparison:
    """Match the rows of two results, as ``results.load`` gives them, by set, problem and name."""
    old = {_key(row): row for row in before["rows"]}
    new = {_key(row): row for row in after["rows"]}
    return Comparison(
        changes=tuple(
            Change(verdict(row, new[key]), row, new[key]) for key, row in old.items() if key in new
        ),
        only_before=tuple(key for key in old if key not in new),
        only_after=tuple(key for key in new if key not in old),
        differences=tuple(_differences(before, after)),
    )


def verdict(before: Row, after: Row) -> str:
    """Return the verdict on a row.

    ``"slower"`` and ``"faster"`` are beyond the noise: the intervals from p20 to p80 do not
    overlap, and the medians differ by more than ``LEAST_CHANGE`` of the first. ``"broken"`` had a
    time and has none now, or is wrong now and was not; ``"repaired"`` is the other way round.
    """
    usable = [(row.status != "wrong", row.ms is not None) for row in (before, after)]
    if usable[0] != usable[1]:
        return "broken" if usable[1] < usable[0] else "repaired"
    # All three are None or none is; the first test narrows the type.
    if before.ms is None or before.ms_p20 is None or before.ms_p80 is None:
        return "no time"
    if after.ms is None or after.ms_p20 is None or after.ms_p80 is None:
        return "no time"
    if abs(after.ms - before.ms) <= LEAST_CHANGE * before.ms:
        return "same"
    if after.ms_p20 > before.ms_p80:
        return "slower"
    if after.ms_p80 < before.ms_p20:
        return "faster"
    return "same"


def _key(row: Row) -> Key:
    return row.set, row.problem, row.name


def _differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Return differences of the machine or versions that change times."""
    pairs = {"device": (before.get("device"), after.get("device"))}
    for name in ("driver", "torch", "CUDA of the binary"):
        pairs[name] = tuple(file.get("versions", {}).get(name) for file in (before, after))
    return [f"{name}: {old}, then {new}" for name, (old, new) in pairs.items() if old != new]
