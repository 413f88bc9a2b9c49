"""Results files: their format, and that nothing is lost on the way to the disk and back."""

import json
from pathlib import Path
from typing import Any

import pytest

from torch_smem_gemm.bench import results
from torch_smem_gemm.bench.measure import Ceilings, Spread
from torch_smem_gemm.bench.rows import Row
from torch_smem_gemm.bench.telemetry import Range, Summary

ROOT = Path(__file__).resolve().parent.parent
SCHEMA = Path(results.__file__).with_name("results.schema.json")
COMMITTED = ROOT / "bench" / "results" / "h200.json"

ABOUT: dict[str, Any] = {
    "set": "tiny",
    "op": "gemm",
    "problem": "gemm 8 x 8 x 8 float32",
    "shape": "8 8 8",
    "dtype": "float32",
    "summary": "",
    "operations": 1024,
    "bytes": 768,
    "unit": "GFLOP/s",
}
FIGURES: dict[str, Any] = {"ms": 2.0, "ms_p20": 1.9, "ms_p80": 2.1, "rounds": 5, "rate": 1.0}
OURS = Row(
    **ABOUT,
    **FIGURES,
    name="smem",
    kind="kernel",
    host_us=8.5,
    graph_ms=1.5,
    shares={"read": 0.25, "FMA": 0.5},
    ratios={"torch": Spread(1.5, 1.25, 1.75, 5), "fast": Spread(0.5, 0.25, 0.75, 5)},
)
PEERS = [
    Row(**ABOUT, **FIGURES, name="torch", kind="peer"),
    Row(**ABOUT, **FIGURES, name="fast", kind="peer"),
    Row(**ABOUT, name="broken", kind="peer", status="wrong", detail="off by up to 1"),
]


def found(*rows: Row, **changes: Any) -> dict[str, Any]:
    return results.results(
        rows,
        command="bench gemm",
        device="a GPU",
        versions={"torch_smem_gemm": "1", "commit": None, "torch": "2", "driver": None},
        ceilings=Ceilings(None, 10.0, 20.0),
        gpu_state={"clocks.sm": "1 MHz"},
        telemetry=Summary(3, Range(1, 2, 3), None, None, None, ("software power cap",)),
        seconds=1.5,
        interrupted=False,
        **changes,
    )


def valid(contents: Any) -> bool:
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads(SCHEMA.read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema).is_valid(contents)


def test_save_and_load(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    results.save(path, found(OURS, *PEERS))
    loaded = results.load(path)
    assert loaded["rows"] == [OURS, *PEERS]
    assert loaded["command"] == "bench gemm"
    assert loaded["ceilings"]["read_gbs"] == 20.0
    assert valid(json.loads(path.read_text()))


def test_no_rows_are_valid_too(tmp_path: Path) -> None:
    results.save(tmp_path / "results.json", found())
    assert valid(json.loads((tmp_path / "results.json").read_text()))
    assert results.load(tmp_path / "results.json")["rows"] == []


@pytest.mark.parametrize(
    "change",
    [
        {"status": "fine"},
        {"status": "wrong", "detail": "off"},  # and has a time
        {"ms": None},
        {"ms": 0},
        {"kind": "torch"},
        {"ratios": {"torch": 1.5}},
        {"more": 1},
    ],
    ids=str,
)
def test_schema_refuses_what_is_no_row(change: dict[str, Any], tmp_path: Path) -> None:
    results.save(tmp_path / "results.json", found(OURS))
    contents = json.loads((tmp_path / "results.json").read_text())
    assert valid(contents)
    contents["rows"][0] |= change
    assert not valid(contents)


def test_committed_results_are_valid() -> None:
    assert valid(json.loads(COMMITTED.read_text()))
    assert results.load(COMMITTED)["rows"]


def test_figures_are_rounded() -> None:
    value = {"a": [1.23456789, (0.000123456789, 7)], "b": "1.23456789", "c": None, "d": True}
    expected = {"a": [1.23457, [0.000123457, 7]], "b": "1.23456789", "c": None, "d": True}
    assert results.rounded(value) == expected


def test_best_ratio_is_to_the_fastest_peer() -> None:
    assert results.best_ratio(OURS, [OURS, *PEERS]) == OURS.ratios["fast"]
    assert results.best_ratio(OURS, PEERS[:1]) == OURS.ratios["torch"]
    assert results.best_ratio(OURS, PEERS[2:]) is None
    bound = Row(**ABOUT, **FIGURES, name="fast", kind="bound")
    assert results.best_ratio(OURS, [PEERS[0], bound]) == OURS.ratios["torch"]


def test_problems_and_geometric_mean() -> None:
    other = Row(**ABOUT | {"set": "other"}, name="smem", kind="kernel")
    assert results.problems([OURS, other, *PEERS]) == [[OURS, *PEERS], [other]]
    assert results.geometric_mean([0.5, 2.0, 8.0]) == pytest.approx(2.0)
