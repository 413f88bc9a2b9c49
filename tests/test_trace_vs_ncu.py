"""The trace against Nsight Compute: bench/results/trace-vs-ncu-h200.json."""

import json
import math
from typing import Any

import needs_bench
import pytest
import trace_vs_ncu
from known_differences import REASONS, TOLERANCE, difference, reason

import torch_smem_gemm as smem

RESULTS = needs_bench.BENCH / "results" / "trace-vs-ncu-h200.json"
ROWS = json.loads(RESULTS.read_text(encoding="utf-8"))["rows"] if RESULTS.exists() else []


def name(row: dict[str, Any]) -> str:
    sizes = "x".join(map(str, row["sizes"]))
    return f"{row['op']}-{row['kernel']}-{sizes}-{row['dtype']}"


def is_wide(row: dict[str, Any]) -> bool:
    """Whether the trace takes seconds; every kernel has smaller problems, too."""
    return row["op"] == "gemm" and math.prod(row["sizes"]) >= 2**24


@pytest.mark.parametrize(
    "row",
    [pytest.param(row, marks=[pytest.mark.sweep] if is_wide(row) else []) for row in ROWS],
    ids=name,
)
@pytest.mark.one_in(3)
def test_trace_counts_as_it_did(row: dict[str, Any]) -> None:
    """So that ncu's agreement, measured once, still holds."""
    if why := row.get("plan_changed"):
        pytest.skip(f"ncu measured another plan: {why}")
    given = trace_vs_ncu.arguments(row["op"], row["sizes"], row["dtype"], "cpu")
    # The tile that ran then, where the kernel would choose another now.
    kernel = ":".join(filter(None, (row["kernel"], row.get("variant"))))
    trace = smem.trace(row["op"], *given, kernel=kernel)
    counted = trace_vs_ncu.counts(trace, row["loads"])
    before = {name: pair["trace"] for name, pair in row["counters"].items()}
    assert counted == before


@pytest.mark.parametrize("row", ROWS, ids=name)
def test_ncu_agrees_or_the_reason_is_known(row: dict[str, Any]) -> None:
    unexplained = {
        name: pair
        for name, pair in row["counters"].items()
        if difference(pair) > TOLERANCE and reason(row, name) is None
    }
    assert not unexplained


@pytest.mark.skipif(not ROWS, reason="no results yet")
def test_every_run_is_there() -> None:
    runs = [(row["op"], row["kernel"], tuple(row["sizes"]), row["dtype"]) for row in ROWS]
    assert runs == list(trace_vs_ncu.runs())


def test_one_kernel_measured_again_keeps_the_others() -> None:
    runs = list(trace_vs_ncu.runs())
    rows = [dict(zip(("op", "kernel", "sizes", "dtype"), run, strict=True)) for run in runs]
    before = {"versions": "old", "rows": rows}
    after = trace_vs_ncu.merged(
        {"device": "other", "versions": "new", "rows": [rows[3] | {"loads": "merged"}]}, before
    )
    assert after["versions"] == "old"
    assert [row.get("loads") for row in after["rows"][2:5]] == [None, "merged", None]
    assert [row.get("versions") for row in after["rows"][2:5]] == [None, "new", None]
    assert [row.get("device") for row in after["rows"][2:5]] == [None, "other", None]
    assert len(after["rows"]) == len(runs)


@pytest.mark.skipif(not ROWS, reason="no results yet")
def test_every_reason_explains_something() -> None:
    """But for collisions with the cache's fills, which other runs may not have."""
    explained = [
        reason(row, name)
        for row in ROWS
        for name, pair in row["counters"].items()
        if pair["trace"] != pair["ncu"]
    ]
    needless = [
        (name, each.why)
        for name, known in REASONS.items()
        for each in known
        if each not in explained and not name.endswith("conflicts")
    ]
    assert not needless


def made_up(traced: int, ncu: int, **changes: object) -> dict[str, Any]:
    """A row whose two counts of additions differ."""
    row = {"op": "gemm", "kernel": "tiled32", "sizes": [200, 136, 100], "dtype": "float32"}
    return row | {"counters": {"add": {"trace": traced, "ncu": ncu}}} | changes


def test_a_reason_holds_where_it_says_and_no_further() -> None:
    assert reason(made_up(110, 100), "add") is REASONS["add"][0]
    assert reason(made_up(90, 100), "add") is REASONS["add"][0]
    assert reason(made_up(200, 100), "add") is None  # too far off
    assert reason(made_up(110, 100, sizes=[256, 256, 256]), "add") is None  # no ragged edge
    assert reason(made_up(110, 100, op="transpose"), "add") is None
    assert reason(made_up(110, 100, dtype="float64"), "add") is REASONS["add"][1]


def test_conflicts_are_held_against_all_passes() -> None:
    counters = {
        "shared load conflicts": {"trace": 0, "ncu": 50},
        "shared load wavefronts": {"trace": 1000, "ncu": 1000},
    }
    row = made_up(0, 0, counters=counters)
    assert reason(row, "shared load conflicts") is REASONS["shared load conflicts"][0]
    counters["shared load conflicts"]["ncu"] = 500
    assert reason(row, "shared load conflicts") is None
