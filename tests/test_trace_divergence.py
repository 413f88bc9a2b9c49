"""Where lanes of a warp go different ways, the tracer counts requests as a GPU makes them.

A GPU executes the lanes that are at the same line in the same iteration together, and all lanes
reconverge after an `if` or a loop. cpu_emulator runs one lane after the other, so the tracer has to
find out which accesses belong to one request. Each number below is derived by hand.
"""

from pathlib import Path
from typing import Any

import pytest
from compile_kernels import PROGRAMS, CompileError, compile_object, marked_lines, results

SOURCE = PROGRAMS / "divergence.cpp"


def rows_of(kernel: str) -> dict[str, dict[str, Any]]:
    """What the trace counted, by the mark of the line."""
    report = results("divergence")[kernel]
    (launch,) = report["launches"]
    assert (report["error"], launch["faults"]) == ("", [])
    marks = {line: mark for mark, line in marked_lines(SOURCE, "HERE").items()}
    return {marks[row["line"]]: row for row in launch["rows"] if row["line"] in marks}


# kernel: {mark: (requests, lanes over all of them)}
TRUTH = {
    # Iteration i belongs to lane i alone.
    "one_lane_at_a_time": {"each_alone": (32, 32)},
    # Trip i has the lanes from i on: 32 + 31 + ... + 1.
    "as_many_trips_as_the_lane": {"trips": (32, 528), "after_trips": (1, 32)},
    # Lane l makes l % 4 + i trips: 3 requests of 24 + 16 + 8 lanes for i = 0; then 32 more and 64
    # more. Behind the inner loop all meet again.
    "nested_trips": {"inner": (3 + 4 + 5, 48 + 80 + 112), "after_inner": (3, 96)},
    "if_and_else": {"if_half": (1, 16), "else_half": (1, 16), "after_if": (1, 32)},
    # At i, lanes from 4 * (i + 1) on are left, and every second of them continues.
    "break_and_continue": {"unless_skipped": (7, 2 * 28), "after_break": (1, 32)},
    "early_return": {"after_return": (1, 24)},
    # At i the lanes with l % 8 > i are left: 28, 24, 20, 16, each twice; 16 come to the end.
    "return_from_a_loop": {"before_return": (8, 2 * 88), "survivors": (1, 16)},
    # 37 columns, 16 a trip, two rows a warp: 32 + 32 + 2 * 5 lanes.
    "lane_dependent_start": {"ragged": (3, 74)},
    # The third case falls through to the last, where both are together.
    "four_ways": {
        "case_0": (1, 8),
        "case_1": (1, 8),
        "case_2": (1, 8),
        "case_2_and_3": (1, 16),
        "after_switch": (1, 32),
    },
    # Lanes above k for k = 0 to 4, and all at the end; for each of 5 steps and 2 rows, all lanes
    # and then the odd ones.
    "lambdas_and_ranges": {"in_lambda": (6, 145 + 32), "in_range": (20, 10 * 48)},
    # log2(16) shuffles of half a warp; behind them all lanes, though half of them came earlier.
    "shuffle_in_half": {
        "shuffles": (4, 64),
        "between_shuffles": (4, 64),
        "after_shuffles": (1, 32),
    },
    # Two rounds.
    "halves_then_all": {
        "second_shuffle": (2, 32),
        "other_half": (2, 32),
        "before_meeting": (2, 64),
        "meeting": (2, 64),
        "after_meeting": (2, 64),
    },
}


@pytest.mark.parametrize("kernel", TRUTH)
def test_requests_are_those_of_a_gpu(kernel: str) -> None:
    rows = rows_of(kernel)
    assert {mark: (row["requests"], row["lanes"]) for mark, row in rows.items()} == TRUTH[kernel]
    assert not any(row["ambiguous"] for row in rows.values())


def test_lanes_of_a_request_are_the_right_ones() -> None:
    """Sectors follow from which lanes are together: 16 floats of a row are 64 bytes, 2 sectors."""
    sectors = {mark: row["sectors"] for mark, row in rows_of("if_and_else").items()}
    assert sectors == {"if_half": 2, "else_half": 2, "after_if": 4}
    # Two rows of 2 sectors, twice, and of 1 (5 floats).
    assert rows_of("lane_dependent_start")["ragged"]["sectors"] == 4 + 4 + 2


@pytest.mark.parametrize(
    ("kernel", "mark"), [("helper_without_site", "peek"), ("goto_loop", "in_goto")]
)
def test_a_guess_is_called_one(kernel: str, mark: str) -> None:
    """Lanes came a different number of times, from where the tracer cannot know."""
    assert rows_of(kernel)[mark]["ambiguous"]


def test_a_site_of_its_own_resolves_a_helper() -> None:
    """The callers' lines are counted apart: 16 lanes 32 bytes apart, then 32 side by side."""
    rows = rows_of("helper_with_site")
    counted = {mark: (row["requests"], row["sectors"]) for mark, row in rows.items()}
    assert counted == {"half_peeks": (1, 16), "all_peek": (1, 4)}
    assert not any(row["ambiguous"] for row in rows.values())


@pytest.mark.parametrize("loop", ["while (i < 3) ++i;", "do ++i; while (i < 3);"])
def test_while_is_refused(loop: str, tmp_path: Path) -> None:
    """It would escape the counting; the error says what to write instead."""
    source = tmp_path / "while.cpp"
    source.write_text(f'#include "device/tile.h"\nvoid kernel(int i) {{ {loop} }}\n')
    with pytest.raises(CompileError, match="kernels_are_traced_by_their_for_loops_use_one"):
        compile_object(source, flags=["-DSMEM_TRACED", "-fsyntax-only"])
