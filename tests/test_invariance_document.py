"""docs/reproducibility.md shows what bench/invariance.py measured."""

import json

import needs_bench  # noqa: F401
import invariance


def test_document_shows_the_figures() -> None:
    found = json.loads(invariance.RESULTS.read_text(encoding="utf-8"))
    shown = invariance.DOCUMENT.read_text(encoding="utf-8")
    command = "`PYTHONPATH=. python bench/invariance.py`"
    assert shown == invariance.document(shown, found), f"run {command}"


def test_a_choice_that_is_the_best_costs_nothing() -> None:
    rows = [
        {"set": "one", "shape": "8 8 8", "regret": 0.9},
        {"set": "one", "shape": "9 9 9", "regret": 4.0},
        {"set": "two", "shape": "7 7 7", "regret": 1.5},
    ]
    versions = {"torch": "2", "torch_smem_gemm": "1", "commit": "z"}
    table = invariance.table({"device": "x", "date": "y", "versions": versions, "rows": rows})
    assert "| one | 2 | 2.00 | 2.45 | 4.00 | 9 9 9 |" in table
    assert "| two | 1 | 1.50 | 1.50 | 1.50 | 7 7 7 |" in table
