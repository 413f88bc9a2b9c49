"""README and docs/reproducibility.md show what bench/invariant_models.py measured."""

import json
from pathlib import Path
from typing import Any

import needs_bench  # noqa: F401
import invariant_models
import pytest


@pytest.fixture
def found() -> dict[str, Any]:
    return json.loads(invariant_models.RESULTS.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        (invariant_models.DOCUMENT, invariant_models.document),
        (invariant_models.README, invariant_models.headline),
    ],
    ids=["document", "readme"],
)
def test_figures_are_shown(found: dict[str, Any], path: Path, shown: Any) -> None:
    text = path.read_text(encoding="utf-8")
    assert text == shown(text, found), "run `PYTHONPATH=. python bench/invariant_models.py`"


def test_every_row_held(found: dict[str, Any]) -> None:
    assert all(row["same_bits"] for row in found["rows"])


def test_a_row_that_did_not_hold_is_shown(found: dict[str, Any]) -> None:
    found["rows"] = [{**found["rows"][0], "same_bits": False}]
    assert "| **no** |" in invariant_models.table(found)
