"""docs/accuracy.md shows what bench/accuracy.py measured, and what it says of that is so."""

import json

import needs_bench  # noqa: F401
import accuracy
import pytest

from torch_smem_gemm.bench.bounds import bound

FOUND = json.loads(accuracy.RESULTS.read_text(encoding="utf-8"))


def test_document_shows_the_figures() -> None:
    shown = accuracy.DOCUMENT.read_text(encoding="utf-8")
    assert shown == accuracy.document(shown, FOUND), "run `PYTHONPATH=. python bench/accuracy.py`"


@pytest.mark.parametrize("row", FOUND["rows"], ids=lambda row: f"{row['data']}-{row['k']}")
def test_random_data_is_as_the_document_says(row: dict) -> None:
    (norm, largest), (cublas, _) = row["errors"]["fp16x3"], row["errors"]["cuBLAS"]
    assert norm <= max(cublas, 1.2e-7)
    assert largest <= 16
    for way in ("fp16x3", "ieee"):
        assert row["errors"][way][1] <= bound(way, accuracy.COLS, row["k"])


def test_every_row_is_there() -> None:
    rows = [(row["data"], row["k"]) for row in FOUND["rows"]]
    assert rows == [(data, k) for data in accuracy.DATA for k in accuracy.LENGTHS]
    assert all(list(row["errors"]) == list(accuracy.WAYS) for row in FOUND["rows"])
