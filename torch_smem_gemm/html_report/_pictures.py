"""The picture of one request of a warp: the banks or the sectors that its lanes access."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from torch_smem_gemm.analysis.banks import BANKS, WORD, banks
from torch_smem_gemm.cli._explain_kernel import passes, ways
from torch_smem_gemm.cli._trace_plots import lanes_by_word
from torch_smem_gemm.trace_report import SECTOR, Line

CHARACTERS = 5  # of a label that fit a word's cell
MANY = "×"  # after the number of lanes in a label
WORDS = BANKS  # of a picture's row, which is 128 bytes


@dataclass(frozen=True)
class Cell:
    """Neighbouring words that the same lanes access in the same pass.

    ``row`` and ``column`` count from 0 on, ``words`` is the width. ``shade`` is 0 for the first
    pass to 100 for the last.
    """

    row: int
    column: int
    words: int
    label: str
    shade: int


@dataclass(frozen=True)
class Picture:
    """The words that a request accesses, as cells of a grid with 32 columns.

    ``offsets`` has the byte offset of each row, of 128 bytes. Shared memory: column = bank, and
    ``totals`` has the number of words in each bank, ``crowded`` the banks that cause conflicts.
    Global memory: ``sectors`` lists row and index of each sector touched, four per row.
    ``verdict`` says in a sentence what the picture shows, ``steps`` repeats the cells as text.
    """

    offsets: tuple[int, ...]
    cells: tuple[Cell, ...]
    totals: tuple[int, ...]
    crowded: tuple[int, ...]
    sectors: tuple[tuple[int, int], ...]
    verdict: str
    steps: tuple[str, ...]

    @property
    def is_shortened(self) -> bool:
        """Whether a label has the number of lanes because their names do not fit."""
        return any(cell.label.endswith(MANY) for cell in self.cells)


def picture(line: Line) -> Picture | None:
    """Return the picture of a line's worst request; None for barriers and shuffles."""
    lanes = lanes_by_word(line)
    if not line.memory or not lanes:
        return None
    served = passes(line) if ways(line) else [None] * len(line.example)
    is_conflict = (ways(line) or 0) > 1
    offsets = tuple(sorted({word // WORDS for word in lanes}))
    rows = {number: index for index, number in enumerate(offsets)}
    is_shared = line.memory == "shared"
    touched = sorted({word * WORD // SECTOR for word in lanes})
    totals = [sum(word % BANKS == bank for word in lanes) for bank in range(BANKS)]
    return Picture(
        offsets=tuple(WORDS * WORD * number for number in offsets),
        cells=tuple(_cells(lanes, rows, served)),
        totals=tuple(totals) if is_shared else (),
        crowded=tuple(b for b in range(BANKS) if is_conflict and totals[b] == max(totals)),
        sectors=() if is_shared else tuple((rows[s // 4], s % 4) for s in touched),
        verdict=_shared_verdict(line, lanes) if is_shared else _global_verdict(line, len(touched)),
        steps=tuple(_steps(lanes, served)),
    )


def _cells(
    lanes: Mapping[int, Sequence[int]], rows: Mapping[int, int], served: Sequence[int | None]
) -> list[Cell]:
    """Return the words as cells; ``rows`` has the row of each 128 bytes."""

    def number(word: int) -> int:
        return served[lanes[word][0]] or 1

    last = max(map(number, lanes))
    runs: list[list[int]] = []
    for word in sorted(lanes):
        before = runs[-1][-1] if runs else None
        joins = (
            before == word - 1
            and word % WORDS
            and (lanes[before], number(before)) == (lanes[word], number(word))
        )
        if joins:
            runs[-1].append(word)
        else:
            runs.append([word])
    return [
        Cell(
            row=rows[run[0] // WORDS],
            column=run[0] % WORDS,
            words=len(run),
            label=_label(lanes[run[0]], len(run)),
            shade=round(100 * (number(run[0]) - 1) / max(1, last - 1)),
        )
        for run in runs
    ]


def _label(lanes: Sequence[int], words: int) -> str:
    text = ranges(lanes)
    return text if len(text) <= CHARACTERS * words else f"{len(lanes)}{MANY}"


def ranges(numbers: Iterable[int]) -> str:
    """Return sorted numbers as text, runs of three or more as ranges: "0, 1, 4–7"."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(
        f"{run[0]}–{run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs
    )


def _shared_verdict(line: Line, lanes: Mapping[int, Sequence[int]]) -> str:
    if line.action == "copy_to":
        return (
            f"{_times(line.worst, 'pass', 'passes')}, of reading the L1 cache and of writing "
            "shared memory together, as cp.async does."
        )
    if ways(line) is None:
        return "Misaligned: a fault on the GPU."
    found = banks(line.example, line.bytes_a_lane, store=line.action == "store")
    if found.ways > 1:
        return (
            f"{found.ways}-way bank conflict: one bank serves {found.ways} words, one after the "
            f"other. {_times(found.wavefronts, 'pass', 'passes')}, where {found.ideal} would do."
        )
    shared = any(len(users) > 1 for users in lanes.values())
    why = " Lanes that access the same word share it (broadcast)." if shared else ""
    wide = f", the least for {line.bytes_a_lane} B per lane" if found.ideal > 1 else ""
    return f"No bank conflict: {_times(found.wavefronts, 'pass', 'passes')}{wide}.{why}"


def _global_verdict(line: Line, sectors: int) -> str:
    used = {at + byte for at in line.example if at is not None for byte in range(line.bytes_a_lane)}
    moved = SECTOR * sectors
    text = (
        f"{_times(sectors, 'sector', 'sectors')} ({moved:,} B) for the {len(used):,} B that the "
        f"lanes access: {len(used) / moved:.1%} used."
    )
    if line.worst != sectors and line.action == "copy_from":
        text += f" The trace counts {line.worst}, each pair of a source and a destination sector."
    elif line.worst != sectors:
        text += f" The trace counts {line.worst}: the tensor starts within a sector."
    return text


def _steps(lanes: Mapping[int, Sequence[int]], served: Sequence[int | None]) -> list[str]:
    """Return the lanes of each pass, if there are passes, and row of the picture."""
    words: dict[tuple[int, int], dict[int, list[int]]] = {}
    for word in sorted(lanes):
        for lane in lanes[word]:
            key = (served[lane] or 0, word // WORDS)
            words.setdefault(key, {}).setdefault(word, []).append(lane)
    steps = []
    for (number, _), users in sorted(words.items()):
        text = f"pass {number}, " if number else ""
        text += f"bytes {WORD * min(users):,} to {WORD * max(users) + WORD - 1:,}: "
        steps.append(text + _lanes(sorted({lane for row in users.values() for lane in row})))
    return steps


def _lanes(numbers: Iterable[int]) -> str:
    found = list(numbers)
    return f"{'lane' if len(found) == 1 else 'lanes'} {ranges(found)}"


def _times(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"
