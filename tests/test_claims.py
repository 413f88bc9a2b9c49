"""bench/claims.py: docs/claims.md shows the figures, and its verdicts follow from them."""

import copy
import dataclasses
import functools
import inspect
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import needs_bench  # noqa: F401
import claims
import pytest
from teaching import global_memory, resources, shared_memory, speed
from teaching.agreement import agreement
from teaching.claim import CORRECTED, OPEN, TRUE, WRONG, Claim, Part, table
from teaching.evidence import GEMM, Evidence

import torch_smem_gemm as smem
from torch_smem_gemm import Trace, analysis
from torch_smem_gemm.trace_report import Line

Change = Callable[[Evidence], Evidence]


@pytest.fixture(scope="module")
def evidence() -> Evidence:
    """The committed results, and traces that the tests share."""
    return Evidence.load()


def test_document_shows_the_figures(evidence: Evidence) -> None:
    shown = claims.DOCUMENT.read_text(encoding="utf-8")
    assert shown == claims.document(evidence), "run `PYTHONPATH=. python bench/claims.py`"


def test_writes_and_checks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "document", lambda evidence: "the new text\n")
    arguments = ["--document", str(tmp_path / "docs" / "claims.md")]
    assert claims.main([*arguments, "--check"]) == 1
    assert claims.main(arguments) == 0
    assert Path(arguments[1]).read_text() == "the new text\n"
    assert claims.main([*arguments, "--check"]) == 0
    Path(arguments[1]).write_text("an old text\n")
    assert claims.main([*arguments, "--check"]) == 1


def test_times_are_the_ladders(tmp_path: Path) -> None:
    rows = [{"set": name, "problem": GEMM, "name": "torch"} for name in ("squares", "ladder")]
    (tmp_path / "all.json").write_text(json.dumps({"rows": rows}))
    found = Evidence.load(tmp_path / "all.json")
    assert found.timed(GEMM, "torch") == rows[1]
    with pytest.raises(SystemExit, match="no tiled16 in the ladder's gemm 4096"):
        found.timed(GEMM, "tiled16")


# ---------------------------------------------------------------------------------- the verdict


@pytest.mark.parametrize(
    ("parts", "verdict"),
    [
        ([Part("a", True), Part("b", True)], TRUE),
        ([Part("a", True), Part("b", False, "c")], CORRECTED),
        ([Part("a", False, "b")], WRONG),
        ([Part("a", False)], OPEN),  # nothing is known to be right instead
        ([Part("a", True), Part("b", False, "c", shown=False)], OPEN),
    ],
)
def test_verdict_follows_from_the_parts(parts: list[Part], verdict: str) -> None:
    claim = Claim("Title", "what they say", tuple(parts), "figures", where="here")
    assert claim.verdict == verdict
    text = claim.markdown(7)
    assert "## 7. Title" in text
    assert f"Verdict: **{verdict} here**." in text
    assert ("Correct: c" in text) == (verdict == CORRECTED)


def test_tables_align_figures() -> None:
    text = table(["a", "b"], [("`x`", "1,024"), ("y", "50%")])
    assert text.splitlines()[1:] == ["| --- | ---: |", "| `x` | 1,024 |", "| y | 50% |"]


# ------------------------------------------------------------------------ what turns a verdict


@dataclasses.dataclass
class Altered(Evidence):
    """Other figures than those that were found."""

    traced: Callable[[str, str], Trace] = smem.trace

    def trace(self, op: str, kernel: str) -> Trace:
        return self.traced(op, kernel)


def altered(evidence: Evidence) -> Altered:
    """A copy to change."""
    ladder, counters = copy.deepcopy(evidence.ladder), copy.deepcopy(evidence.counters)
    return Altered(ladder, counters, traced=evidence.trace)


def swapped(where: str = "trace ncu time", **kernels: str) -> Change:
    """A kernel behaves as another one."""

    def change(evidence: Evidence) -> Evidence:
        result = altered(evidence)
        if "trace" in where:
            result.traced = lambda op, kernel: evidence.trace(op, kernels.get(kernel, kernel))
        tables = [(result.ladder["rows"], "name")] if "time" in where else []
        tables += [(result.counters["rows"], "kernel")] if "ncu" in where else []
        for rows, key in tables:
            rows[:] = [
                {**like, key: row[key]}
                for row in rows
                for like in rows
                if like[key] == kernels.get(row[key], row[key]) and job(like) == job(row)
            ]
        return result

    return change


def job(row: dict[str, Any]) -> list[object]:
    """What a row of the results is about, but for the kernel."""
    return [row.get(key) for key in ("op", "problem", "sizes", "dtype")]


def timed(**ms: float) -> Change:
    """Kernels take other times at 4096^3."""

    def change(evidence: Evidence) -> Evidence:
        result = altered(evidence)
        for row in result.ladder["rows"]:
            if row["problem"] == GEMM and row["name"] in ms:
                row["rate"] *= row["ms"] / ms[row["name"]]
                row["ms"] = ms[row["name"]]
        return result

    return change


def profiled(kernel: str, counter: str, ncu: Callable[[dict], float]) -> Change:
    """A counter of ncu's is another function of the kernel's counters."""

    def change(evidence: Evidence) -> Evidence:
        result = altered(evidence)
        for row in result.counters["rows"]:
            if row["kernel"] == kernel:
                found = {name: pair["ncu"] for name, pair in row["counters"].items()}
                row["counters"][counter]["ncu"] = ncu(found)
        return result

    return change


def traced(kernel: str, memory: str, **fields: Callable[[Line], float]) -> Change:
    """Other counts of the kernel's loads of that memory."""

    def line_of(line: Line) -> Line:
        if line.action != "load" or line.memory not in memory.split():
            return line
        return dataclasses.replace(line, **{name: count(line) for name, count in fields.items()})

    def change(evidence: Evidence) -> Evidence:
        def trace(op: str, name: str) -> Trace:
            found = evidence.trace(op, name)
            if name != kernel:
                return found
            launches = [
                dataclasses.replace(launch, lines=tuple(map(line_of, launch.lines)))
                for launch in found.launches
            ]
            return dataclasses.replace(found, launches=tuple(launches))

        result = altered(evidence)
        result.traced = trace
        return result

    return change


def all_of(*changes: Change) -> Change:
    """One after the other."""
    return lambda evidence: functools.reduce(lambda made, change: change(made), changes, evidence)


CASES: list[tuple[Callable[[Evidence], Claim], Change, str]] = [
    # Padding does not help, or not by the trace alone, or nothing needs help.
    (shared_memory.bank_conflicts, swapped(padded="tiled"), CORRECTED),
    (shared_memory.bank_conflicts, swapped("trace", padded="tiled"), CORRECTED),
    (shared_memory.bank_conflicts, swapped(tiled="padded"), OPEN),
    (
        shared_memory.bank_conflicts,  # a broadcast costs two passes
        traced("tiled32_padded", "shared", wavefronts=lambda line: 2 * line.requests),
        CORRECTED,
    ),
    (global_memory.tiles_cut_reads, swapped(tiled32="tiled16"), OPEN),
    (
        global_memory.tiles_cut_reads,  # the naive kernel's warps share no read
        all_of(
            traced("naive", "a b", sectors=lambda line: 4 * line.requests),
            profiled("naive", "global load sectors", lambda n: 4 * n["global load requests"]),
        ),
        TRUE,
    ),
    (
        global_memory.panel_reads,  # each element once
        all_of(
            traced("panel", "a b", lanes=lambda line: line.lanes // 16),
            profiled("panel", "global load bytes", lambda n: n["global load bytes"] / 16),
        ),
        TRUE,
    ),
    (global_memory.panel_reads, swapped("trace ncu", panel="tiled32"), OPEN),
    (global_memory.panel_reads, swapped("ncu", panel="tiled32"), OPEN),
    (shared_memory.barriers, swapped(double_buffered="register_tiled"), OPEN),
    (shared_memory.barriers, swapped("ncu", shuffle="tree"), OPEN),
    (shared_memory.barriers, swapped("trace", tiled32="panel"), OPEN),
    (global_memory.intensity, swapped("trace", tiled16="tiled32"), OPEN),
    (global_memory.intensity, timed(naive=200), TRUE),
    (shared_memory.gemm_padding, timed(tiled32_padded=1), CORRECTED),
    (
        shared_memory.gemm_padding,  # tiled32 has conflicts
        all_of(
            timed(tiled32_padded=1),
            profiled("tiled32", "shared load conflicts", lambda n: n["shared load requests"]),
            traced(
                "tiled32",
                "shared",
                conflicts=lambda line: line.requests,
                merged_conflicts=lambda line: line.requests,
            ),
        ),
        TRUE,
    ),
    (global_memory.wide_loads, swapped(vectorized="tiled32"), WRONG),
    (shared_memory.register_tiles, swapped(register_tiled="vectorized"), WRONG),
    (shared_memory.register_tiles, timed(register_tiled=1000), CORRECTED),
    (global_memory.coalescing, swapped(naive="padded"), OPEN),
    (global_memory.coalescing, swapped("time", naive="padded"), CORRECTED),
    (speed.tile_speedups, timed(naive=2850, tiled16=180, tiled32=95), TRUE),
    (speed.tile_speedups, timed(tiled32=10), CORRECTED),
    (speed.share_of_peak, timed(double_buffered=2.2), CORRECTED),
    (speed.share_of_peak, timed(double_buffered=2.2, torch=2.2), TRUE),
]


@pytest.mark.parametrize(("make", "change", "verdict"), CASES)
def test_other_figures_turn_the_verdict(
    evidence: Evidence, make: Callable[[Evidence], Claim], change: Change, verdict: str
) -> None:
    assert make(evidence).verdict != verdict
    assert make(change(evidence)).verdict == verdict


def without_reserve(*args: Any) -> analysis.Occupancy:
    *block, chip = args
    return analysis.occupancy(
        *block, dataclasses.replace(analysis.capability(chip), shared_reserved=0)
    )


def one_large_sm(name: str) -> analysis.Device:
    """All that the device's SMs give, from one."""
    found = analysis.device(name)
    return dataclasses.replace(found, sms=1, clock_ghz=found.clock_ghz * found.sms)


def without_a100() -> list[analysis.Capacity]:
    return [row for row in analysis.capacity_table() if "A100" not in row.chips]


@pytest.mark.parametrize(
    ("make", "function", "verdict"),
    [
        (resources.occupancy, {"occupancy": without_reserve}, TRUE),
        (shared_memory.shared_bandwidth, {"device": one_large_sm}, TRUE),
        (resources.capacity, {"capacity_table": without_a100}, OPEN),
    ],
)
def test_other_devices_turn_the_verdict(
    evidence: Evidence,
    monkeypatch: pytest.MonkeyPatch,
    make: Callable[[Evidence], Claim],
    function: dict[str, Callable],
    verdict: str,
) -> None:
    assert make(evidence).verdict != verdict
    module = inspect.getmodule(make)
    monkeypatch.setattr(module, "analysis", SimpleNamespace(**vars(analysis) | function))
    assert make(evidence).verdict == verdict


def test_every_claim_can_turn() -> None:
    turned = {make for make, *_ in CASES}
    turned |= {resources.occupancy, shared_memory.shared_bandwidth, resources.capacity}
    assert turned == set(claims.CLAIMS)


# ------------------------------------------------------------------------------ the last section


def test_agreement_counts_what_differs() -> None:
    counters = {
        "fma": {"trace": 5, "ncu": 5},
        "multiply": {"trace": 0, "ncu": 0},
        "add": {"trace": 110, "ncu": 100},  # known_differences.py has a reason
        "barriers": {"trace": 1005, "ncu": 1000},
        "shuffles": {"trace": 7, "ncu": 6},
    }
    row = {"op": "gemm", "kernel": "tiled32", "sizes": [200, 136, 100], "dtype": "float32"}
    text = agreement({"rows": [row | {"counters": counters}]})
    assert "1 runs" in text
    assert "5 comparisons. In 1 both counts are 0" in text
    assert "In 1 of the other 4 the counts are equal" in text
    assert "1 differ for a known reason, 1 differ by at most 1% without one" in text
    assert "and 1 differ by more without one" in text
    assert "| shuffles | 1 | gemm `tiled32` 200 × 136 × 100 float32 | 7 | 6 | not known |" in text
    assert "threads outside skip them" in text
