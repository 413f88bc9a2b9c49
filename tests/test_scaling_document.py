"""docs/integration.md shows what bench/scaling.py measured, and the program runs without a GPU."""

import json

import needs_bench  # noqa: F401
import pytest
import scaling
import torch

FOUND = json.loads(scaling.RESULTS.read_text(encoding="utf-8"))


def test_document_shows_the_figures() -> None:
    shown = scaling.DOCUMENT.read_text(encoding="utf-8")
    assert shown == scaling.document(shown, FOUND), "run `PYTHONPATH=. python bench/scaling.py`"


def test_losses_agree_with_torchs() -> None:
    assert {row["gpus"] for row in FOUND["rows"]} == {1, 2, 4}
    assert all(row["losses_apart"] < 1e-5 for row in FOUND["rows"] if row["dtype"] == "float32")


def test_too_few_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(SystemExit, match="expected 4 GPUs, found 2"):
        scaling.measure()


@pytest.mark.sweep
@pytest.mark.skipif(not torch.distributed.is_available(), reason="needs torch.distributed")
def test_measures_every_layout_of_two_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    sizes = {"width": 16, "layers": 1, "batch": 1, "length": 4}
    rows = scaling.rows_of((2,), "cpu", sizes)
    found = {(row["layout"], row["dtype"]) for row in rows}
    layouts = ("DDP", "FSDP2", "tensor parallel")
    assert found == {(layout, dtype) for layout in layouts for dtype in scaling.DTYPES}
    for row in rows:
        assert row["tokens"] == 8
        assert row["losses_apart"] < 1e-6
        assert all(speed > 0 for speed in row["tokens_per_second"].values())
