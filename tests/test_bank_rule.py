"""The rules for shared memory give what bench/bank_rule.py measured on an H200."""

import copy
import json
from collections.abc import Callable, Sequence
from typing import Any

import needs_bench
import bank_rule
import pytest
from compile_kernels import CSRC, PROGRAMS, compile_object, link, run

RESULTS = needs_bench.BENCH / "results" / "bank-rule-h200.json"
Lanes = Sequence[int | None]
Measured = dict[str, Any]
Rule = Callable[[Sequence[tuple[Any, ...]]], list[list[int]]]


@pytest.fixture(scope="module")
def measured() -> Measured:
    return json.loads(RESULTS.read_text())


@pytest.fixture(scope="module")
def by_tracer() -> Rule:
    """Wavefronts and conflicts of each access, by the tracer's rules."""
    sources = (PROGRAMS / "passes.cpp", CSRC / "cpu_emulator" / "trace" / "cost.cpp")
    program = link("passes", [compile_object(source) for source in sources])
    return lambda accesses: run(program, "\n".join(bank_rule.line(*one) for one in accesses))


def test_the_file_holds_what_the_script_measures(measured: Measured) -> None:
    """The very patterns, and text."""
    assert [(row["width"], row["addresses"]) for row in measured["patterns"]] == [
        *bank_rule.patterns()
    ]
    assert [(row["width"], row["to"], row["from"]) for row in measured["copies"]] == [
        *bank_rule.copies()
    ]
    assert bank_rule.text(measured) == RESULTS.read_text()


def test_analysis_gives_every_load_and_store(measured: Measured) -> None:
    assert len(measured["patterns"]) == 460
    assert bank_rule.differences(measured) == []


def test_the_script_says_what_differs(measured: Measured) -> None:
    changed = copy.deepcopy(measured)
    changed["patterns"][0]["store"] = [2, 1]
    assert bank_rule.differences(changed) == [
        "pattern 0, store of 1 bytes: 1 wavefronts and 0 conflicts, ncu counts 2 and 1"
    ]


def test_the_tracer_gives_every_load_and_store(by_tracer: Rule, measured: Measured) -> None:
    accesses, counted = [], []
    for row in measured["patterns"]:
        for kind in ("load", "store"):
            accesses.append((kind, row["width"], row["addresses"]))
            counted.append(row[kind])
    assert by_tracer(accesses) == counted


def collides(lanes: Lanes, width: int) -> list[bool]:
    """For each group of lanes that 128 bytes serve: whether two of their words are in one bank."""
    found = []
    for start in range(0, 32, 128 // width):
        group = [at for at in lanes[start : start + 128 // width] if at is not None]
        used = [(at + byte) // 4 % 32 for at in group for byte in range(0, width, 4)]
        found.append(len(set(used)) < len(used))
    return found


def test_the_tracer_gives_the_copies(by_tracer: Rule, measured: Measured) -> None:
    """Exact where in each group of lanes the sources or the destinations are free of conflicts.

    That is two thirds of the copies. Where both collide the rule is a lower bound: the GPU takes
    up to 5 passes for 3.
    """
    rows = measured["copies"]
    found = by_tracer([("copy", row["width"], row["to"], row["from"]) for row in rows])
    exact = 0
    for row, (wavefronts, conflicts) in zip(rows, found, strict=True):
        counted = row["copy"]
        sides = zip(*(collides(row[side], row["width"]) for side in ("to", "from")), strict=True)
        if any(map(all, sides)):
            assert wavefronts <= counted[0] <= wavefronts * 5 / 3, row
            assert counted[0] - counted[1] == wavefronts - conflicts, row
        else:
            exact += 1
            assert [wavefronts, conflicts] == counted, row
    assert (exact, len(rows)) == (106, 152)
