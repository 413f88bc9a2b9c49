"""The trace of tensor-core kernels against Nsight Compute: tensor-cores-vs-ncu-h200.json."""

import json
from typing import Any

import needs_bench
import pytest
import tensor_cores_vs_ncu as against_ncu

import torch_smem_gemm as smem

RESULTS = needs_bench.BENCH / "results" / "tensor-cores-vs-ncu-h200.json"
ROWS = json.loads(RESULTS.read_text(encoding="utf-8"))["rows"] if RESULTS.exists() else []


def run_of(row: dict[str, Any]) -> against_ncu.Run:
    return against_ncu.Run(row["kernel"], tuple(row["sizes"]), row["dtype"], row["layout"])


def name(row: dict[str, Any]) -> str:
    run = run_of(row)
    return "-".join([run.kernel, "x".join(map(str, run.sizes)), run.dtype, run.layout])


@pytest.mark.one_in(4)
@pytest.mark.parametrize("row", ROWS, ids=name)
def test_trace_counts_as_it_did(row: dict[str, Any]) -> None:
    """So that ncu's agreement, measured once, still holds."""
    run = run_of(row)
    counted = against_ncu.counted(smem.trace("gemm", **against_ncu.arguments(run, device="cpu")))
    recorded = {name: pair["trace"] for name, pair in row["counters"].items()}
    assert counted == recorded


@pytest.mark.parametrize("row", ROWS, ids=name)
def test_ncu_agrees_or_the_reason_is_known(row: dict[str, Any]) -> None:
    unexplained = {
        name: pair
        for name, pair in row["counters"].items()
        if not against_ncu.is_explained(row["kernel"], name, pair)
    }
    assert not unexplained


@pytest.mark.skipif(not ROWS, reason="no results yet")
def test_results_are_of_the_runs() -> None:
    assert {run_of(row) for row in ROWS} == set(against_ncu.runs())


@pytest.mark.skipif(not ROWS, reason="no results yet")
def test_every_reason_explains_something() -> None:
    explained = {
        (row["kernel"].split(":")[0], name)
        for row in ROWS
        for name, pair in row["counters"].items()
        if against_ncu.difference(pair) > against_ncu.TOLERANCE
    }
    assert explained == set(against_ncu.REASONS)


def test_instructions_are_counted_by_their_opcode() -> None:
    text = "1,184 (HGMMA.64x64x16.F32: 1,024; LDSM.16.M88.4: 96; LDSM.16.MT88.4: 64)"
    families = against_ncu.opcode_families(text)
    assert families == {"HGMMA": 1024, "LDSM": 160}


def test_a_count_that_is_far_off_is_not_explained() -> None:
    assert against_ncu.is_explained("mma:64x64", "mma instructions", {"trace": 1000, "ncu": 1005})
    for counter in ("mma instructions", "barriers"):
        assert not against_ncu.is_explained("mma:64x64", counter, {"trace": 100, "ncu": 110})
    assert against_ncu.is_explained("wgmma:64x64", "barriers", {"trace": 0, "ncu": 80})
