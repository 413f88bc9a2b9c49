"""Where lanes of a warp go different ways, requests are counted as a GPU makes them.

A GPU executes the lanes that are at the same instruction together, and all lanes reconverge after
an `if` or a loop. The emulator runs one lane after the other and finds out from addresses of code
which accesses are one request. Each number below is derived by hand.
"""

import re
from pathlib import Path

import pytest
import torch

import torch_smem_gemm as smem
from torch_smem_gemm.trace_report import Line

SOURCE = Path(__file__).parent / "raw_kernels" / "divergence.cu"
TEXT = SOURCE.read_text()
NUMBERS = {name: int(n) for n, name in re.findall(r"CASE\((\d+), (\w+)\)", TEXT)}
MARKS = {
    i + 1: mark
    for i, line in enumerate(TEXT.splitlines())
    for mark in re.findall(r"HERE: (\w+)", line)
}

# function: {mark: (requests, lanes over all of them)}
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
    # Half a warp, then all of it.
    "helper": {"peek": (2, 16 + 32)},
    # Lane l comes back over levels 1 to l % 4. The deepest are executed first, and all that have a
    # level wait for them there: 8, 16 and 24 lanes.
    "recursion": {"way_back": (3, 48)},
    "goto_loop": {"in_goto": (32, 528)},
    # Lanes at odd and at even numbers are apart in each trip.
    "ragged_rows": None,
    # Lanes above k for k = 0 to 4, and all at the end.
    "lambdas": {"in_lambda": (6, 145 + 32)},
    # 5000 trips of all, and one more for each lane but the first: 31 + 30 + ... + 1. Half of the
    # lanes at every trip; after the 5000th 16, 15, 15, 14, 14, ..., 1, 1.
    "long_and_ragged": {
        "every_second": (5031, 5000 * 16 + 256),
        "each_trip": (5031, 5000 * 32 + 496),
    },
    "long_apart": {
        "before_parting": (1, 32),
        "long_way": (10_000, 160_000),
        "after_long_way": (1, 32),
    },
}


def lines_of(function: str) -> dict[str, Line]:
    """What the trace counted, by the mark of the line."""
    kernel = smem.RawKernel(SOURCE, "call")
    block = (16, 2) if function == "lane_dependent_start" else 32
    trace = kernel.trace(1, block, (NUMBERS[function], torch.ones(4, 256)))
    assert trace.faults == ()
    return {MARKS[line.line]: line for line in trace.launches[0].lines if line.line in MARKS}


def ragged_rows() -> dict[str, tuple[int, int]]:
    """The truth by lanes in lock step, which all wait for each other behind the `if`."""
    counted = {"odd": [0, 0], "even": [0, 0]}
    for trip in range(17):
        numbers = [lane - trip for lane in range(32) if trip == 0 or lane - trip + 1 > lane // 2]
        for mark, rest in (("odd", 1), ("even", 0)):
            together = [number for number in numbers if number % 2 == rest]
            counted[mark][0] += bool(together)
            counted[mark][1] += len(together)
    return {mark: (requests, lanes) for mark, (requests, lanes) in counted.items()}


@pytest.mark.parametrize("function", TRUTH)
def test_requests_are_those_of_a_gpu(function: str) -> None:
    expected = TRUTH[function] or ragged_rows()
    lines = lines_of(function)
    assert {mark: (line.requests, line.lanes) for mark, line in lines.items()} == expected


def test_lanes_of_a_request_are_the_right_ones() -> None:
    """Sectors follow from which lanes are together: 16 floats of a row are 64 bytes, 2 sectors."""
    sectors = {mark: line.sectors for mark, line in lines_of("if_and_else").items()}
    assert sectors == {"if_half": 2, "else_half": 2, "after_if": 4}
    # Two rows of 2 sectors, twice, and of 1 (5 floats).
    assert lines_of("lane_dependent_start")["ragged"].sectors == 4 + 4 + 2
    # 16 lanes 32 bytes apart, then 32 side by side.
    assert lines_of("helper")["peek"].sectors == 16 + 4
